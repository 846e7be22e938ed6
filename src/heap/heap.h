/*
 * heap.h - the two fast paths. Everything else is behind them.
 *
 *   malloc(n):  block = newest of the bin of n's class;  none?  -> slow path (refill)
 *   free(p):    bin = the one that p's page tag names;  at its limit, or p is its newest? -> slow path (look, flush)
 *
 * A block of a home class that belongs to another shard goes into the remote buffer, which is a bin like any other. Any
 * other block stays with the thread that frees it, whichever thread allocated it. The tags of NULL, foreign pointers
 * and large blocks name bin 0, which is always full. Allocations return NULL and set ENOMEM when there is no memory.
 */
#ifndef HZ_HEAP_HEAP_H
#define HZ_HEAP_HEAP_H

#include "cpu_bins.h"
#include "heap/free.h"
#include "heap/malloc.h"

#include <string.h>

HZ_INLINE void *hz_heap_malloc(size_t size) {
    if (HZ_UNLIKELY(size > HZ_SMALL_MAX))
        return hz_malloc_medium(size);
    struct hz_thread_block *self = hz_self();
    size_t offset = self->bin_of[(size + HZ_GRANULE_BYTES - 1) / HZ_GRANULE_BYTES];
    if (HZ_HAS_CPU_BINS) {
        void *taken = hz_cpu_pop(offset);
        if (HZ_LIKELY(taken != NULL))
            return hz_malloc_unseal(taken);
    }
    void *block = hz_bin_pop(&self->cache, hz_bin_at(&self->cache, offset));
    return HZ_LIKELY(block != NULL) ? hz_malloc_unseal(block) : hz_malloc_slow(size);
}

HZ_INLINE void hz_heap_free(void *block) {
    if (HZ_BLOCKS_SEALED)
        hz_free_seal(block);
    struct hz_thread_block *self = hz_self();
    const struct hz_pagetag *tag = &self->tags[((uintptr_t)block >> HZ_PAGE_LOG2) & self->tag_mask];
    /* sync: tag-publish, partner hz_pagetag_set */
    size_t offset = hz_free_offset(self, tag, hz_load_rlx(&tag->bin));
    if (HZ_HAS_CPU_BINS && hz_cpu_is_joined()) {
        if (HZ_UNLIKELY(!hz_cpu_push(offset, block)))
            hz_free_slow(block);
        return;
    }
    struct hz_bin *bin = hz_bin_at(&self->cache, offset);
    uint32_t top = hz_load_rlx(&bin->top); /* relaxed, both: owner */
    void *latest = hz_slot_load_rlx(&bin->newest);
    if (HZ_UNLIKELY(top >= bin->limit || block == latest)) { /* no valid free is of the newest block */
        hz_free_slow(block);
        return;
    }
    hz_bin_push(&self->cache, bin, top, latest, block);
}

/* As hz_heap_malloc, and zeroed. */
HZ_INLINE void *hz_heap_calloc(size_t size) {
    if (size > HZ_RUN_ABOVE_BYTES)
        return hz_calloc_long(size);
    void *block = hz_heap_malloc(size);
    return block == NULL ? NULL : memset(block, 0, size);
}

/* alignment: a power of two. */
HZ_INLINE void *hz_heap_aligned(size_t alignment, size_t size) {
    return alignment <= HZ_GRANULE_BYTES ? hz_heap_malloc(size) : hz_malloc_aligned(alignment, size);
}

#endif
