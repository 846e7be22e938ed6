/* plugin.c - a library with an allocator of its own inside, which uses threads. */
#include <hakozuna/hakozuna.h>

#include <pthread.h>
#include <stddef.h>
#include <string.h>

static void *work(void *unused) {
    enum { BLOCKS = 50, ROUNDS = 2000, STEP = 50 };
    void *blocks[BLOCKS];
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = hz_malloc(STEP * (i + 1));
            if (blocks[i] != NULL)
                memset(blocks[i], 1, STEP);
        }
        for (size_t i = 0; i < BLOCKS; i++)
            hz_free(blocks[i]);
    }
    return unused;
}

void run(void);
void run(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            return;
    for (int i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
}
