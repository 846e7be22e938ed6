/*
 * engine.h - an engine as front/ sees it, with the two fast paths. Everything else is behind them.
 *
 *   malloc(n):  block = newest of the bin of n's class;  none?  -> slow path (refill)
 *   free(p):    bin = the one that p's page tag names;  full? -> slow path (flush)
 *
 * A block of a home class that belongs to another shard goes into the remote buffer instead, which is a bin like any
 * other; blocks of other classes are kept by the thread that frees them, whoever allocated them. Which bin is full,
 * foreign pointers and large blocks all show as "full bin 0".
 */
#ifndef HZ_CORE_ENGINE_H
#define HZ_CORE_ENGINE_H

#include "core/core.h"

/* No memory: NULL and ENOMEM; so for all allocating functions here. */
HZ_INLINE void *hz_engine_malloc(size_t size) {
    if (HZ_UNLIKELY(size > HZ_SMALL_MAX))
        return hz_malloc_medium(size);
    struct hz_thread_block *self = hz_self;
    size_t offset = self->bin_of[(size + HZ_GRANULE_BYTES - 1) / HZ_GRANULE_BYTES];
    void *block = hz_bin_pop(self, hz_bin_at(self, offset));
    return HZ_LIKELY(block != NULL) ? block : hz_malloc_slow(size);
}

/* Whether a block with that tag and bin offset is for the remote buffer: of a home class, and not of the thread's
   shard. An offset of 0 is no class. */
HZ_INLINE bool hz_goes_home(const struct hz_thread_block *self, const struct hz_pagetag *tag, size_t offset) {
    return HZ_HAS_HOME && hz_load_rlx(&tag->owner) != self->owner &&                        /* sync: tag-publish */
           offset - hz_bin_offset(1) < hz_bin_offset(hz_class_of(HZ_HOME_BELOW_BYTES) - 1); /* a constant */
}

HZ_INLINE void hz_engine_free(void *block) {
    struct hz_thread_block *self = hz_self;
    const struct hz_pagetag *tag = &self->tags[((uintptr_t)block >> HZ_PAGE_LOG2) & self->tag_mask];
    size_t offset = hz_load_rlx(&tag->bin); /* sync: tag-publish */
    if (hz_goes_home(self, tag, offset))
        offset = hz_bin_offset(HZ_REMOTE_BIN);
    struct hz_bin *bin = hz_bin_at(self, offset);
    uint32_t top = hz_load_rlx(&bin->top); /* relaxed: owner */
    if (HZ_UNLIKELY(top == bin->limit)) {
        hz_free_slow(block);
        return;
    }
    hz_bin_push(self, bin, top, block);
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
