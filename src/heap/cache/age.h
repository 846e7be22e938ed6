/*
 * age.h - sends home blocks that rest in the depot. Any thread, holding no lock.
 */
#ifndef HZ_HEAP_CACHE_AGE_H
#define HZ_HEAP_CACHE_AGE_H

#include "heap/thread_block.h"

/* One round: each class sends a 32nd of its resting blocks home, within a budget. The next round goes on with the next
   class. */
void hz_age_depot(struct hz_thread_block *self);

/* Sends home the blocks of all classes that rest now. Ends even if other threads keep pushing. */
void hz_age_depot_fully(struct hz_thread_block *self);

#endif
