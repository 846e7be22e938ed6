/*
 * held_lock.c - threads that allocate and free without end, more than there are shards: held_lock. A debugger stops one
 * of them where it holds a lock, and calls malloc in another one.
 */
#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 4, BLOCKS = 3000 };

static pthread_barrier_t ready;

/* All threads run, and the first one is outside malloc and free for good. */
__attribute__((noinline)) void all_are_ready(void) {
    __asm__ volatile("");
}

static void *work(void *unused) {
    pthread_barrier_wait(&ready);
    all_are_ready();
    for (;;) {
        void *volatile blocks[BLOCKS];
        for (size_t i = 0; i < BLOCKS; i++)
            blocks[i] = malloc(16 + i * 37 % 60000);
        for (size_t i = 0; i < BLOCKS; i++)
            free(blocks[i]);
    }
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    if (pthread_barrier_init(&ready, NULL, THREADS + 1) != 0)
        return 2;
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            return 2;
    pthread_barrier_wait(&ready);
    return pthread_join(threads[0], NULL);
}
