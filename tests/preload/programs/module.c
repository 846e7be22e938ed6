/* module.c - a module that actor.c loads: it allocates when it is loaded and unloaded, and in its thread-local data. */
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 200 };

static _Thread_local char room[3000];
static void *blocks[BLOCKS];

void visit(void);

__attribute__((constructor)) static void begin(void) {
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(i * 50 + 1);
}

__attribute__((destructor)) static void end(void) {
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

void visit(void) {
    memset(room, 1, sizeof room); /* the first touch in a thread allocates it */
    free(malloc(sizeof room));
}
