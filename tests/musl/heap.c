/*
 * heap.c - the malloc family in a program linked with musl: contents, threads whose blocks others free, thread ends,
 * forks while threads allocate, fork handlers, calls of libc that allocate. Prints "well", or the first condition that
 * does not hold. In C, since Debian has no C++ library for musl. Argument "own": malloc must be ours.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 100, BLOCKS = 200, FORKS = 20 };

#define MUST(what)                                                                                                     \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                                         \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static size_t size_of(unsigned number) {
    static const size_t sizes[] = {1, 16, 48, 100, 700, 3000, 20000, 70000, 300000, 5000000};
    return sizes[number % 97 % (number % 31 == 0 ? 10 : 7)];
}

static unsigned char *filled(size_t size, unsigned char value) {
    unsigned char *block = malloc(size);
    MUST(block != NULL && (uintptr_t)block % 16 == 0);
    memset(block, value, size);
    return block;
}

static int holds(const unsigned char *block, size_t size, unsigned char value) {
    for (size_t i = 0; i < size; i++)
        if (block[i] != value)
            return 0;
    return 1;
}

static void family(void) {
    for (size_t size = 0; size < 100000; size = size * 9 / 8 + 1) {
        unsigned char *block = calloc(1, size);
        MUST(block != NULL && holds(block, size, 0) && malloc_usable_size(block) >= size);
        memset(block, 1, size);
        block = realloc(block, size * 2 + 1);
        MUST(block != NULL && holds(block, size, 1));
        free(block);
        void *aligned = NULL;
        MUST(posix_memalign(&aligned, 4096, size) == 0 && (uintptr_t)aligned % 4096 == 0);
        free(aligned);
        aligned = aligned_alloc(64, size);
        MUST(aligned != NULL && (uintptr_t)aligned % 64 == 0);
        free(aligned);
    }
    errno = 0;
    volatile size_t most = SIZE_MAX;
    MUST(malloc(most / 2 + 1) == NULL && errno == ENOMEM);
    char *text = NULL;
    MUST(asprintf(&text, "%d", 42) == 2 && strcmp(text, "42") == 0);
    free(text);
    text = strdup("copied");
    MUST(text != NULL && strcmp(text, "copied") == 0);
    free(text);
}

/* One slot for each thread. A thread swaps its block with another's, and frees what it gets. */
static _Atomic(unsigned char *) slots[THREADS];
static _Atomic(int) stop;
static pthread_key_t key;

/* A destructor allocates and frees at the thread's end, perhaps after our own hook. */
static void at_end(void *block) {
    free(block);
    for (unsigned i = 0; i < 100; i++)
        free(filled(size_of(i), 3));
}

static void work(unsigned self, unsigned seed) {
    unsigned char *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = filled(size_of(seed + i), (unsigned char)i);
    for (unsigned i = 0; i < BLOCKS; i++) {
        MUST(holds(blocks[i], size_of(seed + i), (unsigned char)i));
        if (i % 3 == 0)
            free(__atomic_exchange_n((unsigned char **)&slots[(self + i) % THREADS], blocks[i], __ATOMIC_ACQ_REL));
        else
            free(blocks[i]);
    }
}

static void *worker(void *argument) {
    unsigned self = (unsigned)(uintptr_t)argument;
    MUST(pthread_setspecific(key, filled(100, 1)) == 0);
    for (unsigned round = 0; round < ROUNDS && !stop; round++)
        work(self, round * 7 + self);
    return NULL;
}

static void threads(void) {
    pthread_t thread[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        MUST(pthread_create(&thread[i], NULL, worker, (void *)i) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        MUST(pthread_join(thread[i], NULL) == 0);
}

static void child_handler(void) {
    free(filled(1000, 9)); /* a program's own fork handler may allocate */
}

static void *fork_often(void *unused) {
    (void)unused;
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            stop = 0;
            work(0, 5);
            family();
            _exit(7);
        }
        int status = 0;
        MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    stop = 1;
    return NULL;
}

static void forks_under_load(void) {
    pthread_t forker;
    MUST(pthread_create(&forker, NULL, fork_often, NULL) == 0);
    while (!stop)
        threads();
    MUST(pthread_join(forker, NULL) == 0);
    stop = 0;
}

int main(int count, char **arguments) {
    MUST(pthread_key_create(&key, at_end) == 0);
    MUST(pthread_atfork(NULL, NULL, child_handler) == 0);
    void *block = malloc(300);
    MUST(count < 2 || strcmp(arguments[1], "own") != 0 || malloc_usable_size(block) == 320); /* musl: 300 */
    free(block);
    family();
    threads();
    forks_under_load();
    puts("well");
    return 0;
}
