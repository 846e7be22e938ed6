/*
 * page_local.h - page-local remote lists: a sender puts each block on the remote list of its page, and queues the page
 * for its owner when the list is long enough.
 *
 * Invariant: a page's `remote` has at least the threshold's number of blocks <=> the page is in its queue, or a sender
 * that has just made the list that long is about to queue it, or the owner has it pending. So a page is never queued
 * twice, and never retired while it is in a queue, since the blocks in `remote` are not home. A shorter list stays
 * where it is until more blocks come or a thread gathers it. A page that changes hands (adopt.c) just before it is
 * queued may wait in its former shard's queue, at worst until a purge.
 */
#ifndef HZ_WAYS_QUEUES_PAGE_LOCAL_H
#define HZ_WAYS_QUEUES_PAGE_LOCAL_H

#include "heap/threads/thread_block.h"
#include "list.h"
#include "page_queue.h"

/* Sends each block of the list to its page, and queues each page whose list has become long enough. Any thread. */
void hz_page_local_send(struct hz_thread_block *self, struct hz_page_queue *queue, const struct hz_list *list);

/* Takes what was sent to one of the queued pages; 0 when no page is queued. Needs the shard's exclusive. */
hz_list_word hz_page_local_take(struct hz_thread_block *self, struct hz_page_queue *queue);

/* Puts blocks that were sent to pages that are not queued into these pages. Any thread, holding no lock. */
void hz_page_local_gather(struct hz_thread_block *self);

/* In a fork's child, while its thread is outside the heap and no page is moving: empties all queues, and puts the
   blocks that were sent to pages into these pages. Until then, a page that a vanished thread was about to queue, or had
   just taken from a queue, stays unqueued. */
void hz_page_local_settle_fork(void);

#endif
