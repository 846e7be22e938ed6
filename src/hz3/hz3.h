/*
 * hz3.h - what the files of hz3 offer each other. Call tree, top to bottom:
 *
 *   engine.h  malloc/free fast paths
 *     malloc.c   hz3_malloc_slow          free.c   hz3_free_slow
 *       refill.c   hz3_refill               flush.c  hz3_bin_flush
 *         depot.c    hz3_depot_pop/push       home.c   hz3_home_send
 *         shard.c    hz3_shard_refill_locked    shard.c  hz3_shard_send
 *           transfer.c, central.c, page.c
 *   thread.c  attach, detach     purge.c  give back, ageing     fork.c  the child     stats.c  figures
 */
#ifndef HZ3_HZ3_H
#define HZ3_HZ3_H

#include "hz3/types.h"

/* ---- malloc.c, free.c: slow paths; no memory: NULL and ENOMEM ---- */
HZ_NOINLINE void *hz3_malloc_medium(size_t size);
HZ_NOINLINE void *hz3_malloc_slow(size_t size);
HZ_NOINLINE void hz3_free_slow(void *block);

/* ---- refill.c, flush.c ---- */

/* Fills the empty bin of a class and takes one block from it. */
void *hz3_refill(struct hz3_thread *self, unsigned size_class);

/* Takes the oldest blocks out of a bin until `keep` are left. */
void hz3_bin_flush(struct hz3_thread *self, unsigned size_class, uint32_t keep);

/* ---- home.c ---- */

/* Sends blocks of any classes to their shards, grouped; own ones go into their pages. The array's contents are used up.
 */
void hz3_home_send(struct hz3_thread *self, void **blocks, uint32_t count);

/* Remote buffer: keeps one foreign block of a home class; sends all when full. */
void hz3_remote_push(struct hz3_thread *self, void *block);
void hz3_remote_flush(struct hz3_thread *self);

/* ---- depot.c: per class, for all shards, a lock-free stack of batches of block pointers ---- */

/* Up to hz3_batch_count blocks into `out`; 0 when there is none. */
uint32_t hz3_depot_pop(struct hz3_thread *self, unsigned size_class, void **out);

/* Takes `count` (1..HZ3_BATCH_COUNT) blocks over; false when the class has enough resting already. */
bool hz3_depot_push(struct hz3_thread *self, unsigned size_class, void *const *blocks, uint32_t count);

/* Batches resting now; each holds up to hz3_batch_count blocks. */
uint32_t hz3_depot_batches(unsigned size_class);

/* Gives the thread's spare batches back. */
void hz3_depot_spare_release(struct hz3_thread *self);

/* ---- shard.c ---- */

/* The shard for a starting thread: a free one, else the least used one. NULL when there is no memory for the first. */
struct hz3_shard *hz3_shard_claim(void);

/* The last of its threads takes what has been sent to it home to the pages. */
void hz3_shard_release(struct hz3_thread *self, struct hz3_shard *shard);

/* NULL when no thread ever had it. */
struct hz3_shard *hz3_shard_get(unsigned index);

/* Up to `want` blocks: carry, stash, transfer, central, pages, a new page. 0: no memory. Needs the shard's exclusive.
 */
uint32_t hz3_shard_refill_locked(struct hz3_thread *self, struct hz3_shard *shard, unsigned size_class, void **out,
                                 uint32_t want);

/* Blocks of the shard go into its pages; takes its exclusive. */
void hz3_shard_put(struct hz3_thread *self, struct hz3_shard *shard, void *const *blocks, uint32_t count);

/* Sends a list of one class home to `shard`. Any thread, holding no lock. */
void hz3_shard_send(struct hz3_thread *self, struct hz3_shard *shard, unsigned size_class, struct hz_list *list);

/* Everything that was sent to the shard goes into its pages. Needs its exclusive. */
void hz3_shard_drain_locked(struct hz3_thread *self, struct hz3_shard *shard, unsigned size_class);

/* Blocks waiting in carry, stash, transfer and central. */
uint32_t hz3_shard_waiting(struct hz3_shard *shard, unsigned size_class);

/* ---- transfer.c: whole lists handed over in a few slots ---- */
bool hz3_transfer_send(struct hz3_shard_class *home, const struct hz_list *list);
hz_list_word hz3_transfer_take(struct hz3_shard_class *home);
uint32_t hz3_transfer_count(struct hz3_shard_class *home);

/* ---- central.c: the overflow behind it ---- */
bool hz3_central_send(struct hz3_shard_class *home, unsigned size_class, const struct hz_list *list);
hz_list_word hz3_central_take(struct hz3_shard_class *home);
uint32_t hz3_central_count(struct hz3_shard_class *home);

/* ---- page.c: all need the exclusive of the page's shard, except hz3_page_of ---- */

/* The page a small block is in. The block is known to be ours. */
struct hz3_page *hz3_page_of(const void *block);

/* Up to `want` blocks from the shard's partial pages (not from a new one). */
uint32_t hz3_pages_take_locked(struct hz3_shard *shard, unsigned size_class, void **out, uint32_t want);

/* A new page on the shard's list; false when there is no memory. */
bool hz3_page_create_locked(struct hz3_shard *shard, unsigned size_class);

/* A block of this shard goes home. Returns the pages retired because of it (0 or 1). */
uint32_t hz3_page_put_locked(struct hz3_shard *shard, void *block);

/* The same for a list of blocks. */
uint32_t hz3_pages_put_list_locked(struct hz3_shard *shard, void *head, uint32_t count);

/* Retires every page of the shard whose blocks are all home. Returns their number. */
uint32_t hz3_pages_retire_all_locked(struct hz3_shard *shard, unsigned size_class);

/* In a fork's child: rebuilds the shard's lists from the pages themselves. */
void hz3_pages_relink_locked(struct hz3_shard *shard);

/* Blocks of the class in all pages of all shards, free or not. */
size_t hz3_class_blocks(unsigned size_class);

/* Calls visit for each page of hz3 (of any shard). Pages may come and go meanwhile. */
void hz3_pages_walk(void (*visit)(void *context, struct hz3_page *page), void *context);

/* ---- thread.c ---- */

/* Attaches the calling thread; NULL when there is no memory. */
struct hz3_thread *hz3_thread_attach(void);

/* Sends home all that an attached thread holds, keeps it attached. */
void hz3_thread_flush(struct hz3_thread *thread);

/* Flushes and gives up the block; the caller is unattached then. */
void hz3_thread_detach(struct hz3_thread *thread);

/* The calling thread's end has begun: from now on it attaches for one operation at a time. */
bool hz3_thread_is_ending(void);

/* If a fork left thread blocks behind: takes one over and sends home what it holds. False when there is none. */
bool hz3_thread_reclaim_orphan(struct hz3_thread *self);

/* Arms the exit hook unless it is; tried again from slow paths as long as it fails. */
void hz3_thread_arm(struct hz3_thread *self);

/* In a fork's child: makes the init lock usable. */
void hz3_thread_init_after_fork(void);

HZ_INLINE struct hz3_thread *hz3_thread_from(struct hz_thread *registered) {
    return (struct hz3_thread *)(void *)((char *)registered - offsetof(struct hz3_thread, registered));
}

/* ---- purge.c ---- */

/* Housekeeping from slow paths, now and then: the depot ages, free pages are purged. */
void hz3_tick(struct hz3_thread *self);
size_t hz3_purge(void);

/* ---- fork.c ---- */
void hz3_after_fork(void);

#endif
