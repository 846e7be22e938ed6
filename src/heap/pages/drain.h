/*
 * drain.h - takes what was sent to a shard: into a bin that needs blocks, or into the pages.
 *
 * If a refill needs only part of a list, the rest stays in the shard's carry, and the next refill begins there. Sending
 * it back would cost a walk over cold blocks.
 */
#ifndef HZ_HEAP_PAGES_DRAIN_H
#define HZ_HEAP_PAGES_DRAIN_H

#include "heap/pages/shard.h"

/* Up to `want` blocks that were sent to the thread's own shard, leftovers first. Under its exclusive, or by its only
   thread if HZ_TAKES_UNLOCKED. */
uint32_t hz_shard_refill_sent(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want);

/* Puts what was sent to the shard into its pages, for one class. Returns the strays, which belong to other shards by
   now: the caller hands them to hz_blocks_put after it has released the lock. Needs the shard's exclusive. */
struct hz_list hz_shard_drain_locked(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class);

/* Drains all classes. Takes and releases the lock for each class, so that the shard's threads wait only briefly. The
   caller holds no lock. */
void hz_shard_drain(struct hz_thread_block *self, struct hz_shard *shard);

/* Drains one class of every shard that was sent something. The caller holds no lock. */
void hz_shards_drain_class(struct hz_thread_block *self, unsigned size_class);

/* Whether a class of any shard has a mark: it was sent something since its last drain. */
bool hz_shards_were_sent(void);

/* A round of ageing for the mailboxes of all shards: says which classes are due. */
void hz_shards_age_sent(void);

/* Drains up to `classes` classes that are due. False when none is left. The caller holds no lock. */
bool hz_shards_drain_due(struct hz_thread_block *self, uint32_t classes);

/* A thread leaves the shard. The shard's last thread drains the classes that have leftovers or a mark. Both are hints:
   what they miss stays for the shard's next thread, an adopting thread or a purge. */
void hz_shard_leave(struct hz_thread_block *self, struct hz_shard *shard);

/* Blocks waiting in carry and mailbox, at some recent moment. */
uint32_t hz_shard_waiting(struct hz_shard *shard, unsigned size_class);

#endif
