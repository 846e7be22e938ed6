/*
 * allowance.h - how much room the bins of one thread may have together.
 *
 * A bin's room says how many blocks it may hold (room.h). A few threads may have all the room that they ask for. If
 * there are many threads they share what is allowed for all, so that they do not keep far more than the program has
 * live.
 */
#ifndef HZ_HEAP_CACHE_ALLOWANCE_H
#define HZ_HEAP_CACHE_ALLOWANCE_H

#include "heap/threads/thread_block.h"

/* Bytes of room for one thread: HZ_ROOM_BYTES, and an equal share of HZ_ROOM_SHARED_BYTES and of half the bytes that
   were lately out of the pages. Bins are half full on average, and what they hold is out too: if R is threads x
   HZ_ROOM_BYTES + HZ_ROOM_SHARED_BYTES, they hold B = (R + (live + B) / 2) / 2, which is 2/3 R + 1/3 live. Where the
   heap has a soft limit, all threads together at most 1/16 of it. Any thread. */
size_t hz_allowance(void);

/* Whether so many threads share that a bin should not grow just because its thread has come for the class again: each
   of them would keep a little of every class, which is more than most of them have live. Any thread. */
bool hz_allowance_is_crowded(void);

/* Threads that share, at least 1. Any thread. */
size_t hz_allowance_threads(void);

/* A thread begins to share, because it attaches or resumes; or it ends, or was parked. Any thread. */
void hz_allowance_join(void);
void hz_allowance_leave(void);

/* In a fork's child: `threads` are left that share. */
void hz_allowance_after_fork(uint32_t threads);

#endif
