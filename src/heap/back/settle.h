/*
 * settle.h - memory goes back at once when the pages hold much more than the blocks that are out of them.
 *
 * While the density is low (back/density.h), what rests of sparse classes goes home, and parts of pages are purged
 * even if they changed lately. With a keeper, its rounds send home what is too much within 100 ms, and its walks purge
 * parts; ticks help only when that is too slow. Without one, each tick does a little: it can be the thread's last.
 */
#ifndef HZ_HEAP_BACK_SETTLE_H
#define HZ_HEAP_BACK_SETTLE_H

#include "heap/threads/thread_block.h"

/* The part that a tick does. `busy`: the bin for which the thread is in a slow path. `keeper_runs`: the keeper does it
   too, so only what it might be too late for remains. True if the next tick should come soon: there is more to do. */
bool hz_settle_tick(struct hz_thread_block *self, unsigned busy, bool keeper_runs);

/* In each round of the keeper: sends home what rests of every sparse class. Purges no pages. */
void hz_settle_all(struct hz_thread_block *self);

/* Whether the slack is so large that the keeper should walk over the pages even while threads work. */
bool hz_settle_is_loose(void);

/* In ticks: a part of a walk that purges parts of pages which have not changed since the last walk. True when the walk
   has ended. */
bool hz_settle_walk(struct hz_thread_block *self);

#endif
