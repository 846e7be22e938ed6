/*
 * tick.h - housekeeping from slow paths.
 */
#ifndef HZ_HEAP_TICK_H
#define HZ_HEAP_TICK_H

#include "heap/thread_block.h"

/* Now and then the depot ages and free pages are purged. May allocate, for the exit hook. Holding no lock. */
void hz_tick(struct hz_thread_block *self);

#endif
