/*
 * room.h - how many blocks a bin may hold now, how much room all bins of a thread may have together, and what happens
 * to bins that are not used. Owner only.
 *
 * A few threads may have all the room that they ask for. If there are many threads they share what is allowed for all,
 * so that they do not keep far more than the program has live.
 */
#ifndef HZ_HEAP_CACHE_ROOM_H
#define HZ_HEAP_CACHE_ROOM_H

#include "heap/threads/thread_block.h"

/* Bytes of room for one thread: HZ_ROOM_BYTES, plus an equal share of HZ_ROOM_SHARED_BYTES, with the addition for few
   threads, and of half of hz_pressure_recent_out_short. Bins are half full on average, and what they hold is out too:
   if R is all but the last share, of all threads, they hold B = (R + (live + B) / 2) / 2, which is 2/3 R + 1/3 live.
   Where the heap has a soft limit, all threads together at most 1/16 of it. Any thread. */
size_t hz_allowance(void);

/* The thread is in a slow path because the class's bin is empty or full. The bin's room grows if it is small or the
   thread's bins have little room, but only within the thread's allowance; to keep to it, another bin's
   blocks can go home. True if the thread's bins have too much room: then shrink this one. */
bool hz_room_visit(struct hz_thread_block *self, unsigned size_class);

/* Sums up the room of all bins anew, as for a thread block that a vanished thread had in a fork's parent. */
void hz_room_recount(struct hz_thread_block *self);

/* Sets a bin's room in blocks: at least what it holds, at most its capacity. */
void hz_room_set(struct hz_thread_block *self, unsigned size_class, uint32_t room);

/* Blocks that an empty bin should get: half its room, but at most as many as may move in one step. */
uint32_t hz_room_batch(const struct hz_thread_block *self, unsigned size_class);

/* Reduces the room of a bin: to 8 blocks if the class is sparse, otherwise by half but not below hz_bin_first. The
   bin always keeps room for what it holds, and for one block more unless it pays for each. `index`: a class, or
   HZ_REMOTE_BIN, whose room never changes. */
void hz_room_shrink(struct hz_thread_block *self, unsigned index);

/* The same for all bins of a thread that ends; they are empty. A thread that visits a class once then leaves it the
   room that it found. */
void hz_room_shrink_all(struct hz_thread_block *self);

/* Makes room in the empty bin for `count` blocks: a batch may come from a larger bin. */
void hz_room_ensure(struct hz_thread_block *self, unsigned size_class, uint32_t count);

/* Sends home the blocks of bins that hold what they held at the last round, and halves their room. Begins a round every
   HZ_DEPOT_AGE_MS and does a part of it in each call. `busy`: the bin that the thread is here for; its top says
   nothing. Owner. */
void hz_idle_bins_flush(struct hz_thread_block *self, unsigned busy, uint64_t now_ms);

#endif
