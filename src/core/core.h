/*
 * core.h - what the files of core offer each other and the engines. Call tree, top to bottom:
 *
 *   engine.h  malloc/free fast paths
 *     malloc.c   hz_malloc_slow          free.c   hz_free_slow
 *       refill.c   hz_refill               flush.c  hz_bin_flush        room.c  hz_room_visit
 *         depot.c    hz_depot_pop/push       home.c   hz_home_send
 *         shard.c    hz_shard_refill           send.c   hz_shard_send
 *           mail.c (the engine's), page.c, adopt.c
 *   thread.c  attach, detach     purge.c  give back, ageing     fork.c  the child     stats.c  figures
 */
#ifndef HZ_CORE_CORE_H
#define HZ_CORE_CORE_H

#include "core/types.h"

/* ---- malloc.c, free.c: slow paths; no memory: NULL and ENOMEM ---- */
HZ_NOINLINE void *hz_malloc_medium(size_t size);
HZ_NOINLINE void *hz_malloc_slow(size_t size);
HZ_NOINLINE void hz_free_slow(void *block);

/* ---- refill.c, flush.c ---- */

/* Fills the empty bin of a class and takes one block from it. */
void *hz_refill(struct hz_thread_block *self, unsigned size_class);

/* Takes the oldest blocks out of a bin until `keep` are left. */
void hz_bin_flush(struct hz_thread_block *self, unsigned size_class, uint32_t keep);

/* Sends home what is in the remote buffer. */
void hz_remote_flush(struct hz_thread_block *self);

/* ---- room.c: how many blocks a bin may hold ---- */

/* The thread is in a slow path because the class's bin is empty or full: its room grows if that comes often. */
void hz_room_visit(struct hz_thread_block *self, unsigned size_class);

/* How many blocks an empty bin should get: half its room, or what may move at once. */
uint32_t hz_room_batch(const struct hz_thread_block *self, unsigned size_class);

/* A batch of `count` blocks, which may be a larger bin's, is to be put into the empty bin. */
void hz_room_for(struct hz_thread_block *self, unsigned size_class, uint32_t count);

/* ---- home.c ---- */

/* Sends blocks of any classes to their shards, grouped; own ones go into their pages. The array's contents are used up.
 */
void hz_home_send(struct hz_thread_block *self, void **blocks, uint32_t count);

/* ---- depot.c: per class, for all shards, lock-free stacks of batches of block pointers ---- */

/* Before anything else here: the parts, by the CPUs that the calling thread may run on. */
void hz_depot_init(void);

/* Up to hz_batch_count blocks into `out`; 0 when none was found. */
uint32_t hz_depot_pop(struct hz_thread_block *self, unsigned size_class, void **out);

/* The same for who sends them home: it does not count as passing from thread to thread. */
uint32_t hz_depot_age(struct hz_thread_block *self, unsigned size_class, void **out);

/* Called when a class is looked at for ageing: unless threads go on taking what others laid in, less may rest soon. */
void hz_depot_forget_passing(unsigned size_class);

/* Takes `count` (1..HZ_BATCH_COUNT) blocks over; false when the class has enough resting already, or
   there is no memory for a batch. */
bool hz_depot_push(struct hz_thread_block *self, unsigned size_class, void *const *blocks, uint32_t count);

/* Blocks resting now. */
uint32_t hz_depot_blocks(unsigned size_class);

/* Gives the thread's spare batches back. */
void hz_depot_spare_release(struct hz_thread_block *self);

/* ---- shard.c: who belongs to a shard, and its lock ---- */

/* The shard for a starting thread: a free one, else the least used one. NULL when there is no memory for the first. */
struct hz_shard *hz_shard_claim(void);

/* The last of its threads takes what has been sent to it home to the pages. */
void hz_shard_release(struct hz_thread_block *self, struct hz_shard *shard);

/* NULL when no thread ever had it. */
struct hz_shard *hz_shard_get(unsigned index);

enum hz_lock_purpose { HZ_TO_GET, HZ_TO_GIVE };

/* Takes a shard's exclusive, and counts whose it was and whether somebody else had it. `self` may be hz_thread_none. */
void hz_shard_lock(struct hz_thread_block *self, struct hz_shard *shard, enum hz_lock_purpose purpose);
void hz_shard_unlock(struct hz_shard *shard);

/* Up to `want` blocks for a thread of the shard: carry, mail, pages, pages of shards without threads, a new page.
   0: no memory. Takes the shard's exclusive. */
uint32_t hz_shard_refill(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want);

/* What was sent to the shard goes into its pages. Returns what belongs to other shards by now: it is the
   caller's, for hz_blocks_put_home once the lock is released. Needs its exclusive. */
struct hz_list hz_shard_drain_locked(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class);

/* Blocks waiting in carry and mail. */
uint32_t hz_shard_waiting(struct hz_shard *shard, unsigned size_class);

/* ---- send.c: to other shards ---- */

/* Sends a list of one class home to `shard`. Any thread, holding no lock. */
void hz_shard_send(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class, struct hz_list *list);

/* Blocks that belong to the thread's own shard go into its pages; takes its exclusive. */
void hz_shard_put(struct hz_thread_block *self, void *const *blocks, uint32_t count);

/* One block, or a list of blocks of any shards, into their pages, whoever has those by now. Any thread, holding no
   lock; `self` may be hz_thread_none. */
void hz_block_put_home(struct hz_thread_block *self, void *block);
void hz_blocks_put_home(struct hz_thread_block *self, struct hz_list *list);

