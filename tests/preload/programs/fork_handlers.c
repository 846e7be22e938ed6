/* A library whose constructor registers fork handlers before anything else of it runs. It allocates nothing, so the
   allocator may not have been used yet. The handlers allocate and free so much that they reach every slow path; the
   child's also starts a thread that does the same. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 2000, CHILD_SECONDS = 20 };

extern int fork_handlers_ran; /* in the child: 1 */
int fork_handlers_ran;

/* The program may set them: called just before and just after the fork, in the parent. */
extern void (*fork_handlers_last)(void);
extern void (*fork_handlers_first)(void);
void (*fork_handlers_last)(void);
void (*fork_handlers_first)(void);

static void use_heap(void) {
    static __thread char *held[BLOCKS];
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            size_t bytes = i % 100 == 0 ? 200000 : i % 10 == 0 ? 5000 + i : 16 + i % 700;
            held[i] = malloc(bytes);
            if (held[i] == NULL)
                abort();
            memset(held[i], (int)i, 16);
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            if (held[i][7] != (char)i)
                abort();
            free(held[i]);
        }
    }
    free(malloc(9 << 20));
}

static void *use_heap_in_thread(void *unused) {
    use_heap();
    return unused;
}

static void before(void) {
    use_heap();
    if (fork_handlers_last != NULL)
        fork_handlers_last();
}

static void in_parent(void) {
    if (fork_handlers_first != NULL)
        fork_handlers_first();
    use_heap();
}

static void in_child(void) {
    pthread_t thread;
    alarm(CHILD_SECONDS);
    use_heap();
    if (pthread_create(&thread, NULL, use_heap_in_thread, NULL) != 0 || pthread_join(thread, NULL) != 0)
        abort();
    use_heap();
    fork_handlers_ran = 1;
}

__attribute__((constructor)) static void at_load(void) {
    if (pthread_atfork(before, in_parent, in_child) != 0)
        abort();
}
