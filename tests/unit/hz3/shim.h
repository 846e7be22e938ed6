/*
 * shim.h - hz3 as C++ can see it; see unit/base/shim.h for the manner.
 */
#ifndef HZ_TESTS_UNIT_HZ3_SHIM_H
#define HZ_TESTS_UNIT_HZ3_SHIM_H

#include "unit/base/shim.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "hz3/config.h"

struct hz3_page;
struct hz3_shard;
struct hz3_shard_class;
struct hz3_thread;

/* ---- thread.c ---- */

/* The counters that are tested, by their names in hz3_counters. */
struct unit_counters {
    uint64_t refill, refill_depot, refill_carry, refill_stash, refill_transfer, refill_central, refill_page;
    uint64_t page_create, page_retire, flush, depot_push, home_blocks, stash_send, transfer_send, central_send;
    uint64_t direct_home, remote_free;
};

/* The calling thread's block; attaches it if need be. Ends the program when there is no memory. */
struct hz3_thread *unit_self(void);
bool unit_is_attached(void);
struct hz3_shard *unit_thread_shard(const struct hz3_thread *thread);
uint32_t unit_thread_remote_count(const struct hz3_thread *thread);
uint32_t unit_bin_count(struct hz3_thread *thread, unsigned size_class);
struct unit_counters unit_counters_of(struct hz3_thread *thread);
struct hz_thread *unit_registered(struct hz3_thread *thread);
struct hz3_thread *hz3_thread_attach(void);
void hz3_thread_flush(struct hz3_thread *thread);
void hz3_thread_detach(struct hz3_thread *thread);
bool hz3_thread_reclaim_orphan(struct hz3_thread *self);

/* ---- refill.c, flush.c, home.c, purge.c, fork.c ---- */
void *hz3_refill(struct hz3_thread *self, unsigned size_class);
void hz3_bin_flush(struct hz3_thread *self, unsigned size_class, uint32_t keep);
void hz3_home_send(struct hz3_thread *self, void **blocks, uint32_t count);
void hz3_remote_push(struct hz3_thread *self, void *block);
void hz3_remote_flush(struct hz3_thread *self);
void hz3_tick(struct hz3_thread *self);
size_t hz3_purge(void);
void hz3_after_fork(void);

/* ---- depot.c ---- */
uint32_t hz3_depot_pop(struct hz3_thread *self, unsigned size_class, void **out);
bool hz3_depot_push(struct hz3_thread *self, unsigned size_class, void *const *blocks, uint32_t count);
uint32_t hz3_depot_batches(unsigned size_class);
void hz3_depot_spare_release(struct hz3_thread *self);

/* ---- shard.c ---- */
uint32_t unit_shard_index(const struct hz3_shard *shard);
uint32_t unit_shard_threads(struct hz3_shard *shard);
struct hz_lock *unit_shard_exclusive(struct hz3_shard *shard);
struct hz3_shard_class *unit_shard_class(struct hz3_shard *shard, unsigned size_class);
/* What waits in the carry, and in the stash, alone. */
uint32_t unit_carry_count(struct hz3_shard_class *home);
uint32_t unit_stash_count(struct hz3_shard_class *home);
struct hz3_shard *hz3_shard_claim(void);
void hz3_shard_release(struct hz3_thread *self, struct hz3_shard *shard);
struct hz3_shard *hz3_shard_get(unsigned index);
uint32_t hz3_shard_refill_locked(struct hz3_thread *self, struct hz3_shard *shard, unsigned size_class, void **out,
                                 uint32_t want);
void hz3_shard_put(struct hz3_thread *self, struct hz3_shard *shard, void *const *blocks, uint32_t count);
void hz3_shard_send(struct hz3_thread *self, struct hz3_shard *shard, unsigned size_class, struct hz_list *list);
void hz3_shard_drain_locked(struct hz3_thread *self, struct hz3_shard *shard, unsigned size_class);
uint32_t hz3_shard_waiting(struct hz3_shard *shard, unsigned size_class);

/* ---- transfer.c, central.c ---- */
extern const unsigned unit_transfer_slots;
/* A class of no shard, for tests of one list alone. */
struct hz3_shard_class *unit_shard_class_new(void);
bool hz3_transfer_send(struct hz3_shard_class *home, const struct hz_list *list);
hz_list_word hz3_transfer_take(struct hz3_shard_class *home);
uint32_t hz3_transfer_count(struct hz3_shard_class *home);
bool hz3_central_send(struct hz3_shard_class *home, unsigned size_class, const struct hz_list *list);
hz_list_word hz3_central_take(struct hz3_shard_class *home);
uint32_t hz3_central_count(struct hz3_shard_class *home);

/* ---- page.c ---- */
struct unit_page {
    unsigned size_class, shard, run_pages;
    bool listed;
    uint32_t block_bytes, capacity, rotation, free_count;
    char *start;
    struct hz3_page *next;
};
struct unit_page unit_page_of(struct hz3_page *page);
struct hz3_page *unit_partial(struct hz3_shard *shard, unsigned size_class);
/* For the tests of repair: leaves the shard's list and the page's count as an interrupted step might. */
void unit_partial_forget(struct hz3_shard *shard, unsigned size_class);
void unit_page_free_count_set(struct hz3_page *page, uint32_t count);
struct hz3_page *hz3_page_of(const void *block);
uint32_t hz3_pages_take_locked(struct hz3_shard *shard, unsigned size_class, void **out, uint32_t want);
bool hz3_page_create_locked(struct hz3_shard *shard, unsigned size_class);
uint32_t hz3_page_put_locked(struct hz3_shard *shard, void *block);
uint32_t hz3_pages_put_list_locked(struct hz3_shard *shard, void *head, uint32_t count);
uint32_t hz3_pages_retire_all_locked(struct hz3_shard *shard, unsigned size_class);
void hz3_pages_relink_locked(struct hz3_shard *shard);
void hz3_pages_walk(void (*visit)(void *context, struct hz3_page *page), void *context);

#ifdef __cplusplus
}
#endif

#endif
