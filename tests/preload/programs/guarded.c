/*
 * guarded.c - what a program does that the sampling guard watches. A guarded block has exactly the size that was asked
 * for, so malloc_usable_size tells it from others.
 *
 *   count THREADS COUNT  each thread allocates and frees COUNT blocks; the number of guarded ones
 *   misuse               frees a guarded block and writes to it, each in a function of its own
 *   fork                 a child misuses its copy of a guarded block; the parent goes on with its own
 *   maps                 the names of the mapped files
 */
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 100, THREADS_MAX = 64 };

static bool is_guarded(void *block) {
    return malloc_usable_size(block) == SIZE;
}

static size_t count_each;

static void *count_some(void *guarded) {
    for (size_t i = 0; i < count_each; i++) {
        void *block = malloc(SIZE);
        if (block == NULL)
            abort();
        memset(block, 1, SIZE);
        *(size_t *)guarded += is_guarded(block);
        free(block);
    }
    return NULL;
}

static int count(unsigned threads) {
    pthread_t ids[THREADS_MAX];
    static size_t guarded[THREADS_MAX];
    size_t sum = 0;
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, count_some, &guarded[i]) != 0)
            return 1;
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        sum += guarded[i];
    }
    printf("%zu\n", sum);
    return 0;
}

/* Not inlined, and each with work to do after the call, so that each has a frame in the report. */
__attribute__((noinline)) static char *make_it(void) {
    char *block = malloc(SIZE);
    while (!is_guarded(block)) {
        free(block);
        block = malloc(SIZE);
    }
    return block;
}

__attribute__((noinline)) static int release_it(void *block) {
    free(block);
    return getpid() > 0;
}

__attribute__((noinline)) static int touch_it(volatile char *block) {
    block[3] = 1;
    return getpid() > 0;
}

static int misuse(void) {
    char *block = make_it();
    return release_it(block) + touch_it(block);
}

static int fork_and_misuse(void) {
    char *block = make_it();
    pid_t child = fork();
    if (child == 0)
        return release_it(block) + touch_it(block);
    int status = 0;
    if (waitpid(child, &status, 0) != child)
        return 1;
    printf("child: signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    memset(block, 1, SIZE);
    free(block);
    free(make_it());
    puts("parent: well");
    return 0;
}

static int maps(void) {
    char line[4096];
    FILE *file = fopen("/proc/self/maps", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        fputs(line, stdout);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "count") == 0) {
        count_each = strtoul(argv[3], NULL, 10);
        return count((unsigned)strtoul(argv[2], NULL, 10));
    }
    if (argc == 2 && strcmp(argv[1], "misuse") == 0)
        return misuse();
    if (argc == 2 && strcmp(argv[1], "fork") == 0)
        return fork_and_misuse();
    if (argc == 2 && strcmp(argv[1], "maps") == 0)
        return maps();
    fprintf(stderr, "usage: guarded count THREADS COUNT | misuse | fork | maps\n");
    return 2;
}
