/*
 * idle.h - a thread's own bins, emptied when they have not been used for a while.
 */
#ifndef HZ_HEAP_CACHE_IDLE_H
#define HZ_HEAP_CACHE_IDLE_H

#include "heap/threads/thread_block.h"

/* Sends home the blocks of bins that hold what they held at the last round, and halves their room. Begins a round every
   HZ_DEPOT_AGE_MS and does a part of it in each call. `busy`: the bin that the thread is here for; its top says
   nothing. Owner. */
void hz_idle_bins_flush(struct hz_thread_block *self, unsigned busy, uint64_t now_ms);

#endif
