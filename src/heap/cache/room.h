/*
 * room.h - how many blocks a bin may hold now. Owner only.
 */
#ifndef HZ_HEAP_CACHE_ROOM_H
#define HZ_HEAP_CACHE_ROOM_H

#include "heap/threads/thread_block.h"

/* The thread is in a slow path because the class's bin is empty or full. The bin's room grows if it is small or the
   thread's bins have little room, but only within the thread's allowance (allowance.h); to keep to it, another bin's
   blocks can go home. True if the thread's bins have too much room: then shrink this one. */
bool hz_room_visit(struct hz_thread_block *self, unsigned size_class);

/* Sums up the room of all bins anew, as for a thread block that a vanished thread had in a fork's parent. */
void hz_room_recount(struct hz_thread_block *self);

/* Sets a bin's room in blocks: at least what it holds, at most its capacity. */
void hz_room_set(struct hz_thread_block *self, unsigned size_class, uint32_t room);

/* Blocks that an empty bin should get: half its room, but at most as many as may move in one step. */
uint32_t hz_room_batch(const struct hz_thread_block *self, unsigned size_class);

/* Reduces the room of a bin: to a few blocks if the class is sparse, else by half; never below what the bin holds and
   one block more. `index`: a class, or HZ_REMOTE_BIN, whose room stays. */
void hz_room_shrink(struct hz_thread_block *self, unsigned index);

/* The same for all bins of a thread that ends; they are empty. A thread that visits a class once then leaves it the
   room that it found. */
void hz_room_shrink_all(struct hz_thread_block *self);

/* Makes room in the empty bin for `count` blocks: a batch may come from a larger bin. */
void hz_room_ensure(struct hz_thread_block *self, unsigned size_class, uint32_t count);

#endif
