/*
 * arena_state.c - see arena_state.h.
 */
#include "base/arena/arena_state.h"

#include "base/map/budget.h"
#include "base/map/direct_cache.h"
#include "base/map/meta.h"
#include "base/map/pagetag.h"

struct arena hz_arena = {
    .lock = HZ_LOCK_INIT(HZ_RANK_ARENA),
    .alone_bytes = HZ_REGION_BLOCK_BYTES_MAX + 1,
};

size_t hz_arena_runs_bytes(void) {
    return hz_runmap_used(&hz_arena.pages) << HZ_PAGE_LOG2;
}

/* Without the direct blocks in the cache. */
static size_t free_resting_bytes(void) {
    return (hz_runmap_resting(&hz_arena.pages) << HZ_PAGE_LOG2) + (hz_runmap_resting(&hz_region_units) << HZ_UNIT_LOG2);
}

/* What is used, and the direct blocks in the cache. */
static size_t used_or_cached_bytes(void) {
    /* relaxed, all: counters, which can change meanwhile */
    size_t handed_out = hz_arena_runs_bytes() + hz_load_rlx(&hz_arena.direct_bytes);
    return handed_out - hz_min(handed_out, hz_load_rlx(&hz_arena.hollow_bytes));
}

size_t hz_arena_resting_bytes(void) {
    return free_resting_bytes() + hz_direct_cache_unit_bytes();
}

size_t hz_arena_used_bytes(void) {
    size_t bytes = used_or_cached_bytes();
    return bytes - hz_min(bytes, hz_direct_cache_bytes());
}

void hz_arena_count_hollow(ptrdiff_t bytes) {
    hz_add_rlx(&hz_arena.hollow_bytes, (size_t)bytes); /* relaxed: counter */
}

void hz_arena_count_purged(size_t bytes) {
    hz_add_rlx(&hz_arena.purged_bytes, bytes); /* relaxed: counter */
}

size_t hz_arena_purged_bytes(void) {
    return hz_load_rlx(&hz_arena.purged_bytes); /* relaxed: counter */
}

size_t hz_arena_held_bytes(void) {
    return hz_arena_used_bytes() + hz_arena_resting_bytes();
}

/* Metadata counts as at most this part of a group's limit: most of what is more is address space that nobody has
   touched, which the count does not tell. */
enum { META_SHARE = 16 };

size_t hz_arena_group_held_bytes(size_t limit) {
    size_t held = hz_arena_held_bytes();
    size_t direct = hz_load_rlx(&hz_arena.direct_bytes); /* relaxed: counter */
    direct -= hz_min(direct, hz_direct_cache_bytes());
    return held - hz_min(held, direct) + hz_min(hz_meta_bytes(), limit / META_SHARE);
}

size_t hz_arena_soft_held_bytes(void) {
    return hz_budget_limit_is_groups() ? hz_arena_group_held_bytes(hz_budget_soft_limit()) : hz_arena_held_bytes();
}

bool hz_arena_is_over_soft(void) {
    size_t limit = hz_budget_soft_limit();
    return HZ_UNLIKELY(limit != 0) && hz_arena_soft_held_bytes() > limit;
}
