/*
 * age.h - sends home blocks that rest in the depot. Any thread, holding no lock.
 */
#ifndef HZ_HEAP_CACHE_AGE_H
#define HZ_HEAP_CACHE_AGE_H

#include "heap/threads/thread_block.h"

/* Begins a round unless one is under way. Due to go home are all resting blocks of a class that is sparse, or that no
   thread pushed or popped since the last round, and a 32nd of any other class. */
void hz_age_depot_begin(void);

/* Sends up to `batches` batches home of what is due. False when nothing is left of the round. */
bool hz_age_depot_step(struct hz_thread_block *self, uint32_t batches);

/* Sends up to `batches` batches of one class home. */
void hz_age_depot_class(struct hz_thread_block *self, unsigned size_class, uint32_t batches);

/* The thread is about to leave its shard. If it is the shard's last thread, this sends the shard's surplus home: no
   other thread would pop it. */
void hz_age_surplus_leave(struct hz_thread_block *self);

/* Bytes of all blocks that rest. Any thread; a figure. */
size_t hz_age_resting_bytes(void);

/* Sends home the blocks of all classes that rest now. Ends even if other threads keep pushing. */
void hz_age_depot_fully(struct hz_thread_block *self);

#endif
