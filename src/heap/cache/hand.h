/*
 * hand.h - counts the allocations of a thread for the sampling guard or the heap profile, and chooses some: for the
 * guard one in N, for the profile by bytes. A process has one of the two.
 *
 * Without either there are no hands. With one, malloc takes blocks of up to HZ_GUARD_BLOCK_MAX bytes from hands, one
 * per class, and free puts them into the bins as ever. A hand is a small bin that only the slow path of
 * malloc fills, from the class's bin. The fast path of malloc is unchanged: it finds its bin in a table of the thread
 * block, and that table now names hands. Without hands nothing could be counted, since a push undoes a pop.
 *
 * Every allocation has a number, which it gets when its block enters the hand, or in the slow path if the allocation
 * uses no hand. Each number is chosen with probability 1/N, independently of all others; so the distance to the next
 * chosen number can be drawn at once (hz_random_tries), and can be forgotten and drawn anew at any time. The allocation
 * with a chosen number gets a block of the pool. If the hand is being filled when a number is chosen, the hand gets
 * only the blocks before that number and is *due*: the allocation that finds it empty is the chosen one. Which
 * allocation has which number depends on what was chosen before. That does no harm, because the choice has no memory;
 * with gaps uniform in 1..2N-1, some classes would be sampled too seldom.
 *
 * The heap profile chooses places in the stream of a thread's bytes, on average one in N bytes, and independently of
 * each other (a Poisson process); an allocation that has such a place is chosen. So an allocation has a weight: 1 for
 * the guard, the bytes of its class for the profile. The distance to the next place has no memory either. Classes
 * without a hand take the slow path at each allocation.
 *
 * Owner only. A fork may copy a hand at any instant, as it may copy a bin.
 */
#ifndef HZ_HEAP_CACHE_HAND_H
#define HZ_HEAP_CACHE_HAND_H

#include "heap/thread_block.h"

/* Whether the thread's malloc takes blocks from hands. */
HZ_INLINE bool hz_hands_are_open(const struct hz_thread_block *self) {
    return HZ_UNLIKELY(hz_load_rlx(&self->has_hands)); /* relaxed: owner */
}

/* From now on the thread's malloc takes blocks from hands, if allocations are sampled and the thread block has room for
   hands. The thread has its shard, and cannot allocate yet. */
void hz_hands_open(struct hz_thread_block *self);

/* Takes a block from the class's hand; NULL if it is empty, or the class has none. */
void *hz_hand_pop(struct hz_thread_block *self, unsigned size_class);

/* Counts an allocation that found its class's hand empty. Returns a block of the guard's or the profile's pool if the
   allocation is chosen. NULL: the caller takes an ordinary block, and then calls hz_hand_fill. */
void *hz_hand_sample(struct hz_thread_block *self, unsigned size_class, size_t size);

/* Counts an allocation that uses no hand. Returns a block of a pool if the allocation is chosen, else NULL. For the
   profile, a large block is not counted here. */
void *hz_hand_sample_aligned(struct hz_thread_block *self, size_t alignment, size_t size);

/* Counts an allocation of a large block for the profile. If it is chosen, the profile gets the block. */
void hz_hand_count_large(struct hz_thread_block *self, const void *block, size_t size);

/* Moves the newest blocks of the class's bin into its hand. True if the bin had too few; the bin is empty then. */
bool hz_hand_fill(struct hz_thread_block *self, unsigned size_class);

/* Sends home the blocks in the hands of a thread block, and draws the next chosen number anew. */
void hz_hands_empty(struct hz_thread_block *thread);

/* Blocks in a hand. Other threads get a recent figure. */
uint32_t hz_hand_held(struct hz_thread_block *thread, unsigned size_class);

/* In a fork's child: draws anew, so that not every child chooses the same allocations. */
void hz_hands_settle_fork(struct hz_thread_block *self);

#endif
