/*
 * shim.h - the base layer as C++ can see it.
 *
 * The library's headers are C11; those with _Atomic fields cannot be included from C++. Functions of the library are
 * declared here again under their own names over opaque structures (shim.c includes both declarations, so that they
 * cannot drift apart); what is inline or a field there has a plain function named unit_* here. Headers without
 * atomics are included as they are.
 */
#ifndef HZ_TESTS_UNIT_BASE_SHIM_H
#define HZ_TESTS_UNIT_BASE_SHIM_H

#ifdef __cplusplus
#define _Static_assert static_assert
extern "C" {
#endif

#include "base/check.h"
#include "base/compiler.h"
#include "base/large.h"
#include "base/list.h"
#include "base/livemap.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/report.h"

struct hz_lock;
struct hz_mpsc;
struct hz_segment;
struct hz_registered;

/* Frees what a unit_*_new function gave. */
void unit_delete(void *object);

/* ---- mpsc.h ---- */
struct hz_mpsc *unit_mpsc_new(void);
bool unit_mpsc_send(struct hz_mpsc *queue, const struct hz_list *list, uint32_t cap);
hz_list_word unit_mpsc_take(struct hz_mpsc *queue);
uint32_t unit_mpsc_count(struct hz_mpsc *queue);

/* ---- lock.h ---- */
extern const unsigned unit_rank_leaf;
extern const unsigned unit_rank_init;
extern const unsigned unit_rank_shard;
extern const unsigned unit_rank_arena;
extern const unsigned unit_rank_meta;
struct hz_lock *unit_lock_new(unsigned rank);
uint32_t unit_lock_word(struct hz_lock *lock); /* 0 free, 1 held, 2 held and awaited */
uintptr_t hz_lock_self(void);
void hz_lock_acquire(struct hz_lock *lock);
bool hz_lock_try_acquire(struct hz_lock *lock);
void hz_lock_release(struct hz_lock *lock);
bool hz_lock_is_mine(struct hz_lock *lock);
bool hz_lock_abandoned(struct hz_lock *lock);
void hz_lock_reset(struct hz_lock *lock);

/* ---- pagetag.h ---- */
struct unit_pagetag {
    unsigned bin;
    unsigned size_class;
    unsigned owner;
};
struct unit_pagetag unit_pagetag_of(const void *address);
bool unit_pagetags_flat(void);
uintptr_t unit_pagetags_mask(void);
bool hz_pagetag_init(void);
bool hz_pagetag_open(const void *address, size_t bytes);
void hz_pagetag_set(const void *address, size_t pages, unsigned bin, unsigned size_class, unsigned owner);
void hz_pagetag_clear(const void *address, size_t pages);

/* ---- arena.h ---- */
extern const size_t unit_page_bytes;
extern const size_t unit_segment_bytes;
extern const unsigned unit_segment_pages;
extern const unsigned unit_run_pages_max;
struct unit_run {
    struct hz_segment *segment;
    unsigned first;
    unsigned pages;
    uint64_t dirty_mask;
};
struct unit_arena_figures {
    size_t mapped_bytes, dirty_bytes, free_dirty_bytes, used_bytes, direct_bytes, direct_count, purged_bytes,
        segment_count;
};
bool unit_base_init(void); /* page tags and arena, as an engine does at its start */
bool hz_arena_init(void);
bool unit_run_alloc(unsigned pages, unsigned align_pages, struct unit_run *run);
unsigned unit_run_pages(const struct hz_segment *segment, unsigned first);
unsigned unit_run_first(const struct hz_segment *segment, unsigned page);
uint32_t unit_segment_index(const struct hz_segment *segment);
size_t unit_segment_direct_bytes(struct hz_segment *segment); /* 0: not a direct mapping */
char *unit_page_address(struct hz_segment *segment, unsigned page);
unsigned unit_page_number(const void *address);
void unit_arena_figures_get(struct unit_arena_figures *figures);
void hz_arena_run_free(struct hz_segment *segment, unsigned first);
bool hz_arena_run_grow(struct hz_segment *segment, unsigned first, unsigned more, uint64_t *dirty_mask);
void hz_arena_run_shrink(struct hz_segment *segment, unsigned first, unsigned pages);
struct hz_segment *hz_segment_find(const void *address);
struct hz_segment *hz_segment_get(const void *address);
struct hz_segment *hz_arena_direct_alloc(size_t bytes, size_t alignment, bool zeroed);
void hz_arena_direct_free(struct hz_segment *segment);
struct hz_segment *hz_arena_direct_resize(struct hz_segment *segment, size_t bytes);
uint32_t hz_arena_segment_count(void);
struct hz_segment *hz_arena_segment(uint32_t index);
size_t hz_arena_purge(uint64_t delay_ms, size_t budget_pages);
void hz_arena_tick(void);
void hz_arena_after_fork(void);

/* ---- thread.h ---- */
enum unit_thread_state { UNIT_THREAD_FREE, UNIT_THREAD_USED, UNIT_THREAD_ORPHAN };
struct hz_registered *unit_thread_new(void);
enum unit_thread_state unit_thread_state_of(struct hz_registered *thread);
uint32_t unit_thread_number(const struct hz_registered *thread);
struct hz_registered *unit_thread_next(const struct hz_registered *thread);
struct hz_registered *hz_registry_claim(void);
struct hz_registered *hz_registry_claim_orphan(void);
void hz_registry_add(struct hz_registered *thread);
void hz_registry_release(struct hz_registered *thread);
struct hz_registered *hz_registry_first(void);
void hz_registry_after_fork(struct hz_registered *self);
void hz_hooks_install(void (*on_exit)(void *), void (*after_fork)(void));
bool hz_hooks_arm_exit(void *value);

#ifdef __cplusplus
}
#endif

#endif
