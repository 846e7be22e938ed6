/*
 * inspect.h - looks for misuse when a block comes to the slow path of free, and when blocks leave a bin for the
 * depot. Blocks that go home are checked by their pages (page.c).
 */
#ifndef HZ_HEAP_CACHE_INSPECT_H
#define HZ_HEAP_CACHE_INSPECT_H

#include "heap/threads/thread_block.h"

/* So many of a new thread's first frees into bins are all looked at: more than a test program makes, but few enough not
   to slow down the start of a thread. */
enum { HZ_FREES_WATCHED = 128 };

/* All frees of a new thread into its bins are looked at: their limits stay 0, and a full bin goes home, where each
   block's page knows that it is free. Owner. */
HZ_INLINE bool hz_frees_are_watched(const struct hz_thread_block *self) {
    return self->frees_watched < HZ_FREES_WATCHED;
}

/* The program frees `block` into the bin `index` (a class or HZ_REMOTE_BIN). The bin is not below its limit, or the
   block is its newest. Ends the program if the address is not a block's start, or if the block or another one is found
   to be free already. Otherwise raises the limit towards the bin's room, unless the thread's frees are watched. True if
   the bin can take the block now. Owner, holding no lock. */
bool hz_inspect_free(struct hz_thread_block *self, unsigned index, void *block);

/* Whether the bin holds the block. Owner. */
bool hz_inspect_bin_has(struct hz_cache *cache, unsigned index, const void *block);

/* For blocks of one class. Ends the program if one of the addresses does not look like a block's start. In some of the
   calls it looks closer, and also ends the program if an address occurs twice. */
void hz_inspect_batch(struct hz_thread_block *self, unsigned size_class, void *const *blocks, uint32_t count);

#endif
