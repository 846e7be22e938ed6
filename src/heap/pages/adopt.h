/*
 * adopt.h - pages of shards whose threads have all ended go to a shard that needs pages, before new ones are made.
 */
#ifndef HZ_HEAP_PAGES_ADOPT_H
#define HZ_HEAP_PAGES_ADOPT_H

#include "heap/threads/thread_block.h"

/* The thread's own shard adopts pages of the class from a shard without threads. Returns their number. Holding no lock.
 */
uint32_t hz_pages_adopt(struct hz_thread_block *self, unsigned size_class);

/* In a fork's child, while its thread is outside the heap: completes the move of pages that vanished threads were
   moving. */
void hz_adopt_settle_fork(void);

#endif
