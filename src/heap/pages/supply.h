/*
 * supply.h - what a shard gives to its threads: blocks that were sent to it, blocks of its pages, pages of ended
 * threads, new pages.
 */
#ifndef HZ_HEAP_PAGES_SUPPLY_H
#define HZ_HEAP_PAGES_SUPPLY_H

#include "heap/threads/thread_block.h"

/* Up to `want` blocks of the class from the thread's own shard. 0 when there is no memory. Takes the shard's exclusive.
   If fresh_units is not NULL, what it points to is set as by hz_pages_carve_locked, or stays as it is. */
uint32_t hz_supply_refill(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want,
                          uint64_t *fresh_units);

#endif
