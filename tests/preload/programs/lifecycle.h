/* lifecycle.h - a stage in the life of a process, for lifecycle.c and its module. */
#ifndef HZ_TESTS_LIFECYCLE_H
#define HZ_TESTS_LIFECYCLE_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS_MAX = 64, SIZE_STEP = 777 };

struct blocks {
    unsigned char *each[BLOCKS_MAX];
    size_t count;
};

/* Blocks from small ones to mappings. */
static size_t size_of(size_t index) {
    return index % 8 == 7 ? (size_t)3 << 20 : 1 + index * SIZE_STEP;
}

static void say(const char *stage) {
    if (write(STDOUT_FILENO, stage, strlen(stage)) < 0 || write(STDOUT_FILENO, "\n", 1) < 0)
        abort();
}

static void stage(struct blocks *blocks, const char *name) {
    for (size_t i = 0; i < blocks->count; i++)
        if (blocks->each[i] != NULL && (blocks->each[i][0] != i || blocks->each[i][size_of(i) - 1] != i))
            abort();
    for (int i = 0; i < 3 && blocks->count < BLOCKS_MAX; i++) {
        size_t index = blocks->count;
        unsigned char *block = index % 2 == 0 ? malloc(size_of(index)) : calloc(1, size_of(index));
        if (block == NULL)
            abort();
        memset(block, (int)index, size_of(index));
        blocks->each[blocks->count++] = block;
    }
    size_t oldest = 0; /* of an earlier stage, or of this one */
    while (oldest < blocks->count && blocks->each[oldest] == NULL)
        oldest++;
    free(blocks->each[oldest]);
    blocks->each[oldest] = NULL;
    say(name);
}

static void free_all(struct blocks *blocks) {
    for (size_t i = 0; i < blocks->count; i++) {
        free(blocks->each[i]);
        blocks->each[i] = NULL;
    }
}

#endif
