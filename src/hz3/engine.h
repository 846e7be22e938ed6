/*
 * engine.h - hz3 as front/ sees it, with the two fast paths. Everything else of the engine is behind them.
 *
 *   malloc(n):  block = top of the bin of n's class;  none?  -> slow path (refill)
 *   free(p):    bin = the one that p's page tag names;  full? -> slow path (flush)
 *
 * A freed block is kept by the thread that frees it, whoever allocated it ("adopt"); which bin is full, foreign
 * pointers, large blocks and classes that go home all show as "full bin 0".
 */
#ifndef HZ3_ENGINE_H
#define HZ3_ENGINE_H

#include "hz3/hz3.h"

HZ_INLINE struct hz3_bin *hz3_bin_at(struct hz3_thread *self, size_t offset) {
    return (struct hz3_bin *)(void *)((char *)self + offset); /* the bins come first in the thread block */
}

/* No memory: NULL and ENOMEM; so for all allocating functions here. */
HZ_INLINE void *hz_engine_malloc(size_t size) {
    if (HZ_UNLIKELY(size > HZ_LINEAR_MAX))
        return hz3_malloc_medium(size);
    size_t offset = (size + HZ_GRANULE_BYTES - 1) & ~(size_t)(HZ_GRANULE_BYTES - 1);
    struct hz3_bin *bin = hz3_bin_at(hz3_self, offset);
    void *block = hz_load_rlx(&bin->top)[-1]; /* relaxed: owner */
    if (HZ_UNLIKELY(block == NULL))
        return hz3_malloc_slow(size);
    hz_owner_move_rel(&bin->top, -1);
    return block;
}

HZ_INLINE void hz_engine_free(void *block) {
    struct hz3_thread *self = hz3_self;
    const struct hz_pagetag *tag = &self->tags[((uintptr_t)block >> HZ_PAGE_LOG2) & self->tag_mask];
    struct hz3_bin *bin = hz3_bin_at(self, hz_load_rlx(&tag->bin)); /* sync: tag-publish */
    void **top = hz_load_rlx(&bin->top);                            /* relaxed: owner */
    if (HZ_UNLIKELY(top == bin->limit)) {
        hz3_free_slow(block);
        return;
    }
    *top = block;
    hz_owner_move_rel(&bin->top, 1); /* release: a fork's copy must not have the top without the slot */
}

/* As malloc, zeroed; size does not overflow. */
void *hz_engine_calloc(size_t size);

/* alignment: a power of two. */
void *hz_engine_aligned(size_t alignment, size_t size);

/* Usable size of a live block; ends the program if it is not one of ours. */
size_t hz_engine_usable(const void *block);

/* Resizes without moving the contents by copy; NULL when that is not possible. size > 0. */
void *hz_engine_resize(void *block, size_t size);

size_t hz_engine_good_size(size_t size);

/* Start of the block that an address is in; NULL when it is in no page of ours. */
const void *hz_engine_block_start(const void *address);

/* At load time: makes the calling thread ready and installs the hooks, before the program installs its own. */
void hz_engine_start(void);

size_t hz_engine_purge(void);
const char *hz_engine_config_string(void);

struct hz_report;
struct hz_stats;
void hz_engine_stats(struct hz_stats *stats);
/* Adds the engine's counters and its classes. */
void hz_engine_report(struct hz_report *report);

#endif
