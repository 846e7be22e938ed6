/*
 * shim.h - core as C++ can see it; see unit/base/shim.h for the manner. What only one engine has is in that engine's
 * shim.h.
 */
#ifndef HZ_TESTS_UNIT_CORE_SHIM_H
#define HZ_TESTS_UNIT_CORE_SHIM_H

#include "unit/base/shim.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "heap/class_policy.h"
#include "heap/knobs.h"

struct hz_mailbox;
struct hz_page;
struct hz_page_queue;
struct hz_shard;
struct hz_thread_block;

/* ---- config.c ---- */
const char *hz_heap_config_string(void);

/* ---- types.h ---- */
extern const uint32_t unit_home_count; /* blocks that are grouped at once */
extern const uint32_t unit_groups;     /* slots of the table for that */

/* The counters of core, by their names in hz_counters. */
struct unit_counters {
#define COUNTER(group, field, name, kind, text) uint64_t field;
#include "heap/counters.def"
#undef COUNTER
};

/* ---- engine.h ---- */

/* The engine's free, for blocks that were taken past its malloc: the live map of the check build does not know them. */
void unit_free(void *block);

/* ---- thread.c ---- */

/* The calling thread's block; attaches it if need be. Ends the program when there is no memory. */
struct hz_thread_block *unit_self(void);
bool unit_is_attached(void);
struct hz_shard *unit_thread_shard(const struct hz_thread_block *thread);
/* Makes the calling thread one of another shard, which somebody has claimed; until it is put back. */
void unit_thread_shard_set(struct hz_thread_block *thread, struct hz_shard *shard);
uint32_t unit_bin_count(struct hz_thread_block *thread, unsigned size_class);
/* How many blocks a bin may hold now; for the second, what it holds at least. */
uint32_t unit_bin_room(struct hz_thread_block *thread, unsigned size_class);
void unit_bin_room_set(struct hz_thread_block *thread, unsigned size_class, uint32_t room);
void unit_bins_grow(struct hz_thread_block *thread); /* all of them to their capacity */
/* For the tests of repair: leaves an empty bin as an interrupted step might. */
void unit_bin_newest_set(struct hz_thread_block *thread, unsigned size_class, void *block);
struct unit_counters unit_counters_of(struct hz_thread_block *thread);
struct hz_registered *unit_registered(struct hz_thread_block *thread);
struct hz_thread_block *hz_thread_attach(void);
void hz_thread_flush(struct hz_thread_block *thread);
void hz_thread_detach(struct hz_thread_block *thread);
bool hz_orphan_reclaim(struct hz_thread_block *self);

/* ---- the remote buffer, and the table that groups what goes home ---- */
uint32_t unit_remote_count(struct hz_thread_block *thread);
/* As free does for blocks of home classes; there must be room. */
void unit_remote_push(struct hz_thread_block *thread, void *block);
void unit_groups_epoch_set(struct hz_thread_block *thread, uint32_t epoch);

/* ---- refill.c, flush.c, home.c, purge.c, fork.c ---- */
void *hz_malloc_refill(struct hz_thread_block *self, unsigned size_class);
void hz_bin_flush(struct hz_thread_block *self, unsigned size_class, uint32_t keep);
void hz_blocks_send(struct hz_thread_block *self, void **blocks, uint32_t count);
void hz_remote_flush(struct hz_thread_block *self);
void hz_tick(struct hz_thread_block *self);
size_t hz_heap_purge(void);
void hz_heap_after_fork(void);

/* ---- depot.c ---- */
uint32_t hz_depot_pop(struct hz_thread_block *self, unsigned size_class, void **out);
uint32_t hz_depot_pop_home(struct hz_thread_block *self, unsigned size_class, void **out);
void hz_depot_forget_passing(unsigned size_class);
bool hz_depot_push(struct hz_thread_block *self, unsigned size_class, void *const *blocks, uint32_t count);
uint32_t hz_depot_blocks(unsigned size_class);
void hz_depot_spare_release(struct hz_thread_block *self);

/* ---- shard.c ---- */
uint32_t unit_shard_index(const struct hz_shard *shard);
uint32_t unit_shard_threads(struct hz_shard *shard);
/* As if its threads had ended without looking at what was sent to it. */
void unit_shard_threads_set(struct hz_shard *shard, uint32_t threads);
struct hz_lock *unit_shard_exclusive(struct hz_shard *shard);
struct hz_mailbox *unit_mailbox(struct hz_shard *shard, unsigned size_class);
/* What waits in the carry alone. */
uint32_t unit_carry_count(struct hz_shard *shard, unsigned size_class);
struct hz_shard *hz_shard_claim(void);
void hz_shard_leave(struct hz_thread_block *self, struct hz_shard *shard);
struct hz_shard *hz_shard_get(unsigned index);
uint32_t hz_supply_refill(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want);
struct hz_list hz_shard_drain_locked(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class);
uint32_t hz_shard_waiting(struct hz_shard *shard, unsigned size_class);

