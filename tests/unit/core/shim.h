/*
 * shim.h - hz3 as C++ can see it; see unit/base/shim.h for the manner.
 */
#ifndef HZ_TESTS_UNIT_CORE_SHIM_H
#define HZ_TESTS_UNIT_CORE_SHIM_H

#include "unit/base/shim.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "core/knobs.h"

struct hz_page;
struct hz_shard;
struct hz_shard_class;
struct hz_thread_block;

/* ---- thread.c ---- */

/* The counters that are tested, by their names in hz_counters. */
struct unit_counters {
    uint64_t refill, refill_depot, refill_carry, refill_stash, refill_transfer, refill_central, refill_page;
    uint64_t page_create, page_retire, flush, depot_push, home_blocks, stash_send, transfer_send, central_send;
    uint64_t direct_home, remote_free;
};

/* The calling thread's block; attaches it if need be. Ends the program when there is no memory. */
struct hz_thread_block *unit_self(void);
bool unit_is_attached(void);
struct hz_shard *unit_thread_shard(const struct hz_thread_block *thread);
uint32_t unit_thread_remote_count(const struct hz_thread_block *thread);
uint32_t unit_bin_count(struct hz_thread_block *thread, unsigned size_class);
struct unit_counters unit_counters_of(struct hz_thread_block *thread);
struct hz_thread *unit_registered(struct hz_thread_block *thread);
struct hz_thread_block *hz_thread_attach(void);
void hz_thread_flush(struct hz_thread_block *thread);
void hz_thread_detach(struct hz_thread_block *thread);
bool hz_thread_reclaim_orphan(struct hz_thread_block *self);

/* ---- refill.c, flush.c, home.c, purge.c, fork.c ---- */
void *hz_refill(struct hz_thread_block *self, unsigned size_class);
void hz_bin_flush(struct hz_thread_block *self, unsigned size_class, uint32_t keep);
void hz_home_send(struct hz_thread_block *self, void **blocks, uint32_t count);
void hz_remote_push(struct hz_thread_block *self, void *block);
void hz_remote_flush(struct hz_thread_block *self);
void hz_tick(struct hz_thread_block *self);
size_t hz_heap_purge(void);
void hz_core_after_fork(void);

/* ---- depot.c ---- */
uint32_t hz_depot_pop(struct hz_thread_block *self, unsigned size_class, void **out);
bool hz_depot_push(struct hz_thread_block *self, unsigned size_class, void *const *blocks, uint32_t count);
uint32_t hz_depot_batches(unsigned size_class);
void hz_depot_spare_release(struct hz_thread_block *self);

/* ---- shard.c ---- */
uint32_t unit_shard_index(const struct hz_shard *shard);
uint32_t unit_shard_threads(struct hz_shard *shard);
struct hz_lock *unit_shard_exclusive(struct hz_shard *shard);
struct hz_shard_class *unit_shard_class(struct hz_shard *shard, unsigned size_class);
/* What waits in the carry, and in the stash, alone. */
uint32_t unit_carry_count(struct hz_shard_class *home);
uint32_t unit_stash_count(struct hz_shard_class *home);
struct hz_shard *hz_shard_claim(void);
void hz_shard_release(struct hz_thread_block *self, struct hz_shard *shard);
struct hz_shard *hz_shard_get(unsigned index);
uint32_t hz_shard_refill_locked(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class, void **out,
                                 uint32_t want);
void hz_shard_put(struct hz_thread_block *self, struct hz_shard *shard, void *const *blocks, uint32_t count);
void hz_shard_send(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class, struct hz_list *list);
void hz_shard_drain_locked(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class);
uint32_t hz_shard_waiting(struct hz_shard *shard, unsigned size_class);

/* ---- transfer.c, central.c ---- */
extern const unsigned unit_transfer_slots;
/* A class of no shard, for tests of one list alone. */
struct hz_shard_class *unit_shard_class_new(void);
bool hz3_transfer_send(struct hz_shard_class *home, const struct hz_list *list);
hz_list_word hz3_transfer_take(struct hz_shard_class *home);
uint32_t hz3_transfer_count(struct hz_shard_class *home);
bool hz3_central_send(struct hz_shard_class *home, unsigned size_class, const struct hz_list *list);
hz_list_word hz3_central_take(struct hz_shard_class *home);
uint32_t hz3_central_count(struct hz_shard_class *home);

/* ---- page.c ---- */
struct unit_page {
    unsigned size_class, shard, run_pages;
    bool listed;
    uint32_t block_bytes, capacity, rotation, free_count;
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
uint32_t hz_pages_put_list_locked(struct hz_shard *shard, void *head, uint32_t count);
uint32_t hz_pages_retire_all_locked(struct hz_shard *shard, unsigned size_class);
void hz_pages_relink_locked(struct hz_shard *shard);
void hz_pages_walk(void (*visit)(void *context, struct hz_page *page), void *context);

#ifdef __cplusplus
}
#endif

#endif
