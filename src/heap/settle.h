/*
 * settle.h - memory goes back at once when the pages hold much more than the blocks that are out of them.
 *
 * While the density is low (pages/density.h), what rests of sparse classes goes home, and parts of pages that changed
 * lately are purged. With a keeper this happens in its rounds: what is too much goes within 100 ms, and traffic is not
 * disturbed. Without one, slow paths do it, a little in each tick, since any tick can be the thread's last.
 */
#ifndef HZ_HEAP_SETTLE_H
#define HZ_HEAP_SETTLE_H

#include "heap/thread_block.h"

/* The part that a tick does. `busy`: the bin for which the thread is in a slow path. `keeper_runs`: the keeper does it
   too, so only what it might be too late for remains. */
void hz_settle_tick(struct hz_thread_block *self, unsigned busy, bool keeper_runs);

/* Everything, from the keeper. */
void hz_settle_all(struct hz_thread_block *self);

/* Whether the pages hold more beside the blocks that are out than they should even while threads work. */
bool hz_settle_is_loose(void);

/* In ticks: a part of a walk that purges parts of pages which have not changed since the last walk. True when the walk
   has ended. */
bool hz_settle_walk(struct hz_thread_block *self);

#endif
