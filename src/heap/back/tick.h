/*
 * tick.h - housekeeping from slow paths.
 */
#ifndef HZ_HEAP_BACK_TICK_H
#define HZ_HEAP_BACK_TICK_H

#include "heap/threads/thread_block.h"

enum {
    HZ_TICK_VISITS = 32,      /* slow-path visits between two looks at the clock */
    HZ_VISIT_BYTES_LOG2 = 11, /* a visit weighs 1 more for each 2 KiB of the class's block size */
    HZ_VISIT_MOST = 8,        /* most that a visit weighs unless ticks_soon: few bins exceed 8 * HZ_BIN_BYTES */
};

HZ_NOINLINE void hz_tick_now(struct hz_thread_block *self, unsigned index);

/* For a slow path of bin `index`, a class or HZ_REMOTE_BIN: counts the visit, and now and then does a tick (chores.h),
   which may allocate, for the exit hook. Holding no lock. */
HZ_INLINE void hz_tick(struct hz_thread_block *self, unsigned index) {
    unsigned size_class = index == HZ_REMOTE_BIN ? 1 : index;
    uint32_t weight = 1 + (hz_class_shapes[size_class].bytes >> HZ_VISIT_BYTES_LOG2);
    self->slow_count += self->ticks_soon ? weight : (uint32_t)hz_min(weight, HZ_VISIT_MOST);
    if (HZ_UNLIKELY(self->slow_count >= HZ_TICK_VISITS))
        hz_tick_now(self, index);
}

/* The same after a free of a zone's block. Such a free always takes a slow path, so only one of 32 counts as a visit.
   `frees`: as how many frees the call counts. `self` may be hz_thread_none. */
void hz_tick_zone(struct hz_thread_block *self, uint32_t frees, unsigned size_class);

#endif
