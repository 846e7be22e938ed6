/*
 * pageq.h - page-local remote lists: blocks are sent to the page they lie in, and a page that has enough of them is
 * queued for its owner. One of the ways to send blocks home (the other ones are the engines').
 *
 * Invariant: a page's `remote` has at least as many blocks as its threshold <=> the page is in its queue, or in the
 * hands of who has just made it so and is about to queue it, or pending with the owner. So a page is never queued
 * twice, and never retired while it is in a queue: the blocks in `remote` are not home. Fewer blocks are left where
 * they are, until more come or they are gathered. A page that changes hands (adopt.c) just before it is queued may wait
 * in its former shard's queue, at worst until a purge.
 */
#ifndef HZ_CORE_PAGEQ_H
#define HZ_CORE_PAGEQ_H

#include "base/atomic.h"
#include "base/list.h"

struct hz_page;
struct hz_thread_block;

struct hz_pageq {
    _Atomic(struct hz_page *) head; /* sync: pageq-publish */
    struct hz_page *pending;        /* lock: taken from the queue, not drained yet */
};

/* Sends each block of the list to its page; queues the pages that have enough then. Any thread. */
void hz_pageq_send(struct hz_thread_block *self, struct hz_pageq *queue, const struct hz_list *list);

/* What was sent to one of the queued pages; 0 when no page is queued. Needs the shard's exclusive. */
hz_list_word hz_pageq_take(struct hz_thread_block *self, struct hz_pageq *queue);

/* Puts home what was sent to pages that are not queued. Any thread, holding no lock. */
void hz_pageq_gather(struct hz_thread_block *self);

/* In a fork's child, after the shards' locks and lists have been made usable: what was sent to pages goes home, and no
   page is queued. */
void hz_pageq_after_fork(void);

#endif