/* ---- send.c ---- */
void hz_list_check(unsigned size_class, const void *head, uint32_t count);
void hz_shard_send(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class, struct hz_list *list);
void hz_shard_put(struct hz_thread_block *self, void *const *blocks, uint32_t count);
void hz_block_put(struct hz_thread_block *self, void *block);
void hz_blocks_put(struct hz_thread_block *self, struct hz_list *list);
bool hz_shard_was_sent(struct hz_shard *shard, unsigned size_class);
void hz_shard_mark_sent(struct hz_shard *shard, unsigned size_class);
void hz_shard_forget_sent(struct hz_shard *shard, unsigned size_class);

/* ---- adopt.c ---- */
uint32_t hz_pages_adopt(struct hz_thread_block *self, unsigned size_class);
void hz_adopt_after_fork(void);

/* ---- mail.c of the engine ---- */
extern const bool unit_mail_is_of_pages;   /* blocks are sent to their pages */
struct hz_mailbox *unit_mailbox_new(void); /* of no shard */
bool hz_mail_send(struct hz_thread_block *self, struct hz_mailbox *mail, unsigned size_class,
                  const struct hz_list *list);
hz_list_word hz_mail_take(struct hz_thread_block *self, struct hz_mailbox *mail);
uint32_t hz_mail_count(struct hz_mailbox *mail);
void hz_mail_after_fork(void);

/* ---- pageq.c ---- */
struct hz_page_queue *unit_pageq_new(void); /* of no shard */
void hz_page_local_send(struct hz_thread_block *self, struct hz_page_queue *queue, const struct hz_list *list);
hz_list_word hz_page_local_take(struct hz_thread_block *self, struct hz_page_queue *queue);
void hz_page_local_gather(struct hz_thread_block *self);
void hz_page_local_after_fork(void);
struct hz_page_queue *unit_mailbox_pages(struct hz_mailbox *mail);
/* For the tests of repair: gives a queue another head, and returns the one it had. */
struct hz_page *unit_pageq_head_set(struct hz_page_queue *queue, struct hz_page *page);
/* What was sent to the page itself. */
hz_list_word unit_page_remote_take(struct hz_page *page);

/* ---- page.c ---- */
enum unit_page_list_state { UNIT_PAGE_UNLISTED, UNIT_PAGE_LISTED, UNIT_PAGE_MOVING };
struct unit_page {
    unsigned size_class, shard, run_pages;
    enum unit_page_list_state list_state;
    uint32_t block_bytes, capacity, rotation, free_count;
    uint32_t remote_count; /* blocks sent to the page itself */
    char *start;
    struct hz_page *next;
};
struct unit_page unit_page_of(struct hz_page *page);
struct hz_page *unit_partial(struct hz_shard *shard, unsigned size_class);
/* For the tests of repair: leaves the shard's list and the page's count as an interrupted step might. */
void unit_partial_forget(struct hz_shard *shard, unsigned size_class);
void unit_page_free_count_set(struct hz_page *page, uint32_t count);
struct hz_page *hz_page_of(const void *block);
uint32_t hz_pages_take_locked(struct hz_shard *shard, unsigned size_class, void **out, uint32_t want);
bool hz_page_create_locked(struct hz_shard *shard, unsigned size_class);
uint32_t hz_page_put_locked(struct hz_shard *shard, void *block);
uint32_t hz_pages_put_list_locked(struct hz_shard *shard, void *head, uint32_t count, struct hz_list *strays);
void hz_page_depart_locked(struct hz_shard *from, struct hz_page *page, struct hz_shard *to);
uint32_t hz_page_arrive_locked(struct hz_shard *to, struct hz_page *page);
uint32_t hz_pages_retire_all_locked(struct hz_shard *shard, unsigned size_class);
void hz_pages_relink_locked(struct hz_shard *shard);
size_t hz_class_blocks(unsigned size_class);
void hz_pages_walk(void (*visit)(void *context, struct hz_page *page), void *context);

#ifdef __cplusplus
}
#endif

#endif
