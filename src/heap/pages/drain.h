/*
 * drain.h - takes what was sent to a shard: into a bin that needs blocks, or into the pages.
 *
 * A list that is only partly needed leaves its rest in the shard's carry, from where the next refill goes on. Sending
 * it back would cost a walk over cold blocks.
 */
#ifndef HZ_HEAP_PAGES_DRAIN_H
#define HZ_HEAP_PAGES_DRAIN_H

#include "heap/pages/shard.h"

/* Up to `want` blocks that were sent to the thread's own shard, leftovers first. Under its exclusive, or by its only
   thread (HZ_EXCLUSIVE_ALWAYS=0). */
uint32_t hz_shard_refill_sent(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want);

/* Puts what was sent to the shard into its pages. Returns the strays, which belong to other shards by now: the caller
   hands them to hz_blocks_put after it has released the lock. Needs the shard's exclusive. */
struct hz_list hz_shard_drain_locked(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class);

/* The same for all classes, each under the lock for itself so that the shard's threads wait only briefly. Holding no
   lock. */
void hz_shard_drain(struct hz_thread_block *self, struct hz_shard *shard);

/* A thread leaves the shard. The last one drains the classes that have leftovers or a mark. These are hints: what they
   miss stays for the next thread or purge. */
void hz_shard_leave(struct hz_thread_block *self, struct hz_shard *shard);

/* Blocks waiting in carry and mailbox, at some recent moment. */
uint32_t hz_shard_waiting(struct hz_shard *shard, unsigned size_class);

#endif
