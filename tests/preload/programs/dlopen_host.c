/*
 * dlopen_host.c - a plain C program that loads the library with dlopen, uses it from threads that started before the
 * load and end after the close, and closes it. Usage: dlopen_host LIBRARY PREFIX, where the functions are named
 * PREFIXmalloc and so on.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, BLOCKS = 500, ROUNDS = 20 };

static void *(*lib_malloc)(size_t);
static void *(*lib_realloc)(void *, size_t);
static void (*lib_free)(void *);
static pthread_barrier_t loaded;
static pthread_barrier_t used;
static pthread_barrier_t closed;

static void *find(void *library, const char *prefix, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    void *function = dlsym(library, full);
    if (function == NULL) {
        fprintf(stderr, "no %s: %s\n", full, dlerror());
        exit(2);
    }
    return function;
}

static void use(unsigned char *blocks[BLOCKS], size_t seed) {
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = 1 + (i * 7919 + seed * 31) % 40000;
        blocks[i] = lib_malloc(size);
        if (blocks[i] == NULL)
            abort();
        memset(blocks[i], (int)(i & 0xff), size);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = lib_realloc(blocks[i], 50000);
        if (blocks[i] == NULL || blocks[i][0] != (i & 0xff))
            abort();
    }
    for (size_t i = 0; i < BLOCKS; i++)
        lib_free(blocks[i]);
}

/* The thread starts before the library is loaded and ends after it is closed. */
static void *run(void *seed) {
    static unsigned char *blocks[THREADS + 1][BLOCKS];
    pthread_barrier_wait(&loaded);
    for (size_t round = 0; round < ROUNDS; round++)
        use(blocks[(uintptr_t)seed], (uintptr_t)seed + round);
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&closed);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: dlopen_host LIBRARY PREFIX\n");
        return 2;
    }
    pthread_t threads[THREADS];
    pthread_barrier_init(&loaded, NULL, THREADS + 1);
    pthread_barrier_init(&used, NULL, THREADS + 1);
    pthread_barrier_init(&closed, NULL, THREADS + 1);
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run, (void *)i) != 0)
            return 3;
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        _Exit(4);
    }
    lib_malloc = (void *(*)(size_t))find(library, argv[2], "malloc");
    lib_realloc = (void *(*)(void *, size_t))find(library, argv[2], "realloc");
    lib_free = (void (*)(void *))find(library, argv[2], "free");
    pthread_barrier_wait(&loaded);
    static unsigned char *blocks[BLOCKS];
    use(blocks, 99);
    char *own = malloc(100); /* the program's own malloc is still glibc's */
    free(own);
    pthread_barrier_wait(&used);
    int error = dlclose(library);
    pthread_barrier_wait(&closed); /* now the threads end; their exit hooks are in the closed library */
    if (error != 0)
        return 5;
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