/* Whether something may have been sent to the class since this was last forgotten. A hint. */
bool hz_shard_was_sent(struct hz_shard *shard, unsigned size_class);
void hz_shard_mark_sent(struct hz_shard *shard, unsigned size_class);
void hz_shard_forget_sent(struct hz_shard *shard, unsigned size_class);

/* ---- listcheck.c ---- */

enum { HZ_LISTS_CHECKED = HZ_LIST_FAILFAST || HZ_CONFIG_CHECKS };

/* Ends the program unless `count` blocks of the class hang together from `head`; names the block whose link is wrong
   (the head itself if that is). What comes after them is not looked at. */
void hz_list_check(unsigned size_class, const void *head, uint32_t count);

/* ---- adopt.c ---- */

/* Takes over pages of the class from a shard without threads; returns their number. Holding no lock. */
uint32_t hz_pages_adopt(struct hz_thread_block *self, unsigned size_class);

/* In a fork's child, after the locks have been made usable: pages that were changing hands come to rest. */
void hz_adopt_after_fork(void);

/* ---- mail.c: the engine's way to send a list of one class ---- */

/* False, with nothing changed but links: there is no room. Any thread. */
bool hz_mail_send(struct hz_thread_block *self, struct hz_mailbox *mail, unsigned size_class,
                  const struct hz_list *list);

/* Some of what was sent, as one list; 0 when there is nothing. Needs the shard's exclusive, unless it has one thread
   only (HZ_EXCLUSIVE_ALWAYS=0) and that calls. */
hz_list_word hz_mail_take(struct hz_thread_block *self, struct hz_mailbox *mail);

/* Blocks waiting, at some recent moment. */
uint32_t hz_mail_count(struct hz_mailbox *mail);

/* In a fork's child, after the shards' locks and lists have been made usable: repairs what needs it. */
void hz_mail_after_fork(void);

/* ---- page.c: all need the exclusive of the page's shard, except hz_page_of and hz_pages_walk ---- */

/* The page a small block is in. The block is known to be ours. */
struct hz_page *hz_page_of(const void *block);

/* Up to `want` blocks from the shard's partial pages (not from a new one). */
uint32_t hz_pages_take_locked(struct hz_shard *shard, unsigned size_class, void **out, uint32_t want);

/* A new page on the shard's list; false when there is no memory. */
bool hz_page_create_locked(struct hz_shard *shard, unsigned size_class);

/* A block of this shard goes home. Returns the pages retired because of it (0 or 1). */
uint32_t hz_page_put_locked(struct hz_shard *shard, void *block);

/* The same for a list of blocks; those of other shards come into `strays`. */
uint32_t hz_pages_put_list_locked(struct hz_shard *shard, void *head, uint32_t count, struct hz_list *strays);

/* Gives a page with free blocks from one shard to another: off the one's list now (its exclusive), onto the other's
   later (that one's exclusive), unless all its blocks have come home. In between it is neither listed nor retired.
   attach returns the pages retired (0 or 1). */
void hz_page_detach_locked(struct hz_shard *from, struct hz_page *page, struct hz_shard *to);
uint32_t hz_page_attach_locked(struct hz_shard *to, struct hz_page *page);

/* Whether the page is the shard's; asked under its exclusive, the answer holds as long as that is held. */
bool hz_page_is_of(struct hz_page *page, const struct hz_shard *shard);

/* Retires every page of the shard whose blocks are all home. Returns their number. */
uint32_t hz_pages_retire_all_locked(struct hz_shard *shard, unsigned size_class);

/* In a fork's child: rebuilds the shard's lists from the pages themselves. */
void hz_pages_relink_locked(struct hz_shard *shard);

/* Blocks of the class in all pages of all shards, free or not. */
size_t hz_class_blocks(unsigned size_class);

/* Calls visit for each page of any shard. Pages may come and go meanwhile. */
void hz_pages_walk(void (*visit)(void *context, struct hz_page *page), void *context);

/* ---- thread.c ---- */

/* Attaches the calling thread; NULL when there is no memory. */
struct hz_thread_block *hz_thread_attach(void);

/* Sends home all that an attached thread holds, keeps it attached. */
void hz_thread_flush(struct hz_thread_block *thread);

/* Flushes and gives up the block; the caller is unattached then. */
void hz_thread_detach(struct hz_thread_block *thread);

/* The calling thread's end has begun: from now on it attaches for one operation at a time. */
bool hz_thread_is_ending(void);

/* If a fork left thread blocks behind: takes one over and sends home what it holds. False when there is none. */
bool hz_thread_reclaim_orphan(struct hz_thread_block *self);

/* Arms the exit hook unless it is; tried again from slow paths as long as it fails. */
void hz_thread_arm(struct hz_thread_block *self);

/* In a fork's child: mends the bins of the threads that vanished. `self`: of the one that did not, or NULL. */
void hz_thread_bins_after_fork(const struct hz_thread_block *self);

/* In a fork's child: makes the init lock usable. */
void hz_thread_init_after_fork(void);

HZ_INLINE struct hz_thread_block *hz_thread_from(struct hz_thread *registered) {
    return (struct hz_thread_block *)(void *)((char *)registered - offsetof(struct hz_thread_block, registered));
}

/* ---- purge.c ---- */

/* Housekeeping from slow paths, now and then: the depot ages, free pages are purged. */
void hz_tick(struct hz_thread_block *self);
size_t hz_heap_purge(void);

/* ---- fork.c ---- */
void hz_core_after_fork(void);

#endif
