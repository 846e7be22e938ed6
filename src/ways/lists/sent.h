/*
 * sent.h - what was sent to shards and is in no page yet: lists through free blocks, in mailboxes. It goes into a bin
 * that needs blocks, or into the pages.
 *
 * If a refill needs only part of a list, the rest stays in the shard's carry, and the next refill begins there. Sending
 * it back would cost a walk over cold blocks. ../direct/sent.h has the same functions for lanes without mailboxes.
 */
#ifndef HZ_WAYS_LISTS_SENT_H
#define HZ_WAYS_LISTS_SENT_H

#include "heap/pages/page.h"
#include "heap/pages/shard.h"
#include "list.h"

struct hz_report;

/* Up to `want` blocks that were sent to the thread's own shard, leftovers first. Under its exclusive, or by its only
   thread if HZ_TAKES_UNLOCKED. */
uint32_t hz_sent_take(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want);

/* Counts whether a refill, which holds the lock, finds leftovers. */
void hz_sent_count_leftovers(struct hz_thread_block *self, unsigned size_class);

/* Whether blocks of the class may wait for the shard: a hint. */
bool hz_sent_may_wait(struct hz_shard *shard, unsigned size_class);

/* Whether a class of any shard has a mark: it was sent something since its last drain. */
bool hz_sent_waits(void);

/* Puts what was sent to the shard into its pages, for one class. The caller holds no lock. */
void hz_sent_drain(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class);

/* Drains one class of every shard that was sent something. The caller holds no lock. */
void hz_sent_drain_class(struct hz_thread_block *self, unsigned size_class);

/* Drains all classes of all shards. Takes and releases the lock for each class, so that the shard's threads wait only
   briefly. The caller holds no lock. */
void hz_sent_drain_all(struct hz_thread_block *self);

/* A round of ageing for the mailboxes of all shards: says which classes are due, and puts what waits outside the
   mailboxes into the pages. The caller holds no lock. */
void hz_sent_age(struct hz_thread_block *self);

/* Drains up to `classes` classes that are due. False when none is left. The caller holds no lock. */
bool hz_sent_drain_due(struct hz_thread_block *self, uint32_t classes);

/* A thread leaves the shard. The shard's last thread drains the classes that have leftovers or a mark. Both are hints:
   what they miss stays for the shard's next thread, an adopting thread or a purge. */
void hz_sent_leave(struct hz_thread_block *self, struct hz_shard *shard);

/* Blocks waiting in carry and mailbox, and those that were sent to the page itself, at some recent moment. */
uint32_t hz_sent_count(struct hz_shard *shard, unsigned size_class);
uint32_t hz_sent_count_in_page(struct hz_page *page);

/* Calls `visit` for each block that waits. For a moment at which no other thread is in the heap. A list ends where the
   program has overwritten a link. */
void hz_sent_walk(void (*visit)(void *context, const void *block), void *context);

/* Writes what waits in each part of the mailboxes, and in the carries. */
void hz_sent_report(struct hz_report *report);

/* In a fork's child, after the shards' locks and lists were repaired: makes the mailboxes' locks usable again. */
void hz_sent_after_fork(void);

/* In a fork's child, while its thread is outside the heap: repairs the mailboxes themselves. */
void hz_sent_settle_fork(void);

#endif
