/*
 * heap_at_end.c - writes the library's report, and ends with a core file, or waits for gcore: heap_at_end REPORT HOW.
 *
 * Two threads allocate and free blocks of all sizes, so that blocks rest in bins, depot and mailboxes, and then sleep.
 * The process runs without the keeper, so nothing changes between the report and the end. stdout gets one line for each
 * block of more than 2 MiB and each run: "ADDRESS BYTES". HOW: "wait"; "abort"; "child": a child of fork aborts;
 * "smash": a free block's link is overwritten, and then abort; "zone": the same as abort, with blocks in a zone.
 */
#include <hakozuna/hakozuna.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The program is linked without the library that is preloaded. */
#pragma weak hz_usable_size
#pragma weak hz_stats_print
#pragma weak hz_zone_create
#pragma weak hz_zone_malloc

enum { SENT = 5000, KEPT = 20000, LARGE = 5 };

static void *volatile sent[SENT];
static void *volatile kept[KEPT];
static void *volatile large[LARGE];
static void *volatile in_zone[1000];
static pthread_barrier_t ready;

static void *frees_others(void *unused) {
    for (size_t i = 0; i < 3000; i++) {
        void *volatile block = malloc(i);
        free(block);
    }
    for (size_t i = 0; i < SENT - 1000; i++)
        free(sent[i]);
    pthread_barrier_wait(&ready);
    pause();
    return unused;
}

static void *fills_the_depot(void *unused) {
    static void *volatile blocks[4000];
    for (size_t i = 0; i < 4000; i++)
        blocks[i] = malloc(1000);
    for (size_t i = 0; i < 4000; i++)
        free(blocks[i]);
    pthread_barrier_wait(&ready);
    pause();
    return unused;
}

static void allocate(void) {
    static const size_t sizes[LARGE] = {100 << 10, 1 << 20, 3 << 20, 5 << 20, 200 << 20};
    for (size_t i = 0; i < SENT; i++)
        sent[i] = malloc(200 + i);
    for (size_t i = 0; i < KEPT; i++) {
        kept[i] = malloc(1 + i % 5000);
        memset(kept[i], 'x', 1 + i % 5000);
    }
    for (size_t i = 0; i < KEPT; i += 3)
        free(kept[i]);
    for (size_t i = 0; i < LARGE; i++) {
        large[i] = malloc(sizes[i]);
        memset(large[i], 'y', sizes[i] < 10 << 20 ? sizes[i] : 4096);
    }
    void *volatile gone = malloc(10 << 20);
    memset(gone, 'z', 10 << 20);
    free(gone);
    for (size_t i = 0; i < LARGE; i++)
        printf("%p %zu\n", large[i], hz_usable_size(large[i]));
    fflush(stdout);
}

int main(int count, char **words) {
    pthread_t threads[2];
    if (count != 3 || pthread_barrier_init(&ready, NULL, 3) != 0)
        return 2;
    allocate();
    if (strcmp(words[2], "zone") == 0) {
        struct hz_zone *zone = hz_zone_create();
        for (size_t i = 0; i < 1000; i++)
            in_zone[i] = hz_zone_malloc(zone, i + 1);
        in_zone[0] = hz_zone_malloc(zone, 300 << 10);
    }
    if (pthread_create(&threads[0], NULL, frees_others, NULL) != 0 ||
        pthread_create(&threads[1], NULL, fills_the_depot, NULL) != 0)
        return 2;
    pthread_barrier_wait(&ready);
    if (strcmp(words[2], "child") == 0) {
        pid_t child = fork();
        if (child != 0)
            return waitpid(child, NULL, 0) == child ? 0 : 2;
        free(malloc(100));
    }
    int file = open(words[1], O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0 || hz_stats_print(file, HZ_STATS_JSON) != 0 || close(file) != 0)
        return 2;
    if (strcmp(words[2], "smash") == 0)
        for (size_t i = 0; i < SENT - 1000; i++)
            memset(sent[i], 0xff, 8);
    if (strcmp(words[2], "wait") != 0)
        abort();
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
