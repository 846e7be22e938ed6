/*
 * inspect.h - looks for misuse when a block comes to the slow path of free, and when blocks leave a bin for the
 * depot. Blocks that go home are checked by their pages (page.c).
 */
#ifndef HZ_HEAP_CACHE_INSPECT_H
#define HZ_HEAP_CACHE_INSPECT_H

#include "heap/thread_block.h"

/* The program frees `block` into the bin `index` (a class or HZ_REMOTE_BIN). The bin is at its limit, or the block is
   its newest. Ends the program if the address is not a block's start, or if the block or another one is found to be
   free already. Otherwise raises the limit towards the bin's room. True if the bin can take the block now. Owner,
   holding no lock. */
bool hz_inspect_free(struct hz_thread_block *self, unsigned index, void *block);

/* For blocks of one class. Ends the program if one of the addresses is not a block's start. In some of the calls, also
   ends it if an address occurs twice. */
void hz_inspect_batch(struct hz_thread_block *self, unsigned size_class, void *const *blocks, uint32_t count);

#endif
