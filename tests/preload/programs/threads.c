/*
 * threads.c - what threads cost. Usage:
 *
 *   threads ended COUNT             so many threads allocate a little at the same time, and end; then malloc_trim
 *   threads sleeping COUNT SIZES    so many threads allocate, and sleep. SIZES: none, small, medium
 *
 * Prints kilobytes that are resident, without what was resident before the threads, and without the bytes in their
 * blocks.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STACK_BYTES = 128 << 10, BLOCKS = 40 };

static pthread_barrier_t reached, left;
static const char *sizes;
static atomic_size_t live;

static long resident_kb(void) {
    char line[256];
    long kb = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file != NULL && kb < 0 && fgets(line, sizeof line, file) != NULL)
        (void)sscanf(line, "Rss: %ld kB", &kb);
    if (file == NULL || kb < 0)
        abort();
    fclose(file);
    return kb;
}

static size_t size_of(unsigned number, unsigned *random) {
    *random = *random * 1103515245 + 12345;
    if (strcmp(sizes, "small") == 0)
        return 16 + (*random >> 8) % 1009;
    return (size_t)2048 << (number % 6);
}

static void *work(void *argument) {
    void *blocks[BLOCKS] = {0};
    unsigned random = (unsigned)(size_t)argument;
    for (unsigned i = 0; i < BLOCKS && strcmp(sizes, "none") != 0; i++) {
        blocks[i] = malloc(size_of(i, &random));
        size_t bytes = malloc_usable_size(blocks[i]);
        memset(blocks[i], 1, bytes);
        atomic_fetch_add(&live, bytes);
    }
    pthread_barrier_wait(&reached);
    pthread_barrier_wait(&left);
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 3)
        return 2;
    size_t threads = strtoul(arguments[2], NULL, 10);
    sizes = count > 3 ? arguments[3] : "small";
    pthread_t *ids =
        mmap(NULL, threads * sizeof *ids, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_barrier_init(&reached, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&left, NULL, (unsigned)threads + 1);
    long before = resident_kb();
    for (size_t i = 0; i < threads; i++)
        if (pthread_create(&ids[i], &attributes, work, (void *)i) != 0)
            abort();
    pthread_barrier_wait(&reached);
    if (strcmp(arguments[1], "sleeping") == 0) {
        printf("%ld\n", resident_kb() - before - (long)(atomic_load(&live) >> 10));
        fflush(stdout);
        _exit(0);
    }
    pthread_barrier_wait(&left);
    for (size_t i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    malloc_trim(0);
    printf("%ld\n", resident_kb() - before);
    return 0;
}
