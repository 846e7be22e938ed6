/*
 * depot.h - batches of blocks that one thread has too many of and another thread can take. A home class has a stack of
 * batches in each shard, for that shard's threads; any other class has a stack in each part, for all threads. Any
 * thread; lock-free.
 */
#ifndef HZ_HEAP_CACHE_DEPOT_H
#define HZ_HEAP_CACHE_DEPOT_H

#include "heap/threads/thread_block.h"

/* Keeps `count` (1..HZ_BATCH_COUNT) blocks for another thread. False when enough of the class rests already, or when
   there is no memory for a batch. The thread has a shard. */
bool hz_depot_push(struct hz_thread_block *self, unsigned size_class, void *const *blocks, uint32_t count);

/* Keeps `count` (1..hz_batch_count) blocks of a home class for the threads of their shard. The shard has threads. False
   in the same cases as hz_depot_push. Any thread. */
bool hz_depot_send(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class, void *const *blocks,
                   uint32_t count);

/* Pops a batch of up to hz_batch_count blocks into `out`, or, if that is NULL, above the top of the thread's bin, which
   is empty. Returns its length; 0 when there is none. */
uint32_t hz_depot_pop(struct hz_thread_block *self, unsigned size_class, void **out);

/* As hz_depot_pop, for a thread that sends the blocks home. This does not count as passing from thread to thread.
   Blocks of a home class come from the shard in which most of them rest, from idle shards first. */
uint32_t hz_depot_pop_home(struct hz_thread_block *self, unsigned size_class, void **out);

/* Once in each ageing round. Unless threads go on popping what others pushed, the class soon stops counting as
   passing, and less of it may rest. */
void hz_depot_forget_passing(unsigned size_class);

/* Once in each ageing round. Unless threads go on asking for as much as the depot refuses, the limit of the class soon
   falls back to HZ_DEPOT_BYTES. */
void hz_depot_halve_swing(unsigned size_class);

/* The limit of the class falls back at once, because memory is wanted or the class is sparse. */
void hz_depot_forget_swing(unsigned size_class);

/* Blocks of the class that rest now. */
uint32_t hz_depot_blocks(unsigned size_class);

/* Those of them for which nobody seems to wait: all, or half of a class that passes from thread to thread. */
uint32_t hz_depot_spare_blocks(unsigned size_class);

/* Whether batches of the class were pushed or popped since the last call for it, or for hz_depot_forget_use. Of a home
   class also notes which shards were idle meanwhile. One thread at a time, else a hint. */
bool hz_depot_was_used(unsigned size_class);

/* What was pushed and popped up to now does not count as use. */
void hz_depot_forget_use(unsigned size_class);

/* Blocks of a home class that rest in shards which were idle at the last hz_depot_was_used; 0 of any other class. */
uint32_t hz_depot_idle_blocks(unsigned size_class);

/* Calls `visit` for each block that rests. For a moment at which no other thread is in the heap. */
void hz_depot_walk(void (*visit)(void *context, const void *block), void *context);

#endif
