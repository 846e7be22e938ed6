/* A program whose threads run, sleep, fork and ask for their own profile, each when a line on stdin says so. */
#include "hakozuna/hakozuna.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 3, BLOCKS = 100, SMALL = 3000, LARGE = 300000 };

static void *volatile kept[1 << 16];
static unsigned kept_count;

static void *used(size_t size) {
    void *block = malloc(size);
    if (block != NULL)
        memset(block, 1, size);
    return block;
}

/* One function for each thread, so that a profile shows which threads it has seen. */
static void churn(void) {
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = used(SMALL);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    free(used(LARGE));
}

__attribute__((noinline)) static void first(void) {
    churn();
    __asm__ volatile("");
}

__attribute__((noinline)) static void second(void) {
    churn();
    __asm__ volatile("");
}

__attribute__((noinline)) static void third(void) {
    churn();
    __asm__ volatile("");
}

static void (*const works[THREADS])(void) = {first, second, third};
static pthread_barrier_t step;
static volatile int is_over;

static void *thread_main(void *work) {
    for (;;) {
        pthread_barrier_wait(&step);
        if (is_over)
            return NULL;
        (*(void (*const *)(void))work)();
        pthread_barrier_wait(&step);
    }
}

/* Mostly hits in bins, which take no look at the clock; the same work each time. */
static inline void hits(void) {
    for (int i = 0; i < 1000; i++) {
        free(malloc(16));
        free(malloc(1000));
        free(malloc(5000));
        free(realloc(malloc(40), 45));
        free(calloc(3, 100));
    }
}

__attribute__((noinline)) static void warm_up(void) {
    hits();
    __asm__ volatile("");
}

/* The instructions of this function and of what it calls are counted. */
__attribute__((noinline)) void counted(void) {
    hits();
    __asm__ volatile("");
}

static void start(void) {
    int (*sampling_start)(size_t) = (int (*)(size_t))dlsym(RTLD_DEFAULT, "hz_sampling_start");
    int result = sampling_start(4096);
    printf("%s\n", result == 0 ? "0" : errno == EALREADY ? "EALREADY" : "another error");
}

int main(int argc, char **argv) {
    char line[64];
    if (argc > 1 && strcmp(argv[1], "count") == 0) { /* without other threads, so no keeper empties the bins */
        warm_up();
        counted();
        return 0;
    }
    pthread_t threads[THREADS];
    pthread_barrier_init(&step, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, thread_main, (void *)&works[i]);
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (strcmp(line, "work\n") == 0) {
            for (int i = 0; i < 2; i++)
                pthread_barrier_wait(&step);
            printf("done\n");
        } else if (strcmp(line, "keep\n") == 0) {
            for (int i = 0; i < BLOCKS; i++)
                kept[kept_count++] = used(SMALL);
            printf("done\n");
        } else if (strcmp(line, "drop\n") == 0) {
            while (kept_count > 0)
                free(kept[--kept_count]);
            printf("done\n");
        } else if (strcmp(line, "start\n") == 0) {
            start();
        } else if (strcmp(line, "fork\n") == 0) {
            pid_t child = fork();
            if (child != 0)
                printf("%d\n", (int)child);
        }
        fflush(stdout);
    }
    is_over = 1;
    _exit(0);
}
