/*
 * tick.h - housekeeping from slow paths.
 */
#ifndef HZ_HEAP_BACK_TICK_H
#define HZ_HEAP_BACK_TICK_H

#include "heap/threads/thread_block.h"

/* The thread is in a slow path for the bin `index`, a class or HZ_REMOTE_BIN. Now and then idle bins and the depot send
   blocks home, and free memory is purged, a little in each call. May allocate, for the exit hook. Holding no lock. */
void hz_tick(struct hz_thread_block *self, unsigned index);

/* The same after a free of a zone's block. Such a free always takes a slow path, so only one of 32 counts as a visit.
   `frees`: as how many frees the call counts. `self` may be hz_thread_none. */
void hz_tick_zone(struct hz_thread_block *self, uint32_t frees, unsigned size_class);

#endif
