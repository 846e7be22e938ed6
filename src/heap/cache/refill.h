/*
 * refill.h - gives an empty bin a batch. Owner only; holding no lock. malloc.c decides the order and what happens in
 * between.
 */
#ifndef HZ_HEAP_CACHE_REFILL_H
#define HZ_HEAP_CACHE_REFILL_H

#include "heap/threads/thread_block.h"

/* Both fill the class's empty bin and return one more block, or NULL and change nothing. */

/* From the depot: what threads had too much of. Takes no lock, touches no block, and counts the visit. */
void *hz_refill_from_depot(struct hz_thread_block *self, unsigned size_class);

/* From the thread's own shard. NULL when there is no memory. *fresh_units, unless it is NULL: as with hz_supply_refill.
   If it is not
   NULL only one block is taken: nobody would remember that the others have no memory. */
void *hz_refill_from_shard(struct hz_thread_block *self, unsigned size_class, uint64_t *fresh_units);

#endif
