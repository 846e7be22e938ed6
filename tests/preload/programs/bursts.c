/*
 * bursts.c - bursts of blocks of every size in turn. Usage: bursts THREADS MIB
 *
 * The threads fill MIB with blocks of one size, and then each frees, in mixed order, what another one has allocated. So
 * it goes through 129 sizes, 16 bytes to 1 MiB. One thread is the first one: then the program starts none.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 64, LISTS = 61, LEAST = 16, MOST = 1 << 20, STEPS = 8 };

struct block {
    struct block *next;
};

static pthread_barrier_t turn;
static unsigned threads;
static size_t bytes_each;
static struct block *lists[THREADS_MAX][LISTS]; /* of the thread that fills them; after a turn of the next one */

static void fill(struct block **heads, size_t size, unsigned *random) {
    for (size_t done = 0; done < bytes_each; done += size) {
        struct block *block = malloc(size);
        if (block == NULL) {
            perror("malloc");
            exit(1);
        }
        memset(block, 1, size);
        struct block **head = &heads[(*random = *random * 1103515245 + 12345) / 65536 % LISTS];
        block->next = *head;
        *head = block;
    }
}

static void drain(struct block **heads) {
    for (unsigned list = 0; list < LISTS; list++)
        for (struct block *next; heads[list] != NULL; heads[list] = next) {
            next = heads[list]->next;
            free(heads[list]);
        }
}

static void *work(void *argument) {
    unsigned self = (unsigned)(uintptr_t)argument;
    unsigned random = self + 1;
    for (size_t base = LEAST; base <= MOST; base *= 2)
        for (size_t step = 0; step < STEPS && base + base * step / STEPS <= MOST; step++) {
            fill(lists[self], base + base * step / STEPS, &random);
            pthread_barrier_wait(&turn);
            drain(lists[(self + 1) % threads]);
            pthread_barrier_wait(&turn);
        }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t started[THREADS_MAX];
    threads = argc == 3 ? (unsigned)atoi(argv[1]) : 0;
    if (threads < 1 || threads > THREADS_MAX) {
        fprintf(stderr, "Usage: bursts THREADS MIB, 1 to %d threads\n", THREADS_MAX);
        return 2;
    }
    bytes_each = ((size_t)atoi(argv[2]) << 20) / threads;
    pthread_barrier_init(&turn, NULL, threads);
    for (unsigned i = 1; i < threads; i++)
        if (pthread_create(&started[i], NULL, work, (void *)(uintptr_t)i) != 0)
            return 1;
    work((void *)(uintptr_t)0);
    for (unsigned i = 1; i < threads; i++)
        pthread_join(started[i], NULL);
    return 0;
}
