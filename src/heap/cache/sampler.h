/*
 * sampler.h - counts the allocations of a thread for the sampling guard or the heap profile, and chooses some: for the
 * guard one in N, for the profile by bytes. A process has one of the two.
 *
 * Malloc's fast path finds its bin in a table of the thread block. While allocations are sampled, that table names the
 * bin that is always empty, so each malloc takes the slow path, which counts it before it looks into the class's bin.
 * The code of the fast paths is unchanged, and so is the order in which blocks are used. The fast path leaves no trace
 * that could be counted later: it only pops, and the push of a free undoes that.
 *
 * The guard chooses each allocation with probability 1/N, independently of all others; so the distance to the next
 * chosen one can be drawn at once (hz_random_tries), and can be forgotten and drawn anew at any time. With gaps uniform
 * in 1..2N-1, some classes would be sampled too seldom. A chosen allocation gets a block of the guard's pool.
 *
 * The heap profile chooses bytes in the stream of all bytes that a thread allocates, on average one in N, independently
 * of each other (a Poisson process); an allocation that contains a chosen byte is chosen. So an allocation has a
 * weight: 1 for the guard, the bytes of its class for the profile. The distance to the next chosen byte (hz_random_gap)
 * can be drawn anew at any time too. A chosen allocation gets a block of the profile's pool; a large one is an ordinary
 * block that the profile notes.
 *
 * Only the thread that owns the thread block calls these functions.
 */
#ifndef HZ_HEAP_CACHE_SAMPLER_H
#define HZ_HEAP_CACHE_SAMPLER_H

#include "heap/threads/thread_block.h"

/* Whether the thread's allocations are counted. */
HZ_INLINE bool hz_sampler_is_on(const struct hz_thread_block *self) {
    return HZ_UNLIKELY(hz_load_rlx(&self->sampling.is_on)); /* relaxed: owner */
}

/* Counts the thread's allocations from now on if the process samples allocations, and no longer if it does not. The
   thread must not allocate during the call, but a signal handler may. */
void hz_sampler_settle(struct hz_thread_block *self);

/* Whether hz_sampler_settle would change nothing. Also for another thread's block. */
bool hz_sampler_is_settled(const struct hz_thread_block *thread);

/* Counts an allocation of up to HZ_SMALL_MAX bytes, and takes the newest block of its class's bin. NULL, and nothing is
   counted, if the allocation is chosen, its size is 0, or the bin is empty. */
HZ_INLINE void *hz_sampler_pop(struct hz_thread_block *self, size_t size) {
    struct hz_counting counting = self->sampling.of[(size + HZ_GRANULE_BYTES - 1) / HZ_GRANULE_BYTES];
    uint64_t countdown = self->sampling.countdown;
    if (HZ_UNLIKELY(countdown < counting.weight))
        return NULL;
    void *block = hz_bin_pop(&self->cache, hz_bin_at(&self->cache, counting.bin));
    if (HZ_LIKELY(block != NULL))
        self->sampling.countdown = countdown - counting.weight;
    return block;
}

/* Counts an allocation of a class, at a multiple of `alignment`. Returns a block of the guard's or the profile's pool
   if it is chosen. NULL: the caller takes an ordinary block. */
void *hz_sampler_alloc(struct hz_thread_block *self, unsigned size_class, size_t alignment, size_t size);

/* Counts an allocation of a large block for the profile. If it is chosen, the profile notes the block. */
void hz_sampler_count_large(struct hz_thread_block *self, const void *block, size_t size);

/* Whether a block of the size must be a run of pages: while the heap is profiled, since it must see the block's free.
 */
HZ_INLINE bool hz_sampler_wants_run(const struct hz_thread_block *self, size_t size) {
    return self->sampling.is_by_bytes && size > HZ_RUN_ABOVE_BYTES;
}

/* Draws the distance to the next chosen allocation anew. */
void hz_sampler_forget(struct hz_thread_block *self);

/* In a fork's child: draws anew, so that not every child chooses the same allocations. */
void hz_sampler_settle_fork(struct hz_thread_block *self);

#endif
