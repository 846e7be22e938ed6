/*
 * hand.h - counts the allocations of a thread for the sampling guard, and takes one in N to the guard's pool.
 *
 * Without the guard there are no hands. With it malloc takes blocks of up to HZ_GUARD_BLOCK_MAX bytes from hands, one
 * per class, and free puts them into the bins as ever. A hand is a small bin that only the slow path of malloc fills,
 * from the class's bin. The fast path of malloc is the same: it finds its bin in a table of the thread block, which
 * names hands instead. Without hands nothing could be counted, since a push undoes what a pop has done.
 *
 * Every allocation has a number, given when its block comes into the hand, or in the slow path if it passes no hand.
 * Each number is chosen with the chance 1/N, independently of all others; so the wait for the next chosen one can be
 * drawn at once (hz_random_tries), and forgotten and drawn anew at any time. The allocation with a chosen number is
 * taken to the pool. If that number falls to a block of a hand, the hand gets only the blocks before it and is *due*:
 * the allocation that finds it empty is the one. Which allocation has which number depends on what was chosen before.
 * That does no harm, because the choice has no memory: with gaps uniform in 1..2N-1 some classes are sampled too
 * seldom.
 *
 * Owner only. A fork may copy a hand at any instant, as it may copy a bin.
 */
#ifndef HZ_HEAP_CACHE_HAND_H
#define HZ_HEAP_CACHE_HAND_H

#include "heap/thread_block.h"

/* Whether malloc of the thread takes blocks from hands. */
HZ_INLINE bool hz_hands_are_open(const struct hz_thread_block *self) {
    return HZ_UNLIKELY(hz_load_rlx(&self->has_hands)); /* relaxed: owner */
}

/* From now on malloc of the thread takes blocks from hands, if the sampling guard is on and the thread block has room
   for them. The thread has its shard, and cannot allocate yet. */
void hz_hands_open(struct hz_thread_block *self);

/* Takes a block from the class's hand; NULL if it is empty, or the class has none. */
void *hz_hand_pop(struct hz_thread_block *self, unsigned size_class);

/* Counts an allocation that found its class's hand empty. If it is chosen: a block of the pool. NULL: it takes an
   ordinary block; after that, hz_hand_fill. */
void *hz_hand_sample(struct hz_thread_block *self, unsigned size_class, size_t size);

/* Counts an allocation that passes no hand. A block of the pool, or NULL. */
void *hz_hand_sample_aligned(struct hz_thread_block *self, size_t alignment, size_t size);

/* Moves the newest blocks of the class's bin into its hand. True if the bin, which is empty then, had too few. */
bool hz_hand_fill(struct hz_thread_block *self, unsigned size_class);

/* Sends home what is in the hands of a thread block, and draws anew. */
void hz_hands_empty(struct hz_thread_block *thread);

/* Blocks in a hand. Other threads get a recent figure. */
uint32_t hz_hand_held(struct hz_thread_block *thread, unsigned size_class);

/* In a fork's child: the thread chooses anew, so that not every child chooses the same. */
void hz_hands_settle_fork(struct hz_thread_block *self);

#endif
