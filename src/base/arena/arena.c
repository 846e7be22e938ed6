/*
 * arena.c - the directory of segments, runs of pages, direct blocks and the purge. See arena.h for the invariants.
 *
 * The order of stores keeps a copy made by fork sound at any instant. An alloc clears free bits before it hands out the
 * pages. A free sets the bits after the caller has cleared the tags. A purge takes the bits out like an alloc, purges,
 * and puts them back like a free. What an interrupted step had claimed is lost to the child, never handed out twice.
 */
#include "base/arena/arena.h"

#include "base/arena/arena_dump.h"
#include "base/arena/arena_state.h"
#include "base/arena/direct_space.h"
#include "base/lists/table.h"
#include "base/map/budget.h"
#include "base/map/direct_cache.h"
#include "base/map/meta.h"
#include "base/map/region.h"
#include "base/map/runmap.h"
#include "base/map/space.h"
#include "base/os/check.h"
#include "base/os/os.h"
#include "policy.h"

#include <string.h>

enum {
    DIRECTORY_COUNT = 1 << 18, /* 1 TiB of segments */
    DIRECTORY_TIGHT_COUNT = 1 << 12,
    /* What an entry describes takes more of RLIMIT_AS and of RLIMIT_DATA. A GiB of address space has 512 blocks above
       2 MiB or 256 segments, and an entry that was made for one kind never serves the other: 768 at most. */
    ENTRY_DATA_BYTES = 1 << 20,
    TAIL_SHARE = 4,          /* a block that shrinks by more than 1/4 within its units gives the tail's memory back */
    CACHE_BLOCKS_MAX = 1024, /* that leave in one call */
    TICK_MS = 100,
    TICK_BUDGET_PAGES = 512,
    IDLE_MOST = 16,        /* at most so many, */
    PROBE_BYTES = 1 << 30, /* before a block grows by so much and moves, the OS is asked whether it gives that */

    BUDGET_STEP_PAGES = 64, /* most pages that one free purges */
};

HZ_ARENA_ANATOMY(hz_arena);

/* Gives back memory of a segment that the caller holds. If that breaks a huge page, its unused part goes back too. */
static bool part_give_back(struct hz_segment *segment, char *start, size_t bytes, bool anew) {
    char *base = hz_segment_page_address(segment, 0);
    size_t offset = (size_t)(start - base);
    uint64_t broken = hz_huge_refuse_parts(&segment->huge, base, offset, bytes);
    hz_runmap_purge_free(&hz_arena.pages, segment->index, broken);
    return hz_altered_give_back(&segment->altered, &segment->huge, base, offset, bytes, anew);
}

/* Hides units of which the caller has claimed all pages that held memory, if the others can be claimed too. `again`:
   the pages were mapped anew, which ends that they were hidden. */
static void hide_if_unused(struct hz_segment *segment, uint64_t bits, bool again) {
    for (unsigned unit = 0; unit < HZ_SEGMENT_BYTES / HZ_HUGE_BYTES && !hz_arena.tight; unit++) {
        uint64_t pages = hz_run_bits(unit * (HZ_HUGE_BYTES / HZ_PAGE_BYTES), HZ_HUGE_BYTES / HZ_PAGE_BYTES);
        uint64_t others = pages & ~bits;
        uint64_t dirty = hz_load_rlx(&hz_arena.pages.dirty_masks[segment->index]); /* relaxed: hint */
        struct hz_claim claim;
        if ((bits & pages) == 0 || (dirty & others) != 0 ||
            (others != 0 && !hz_runmap_claim_bits(&hz_arena.pages, segment->index, others, &claim)))
            continue;
        hz_dump_hide(&segment->hidden, hz_segment_page_address(segment, 0), unit, again);
        if (others != 0) {
            hz_runmap_clean(&hz_arena.pages, segment->index, others & ~claim.dirty);
            hz_runmap_release(&hz_arena.pages, segment->index, others);
        }
    }
}

static bool pages_give_back(uint32_t index, uint64_t bits, bool anew) {
    /* sync: segment-publish, partner entry_get_locked */
    struct hz_segment *segment = hz_load_acq(&hz_arena.segments[index]);
    char *start = hz_segment_page_address(segment, (unsigned)__builtin_ctzll(bits));
    bool done = part_give_back(segment, start, (size_t)hz_bits_count(bits) << HZ_PAGE_LOG2, anew);
    hide_if_unused(segment, done ? bits : 0, anew);
    return done;
}

bool hz_arena_init(void) {
    static void *directory; /* lock: the caller's, of rank HZ_RANK_INIT */
    hz_arena.tight = !hz_pagetags.flat;
    size_t limit_entries = hz_min(hz_os_address_space_reach(), hz_os_data_limit()) / ENTRY_DATA_BYTES;
    if (directory == NULL) /* a retry after a failure keeps what it got */
        hz_arena.capacity = (uint32_t)hz_min(hz_max(limit_entries, DIRECTORY_TIGHT_COUNT), DIRECTORY_COUNT);
    size_t words = hz_arena.capacity;
    size_t directory_bytes = hz_round_up(words * 8 + hz_runmap_bytes(hz_arena.capacity), HZ_CACHE_LINE_BYTES);
    uint32_t regions = hz_arena.tight ? 0 : (uint32_t)hz_min(hz_arena.capacity, HZ_REGIONS_MAX);
    size_t mapped_bytes = hz_round_up(directory_bytes + hz_region_table_bytes(regions), hz_os_page_bytes());
    if (!hz_table_map(&directory, mapped_bytes, true) || !hz_space_init())
        return false;
    hz_arena.segments = (_Atomic(struct hz_segment *) *)directory;
    hz_runmap_init(&hz_arena.pages, (char *)directory + words * 8, hz_arena.capacity, pages_give_back);
    if (!hz_arena.tight)
        hz_region_init((char *)directory + directory_bytes, regions);
    hz_store_rel(&hz_arena.ready, true); /* sync: arena-init, partner is_ready */
    return true;
}

static bool is_ready(void) {
    return hz_load_acq(&hz_arena.ready); /* sync: arena-init, partner hz_arena_init */
}

/* ---- finding ------------------------------------------------------------------------------------- */

/* `address`: one for which the tables have entries. */
static struct hz_segment *segment_at(const void *address) {
    uint32_t entry = hz_load_acq(hz_space_entry((uintptr_t)address)); /* sync: segment-publish, partner publish */
    if (entry == 0)
        return NULL;
    /* sync: segment-publish, partner entry_get_locked */
    struct hz_segment *segment = hz_load_acq(&hz_arena.segments[entry - 1]);
    uintptr_t base = hz_load_rlx(&segment->base); /* relaxed: const while the address is in use; others do not match */
    return base == ((uintptr_t)address & ~(uintptr_t)(HZ_SEGMENT_BYTES - 1)) ? segment : NULL;
}

struct hz_segment *hz_segment_find(const void *address) {
    return is_ready() && hz_pagetag_covers(address, 0) ? segment_at(address) : NULL;
}

struct hz_segment *hz_segment_get(const void *address) {
    struct hz_segment *segment = is_ready() ? segment_at(address) : NULL;
    if (HZ_UNLIKELY(segment == NULL))
        hz_fail_pointer(HZ_TEXT_FOREIGN, address, NULL);
    return segment;
}

uint32_t hz_arena_segment_count(void) {
    return hz_load_acq(&hz_arena.count); /* sync: segment-publish, partner entry_get_locked */
}

struct hz_segment *hz_arena_segment(uint32_t index) {
    /* sync: segment-publish, partners entry_get_locked (the entry), publish and entry_release_locked (its kind) */
    struct hz_segment *segment = hz_load_acq(&hz_arena.segments[index]);
    return segment != NULL && hz_load_acq(&segment->kind) != HZ_SEGMENT_NONE ? segment : NULL;
}

/* ---- segments come and go ------------------------------------------------------------------------- */

/* Gets an unused directory entry; NULL when there is none. An entry keeps its struct for ever. The struct of a direct
   block ends before the fields that describe runs and pages. */
static struct hz_segment *entry_get_locked(bool is_direct) {
    struct hz_segment *segment = hz_arena.spare[is_direct];
    if (segment != NULL) {
        hz_arena.spare[is_direct] = (struct hz_segment *)hz_load_rlx(&segment->base); /* relaxed: lock */
        hz_signal_fence(); /* fork: the entry leaves the spare list before it gets a new base */
        return segment;
    }
    uint32_t index = hz_load_rlx(&hz_arena.count); /* relaxed: lock */
    if (index == hz_arena.capacity)
        return NULL;
    segment = hz_meta_alloc(is_direct ? offsetof(struct hz_segment, run_first) : sizeof(*segment));
    if (segment == NULL)
        return NULL;
    segment->index = index;
    hz_dump_directory(&hz_arena, index);
    hz_store_rel(&hz_arena.segments[index], segment); /* sync: segment-publish, partner hz_arena_segment */
    hz_store_rel(&hz_arena.count, index + 1);         /* sync: segment-publish, partner hz_arena_segment_count */
    return segment;
}

static void entry_release_locked(struct hz_segment *segment, bool is_direct) {
    hz_store_rel(&segment->kind, HZ_SEGMENT_NONE); /* sync: segment-publish, partner hz_arena_segment */
    /* relaxed: lock; no address leads here any more */
    hz_store_rlx(&segment->base, (uintptr_t)hz_arena.spare[is_direct]);
    hz_signal_fence();
    hz_arena.spare[is_direct] = segment;
}

static void publish(struct hz_segment *segment, char *base, enum hz_segment_kind kind) {
    hz_store_rlx(&segment->base, (uintptr_t)base); /* relaxed: published by the next stores */
    hz_store_rel(&segment->kind, (uint8_t)kind);   /* sync: segment-publish, partner hz_arena_segment */
    /* sync: segment-publish, partner segment_at */
    hz_store_rel(hz_space_entry((uintptr_t)base), segment->index + 1);
}

static void unpublish(struct hz_segment *segment) {
    /* sync: segment-publish, partner segment_at. relaxed: the segment is the caller's */
    hz_store_rel(hz_space_entry(hz_load_rlx(&segment->base)), 0);
}

/* The OS gives no memory for descriptions of segments, perhaps because a limit was set late (RLIMIT_AS counts what is
   reserved already): gives them `next`, the next reserved part, which is accessible, unless nothing would be left for a
   segment. */
static bool reserved_to_meta_locked(char *next) {
    if (hz_load_rlx(&hz_arena.count) == hz_arena.capacity || hz_space_reserved_locked() < 2) /* relaxed: lock */
        return false;
    hz_space_take_locked();
    hz_os_show(next, HZ_SEGMENT_BYTES);
    hz_meta_give(next, HZ_SEGMENT_BYTES);
    return true;
}

/* Space for a segment: what is reserved next, or a mapping of its own where nothing is reserved in advance. */
static char *segment_space_locked(bool *is_reserved) {
    char *next = hz_arena.tight ? NULL : hz_space_next_locked();
    *is_reserved = next != NULL;
    if (next != NULL)
        return hz_os_commit(next, HZ_SEGMENT_BYTES) ? next : NULL;
    char *space = hz_space_get_locked(HZ_SEGMENT_BYTES, HZ_SEGMENT_BYTES, true);
    if (space != NULL) /* as what is mapped anew in it later: otherwise that would be a mapping of its own */
        hz_os_name(space, HZ_SEGMENT_BYTES, HZ_NAME_BLOCKS);
    return space;
}

static bool segment_add_locked(void) {
    bool is_reserved;
    char *base = segment_space_locked(&is_reserved);
    bool has_tables = base != NULL && hz_space_tables_open_locked(base, HZ_SEGMENT_BYTES);
    struct hz_segment *segment = has_tables ? entry_get_locked(false) : NULL;
    if (segment == NULL) {
        if (base != NULL && !is_reserved)
            (void)hz_os_unmap(base, HZ_SEGMENT_BYTES); /* if refused, address space is lost */
        /* once: then there is memory for an entry */
        return has_tables && is_reserved && reserved_to_meta_locked(base) && segment_add_locked();
    }
    if (is_reserved)
        hz_space_take_locked();
    hz_dump_begin(&segment->hidden, base, is_reserved ? HZ_SEGMENT_BYTES : 0);
    publish(segment, base, HZ_SEGMENT_PAGED);
    hz_add_rlx(&hz_arena.segments_acquired, 1); /* relaxed: counter */
    hz_runmap_add(&hz_arena.pages, segment->index);
    return true;
}

/* Adds a segment, unless another thread has done so since the caller read `seen_count`. False when the OS gives no more
   memory, or the directory is full. */
static bool segment_add(uint32_t seen_count) {
    hz_lock_acquire(&hz_arena.lock);
    bool done = hz_load_rlx(&hz_arena.count) != seen_count || segment_add_locked(); /* relaxed: lock */
    hz_lock_release(&hz_arena.lock);
    return done;
}

size_t hz_arena_undescribe(struct hz_segment *segment) {
    uintptr_t os_page = hz_os_page_bytes();
    uintptr_t begin = hz_round_up((uintptr_t)segment->meta, os_page);
    uintptr_t behind = (uintptr_t)(segment + 1) & ~(os_page - 1);
    if (!hz_load_rlx(&segment->is_described)) /* relaxed, both: hint */
        return 0;
    hz_store_rlx(&segment->is_described, false);
    return begin < behind && hz_os_purge((void *)begin, behind - begin) ? behind - begin : 0;
}

/* Unmaps a segment if none of its pages is in use. */
static size_t segment_release_unused(uint32_t index) {
    struct hz_claim claim;
    if (!hz_runmap_claim_bits(&hz_arena.pages, index, UINT64_MAX, &claim))
        return 0;
    /* sync: segment-publish, partner entry_get_locked */
    struct hz_segment *segment = hz_load_acq(&hz_arena.segments[index]);
    char *base = hz_segment_page_address(segment, 0);
    hz_huge_forget(&segment->huge); /* first: whoever collapses a unit of it must not advise on what comes there next */
    hz_lock_acquire(&hz_arena.lock); /* in tight mode another address could take the entry meanwhile */
    unpublish(segment);
    bool is_gone = hz_os_unmap(base, HZ_SEGMENT_BYTES);
    if (!is_gone) /* too many mappings to split one: the segment stays */
        publish(segment, base, HZ_SEGMENT_PAGED);
    hz_lock_release(&hz_arena.lock);
    if (!is_gone) {
        hz_runmap_clean(&hz_arena.pages, index, ~claim.dirty);
        hz_runmap_release(&hz_arena.pages, index, UINT64_MAX);
        return 0;
    }
    (void)hz_arena_undescribe(segment);
    hz_dump_begin(&segment->hidden, base, 0); /* no unit of it is hidden any more */
    hz_runmap_remove(&hz_arena.pages, index);
    hz_lock_acquire(&hz_arena.lock);
    entry_release_locked(segment, false);
    hz_lock_release(&hz_arena.lock);
    return HZ_SEGMENT_BYTES;
}

/* `resting`: also those in which pages rest. */
static size_t segments_release_unused(bool resting) {
    size_t bytes = 0;
    uint32_t index;
    for (uint32_t from = 0; hz_runmap_next_unused(&hz_arena.pages, from, &index); from = index + 1)
        if (resting || hz_arena_masks_get(index).dirty == 0)
            bytes += segment_release_unused(index);
    return bytes;
}

void hz_arena_idle_end(uint32_t idle_ms, unsigned most) {
    uint32_t now = (uint32_t)hz_os_now_ms();
    unsigned kept = 0;
    uint32_t index;
    if (hz_space_is_scarce()) /* they could not be had again */
        return;
    for (uint32_t from = 0; most > 0 && hz_runmap_next_unused(&hz_arena.pages, from, &index); from = index + 1) {
        /* relaxed: hint */
        bool is_idle = hz_arena_masks_get(index).dirty == 0 &&
                       now - hz_load_rlx(&hz_arena.pages.freed_at_ms[index]) >= idle_ms &&
                       kept++ >= HZ_SEGMENT_IDLE_KEPT;
        most -= is_idle && segment_release_unused(index) > 0;
    }
}

/* If the program has limited its address space since the start, unmaps most of the tables, which count against the
   limit. */
static bool tables_give_up(void) {
    if (!hz_space_should_give_up())
        return false;
    hz_lock_acquire(&hz_arena.lock);
    bool is_mine = hz_space_give_up_locked();
    hz_lock_release(&hz_arena.lock);
    return is_mine;
}

static bool cache_empty(void);

/* For an allocation of `bytes` that the OS has refused: gives up what is accessible but unused, since that can count
   against a limit (RLIMIT_DATA, RLIMIT_AS, strict overcommit). False when nothing was given up. Leaves segments and
   regions alone when all of them together would not be enough. */
static bool unused_give_up(size_t bytes) {
    size_t all = ((size_t)hz_arena_segment_count() << HZ_SEGMENT_LOG2) + (size_t)hz_region_count() * HZ_REGION_BYTES;
    bool done = cache_empty();
    done |= tables_give_up();
    return (bytes <= all && segments_release_unused(true) + (hz_arena.tight ? 0 : hz_region_withdraw()) > 0) || done;
}

void hz_arena_trim(void) {
    if (!is_ready())
        return;
    (void)cache_empty();
    (void)segments_release_unused(false);
    hz_lock_acquire(&hz_arena.lock);
    hz_space_drop_locked();
    hz_lock_release(&hz_arena.lock);
    if (!hz_arena.tight)
        (void)hz_region_trim();
}

/* ---- the dirty budget ----------------------------------------------------------------------------------- */

bool hz_arena_part_purge(char *start, size_t bytes, bool anew) {
    return part_give_back(hz_segment_get(start), start, bytes, anew);
}

/* Whether `more` bytes would exceed the hard limit, even after as much has gone back of what rests. */
static bool hard_forbids(size_t more) {
    size_t limit = hz_budget_hard_limit();
    if (HZ_LIKELY(limit == 0) || hz_arena_held_bytes() + more <= limit)
        return false;
    hz_arena_purge(0, hz_max(more >> HZ_PAGE_LOG2, BUDGET_STEP_PAGES));
    return hz_arena_held_bytes() + more > limit;
}

bool hz_arena_is_over_hard(void) {
    return hard_forbids(0);
}

/* In units, free or in the cache. */
static size_t resting_units_bytes(void) {
    return (hz_runmap_resting(&hz_region_units) << HZ_UNIT_LOG2) + hz_direct_cache_unit_bytes();
}

/* Most bytes that may rest once `more` bytes of units do, too. */
static size_t rest_limit(size_t more) {
    return hz_arena_is_over_soft() ? 0 : hz_budget_limit(hz_arena_used_bytes(), resting_units_bytes() + more);
}

/* If more rests than the budget allows, purges up to `most` bytes, rounded up to units. Begins with units if they are
   more than half of what rests, else purges pages only. */
static void budget_keep(size_t most) {
    size_t units = resting_units_bytes();
    size_t resting = hz_arena_resting_bytes();
    size_t limit = rest_limit(0);
    if (HZ_LIKELY(resting <= limit))
        return;
    bool expected = false;
    /* relaxed, all: the CAS picks one thread, and publishes nothing */
    if (hz_load_rlx(&hz_arena.purging) || !hz_cas_rlx_rlx(&hz_arena.purging, &expected, true))
        return;
    most = hz_min(most, resting - (limit - limit / HZ_BUDGET_LOW_SHARE));
    size_t purged = 0;
    if (units > resting / 2) {
        (void)cache_empty(); /* so that what rests the longest goes first */
        purged = hz_runmap_purge_oldest(&hz_region_units, (most + HZ_UNIT_BYTES - 1) >> HZ_UNIT_LOG2) << HZ_UNIT_LOG2;
    }
    if (purged < most && !hz_budget_is_paused())
        purged += hz_runmap_purge_oldest(&hz_arena.pages, (most - purged) >> HZ_PAGE_LOG2) << HZ_PAGE_LOG2;
    hz_add_rlx(&hz_arena.purged_bytes, purged);
    hz_budget_purged(purged);
    hz_store_rlx(&hz_arena.purging, false);
}

void hz_arena_rest_set(size_t bytes) {
    if (!hz_budget_rest_set(bytes))
        return;
    size_t resting = hz_arena_resting_bytes();
    size_t limit = rest_limit(0);
    if (resting > limit)
        hz_arena_purge(0, (resting - limit + HZ_PAGE_BYTES - 1) >> HZ_PAGE_LOG2);
}

/* ---- runs ------------------------------------------------------------------------------------------ */

static void run_begin(struct hz_run *run, const struct hz_claim *claim) {
    run->dirty_mask = claim->dirty;
    run->segment->run_pages[run->first] = (uint8_t)run->pages;
    for (unsigned page = run->first; page < run->first + run->pages; page++)
        run->segment->run_first[page] = (uint8_t)run->first;
    if (!hz_load_rlx(&run->segment->is_described)) /* relaxed, all: hint, published with the run's free bits */
        hz_store_rlx(&run->segment->is_described, true);
    uint8_t hidden = hz_load_rlx(&run->segment->hidden) & hz_dump_units(run->first, run->pages);
    if (HZ_UNLIKELY(hidden != 0))
        hz_dump_show(&run->segment->hidden, hz_segment_page_address(run->segment, 0), hidden);
}

bool hz_arena_run_alloc(unsigned pages, unsigned align_pages, struct hz_run *run) {
    hz_assert(pages >= 1 && pages <= HZ_RUN_PAGES_MAX && hz_is_power_of_two(align_pages));
    struct hz_claim claim;
    bool is_last_try = false;
    if (hard_forbids((size_t)pages << HZ_PAGE_LOG2))
        return false;
    for (;;) {
        uint32_t count = hz_arena_segment_count();
        if (hz_runmap_claim(&hz_arena.pages, pages, align_pages, false, &claim))
            break;
        if (segment_add(count))
            continue;
        if (align_pages > 1 && hz_runmap_claim(&hz_arena.pages, pages, align_pages, true, &claim))
            break;
        if (is_last_try || !unused_give_up((size_t)pages << HZ_PAGE_LOG2))
            return false;
        is_last_try = true;
    }
    run->segment = hz_load_acq(&hz_arena.segments[claim.index]); /* sync: segment-publish, partner entry_get_locked */
    run->first = claim.first;
    run->pages = pages;
    run_begin(run, &claim);
    if ((claim.dirty & claim.bits) == 0)
        hz_huge_run_begin(&run->segment->huge, hz_segment_page_address(run->segment, 0), run->first, run->pages,
                          claim.dirty, hz_arena_runs_bytes());
    size_t reused = hz_bits_count(claim.dirty & claim.bits);
    hz_budget_learn((pages - reused) << HZ_PAGE_LOG2, reused << HZ_PAGE_LOG2, hz_arena_used_bytes(),
                    hz_arena_resting_bytes());
    return true;
}

/* Makes pages plain memory again. False if some cannot be used: their address space is lost. */
static HZ_COLD bool run_heal(struct hz_segment *segment, unsigned first, unsigned pages) {
    bool is_usable = hz_altered_heal(&segment->altered, &segment->huge, hz_segment_page_address(segment, 0),
                                     (size_t)first << HZ_PAGE_LOG2, (size_t)pages << HZ_PAGE_LOG2);
    hz_altered_forget(&segment->altered, first, pages);
    return is_usable;
}

static void run_release(struct hz_segment *segment, unsigned first, unsigned pages) {
    if (hz_altered_is_likely(&segment->altered, first, pages) && !run_heal(segment, first, pages))
        return;
    hz_runmap_release(&hz_arena.pages, segment->index, hz_run_bits(first, pages));
    budget_keep(BUDGET_STEP_PAGES << HZ_PAGE_LOG2);
}

void hz_arena_run_free(struct hz_segment *segment, unsigned first) {
    unsigned pages = segment->run_pages[first];
    hz_assert(pages > 0);
    segment->run_pages[first] = 0;
    run_release(segment, first, pages);
}

bool hz_arena_run_grow(struct hz_segment *segment, unsigned first, unsigned more, uint64_t *dirty_mask) {
    unsigned pages = segment->run_pages[first];
    if (more > HZ_RUN_PAGES_MAX || pages + more > HZ_RUN_PAGES_MAX || first + pages + more > HZ_SEGMENT_PAGES)
        return false;
    struct hz_claim claim;
    if (hard_forbids((size_t)more << HZ_PAGE_LOG2) ||
        !hz_runmap_claim_bits(&hz_arena.pages, segment->index, hz_run_bits(first + pages, more), &claim))
        return false;
    struct hz_run run = {.segment = segment, .first = first, .pages = pages + more};
    run_begin(&run, &claim);
    *dirty_mask = claim.dirty;
    return true;
}

void hz_arena_run_shrink(struct hz_segment *segment, unsigned first, unsigned pages) {
    unsigned old = segment->run_pages[first];
    hz_assert(pages >= 1 && pages <= old);
    if (pages == old)
        return;
    segment->run_pages[first] = (uint8_t)pages;
    run_release(segment, first + pages, old - pages);
}

/* ---- direct blocks ----------------------------------------------------------------------------------- */

void hz_arena_alone_set(size_t bytes) {
    size_t least = (size_t)HZ_RUN_PAGES_MAX << HZ_PAGE_LOG2;
    hz_store_rlx(&hz_arena.alone_bytes,
                 hz_min(hz_max(bytes, least), HZ_REGION_BLOCK_BYTES_MAX + 1)); /* relaxed: hint */
}

/* Makes the memory at `base` a block; NULL when there is no directory entry. */
static struct hz_segment *direct_publish(char *base, size_t bytes, uint32_t region) {
    hz_lock_acquire(&hz_arena.lock);
    struct hz_segment *segment = entry_get_locked(true);
    if (segment != NULL) {
        hz_store_rlx(&segment->direct_bytes, bytes); /* relaxed, all: published by publish */
        hz_store_rlx(&segment->region, region);
        hz_store_rlx(&segment->is_altered, false);
        publish(segment, base, HZ_SEGMENT_DIRECT);
    }
    hz_lock_release(&hz_arena.lock);
    return segment;
}

/* Ends a block to which no address leads any more. */
static void direct_end(struct hz_segment *segment, bool is_altered) {
    char *base = (char *)hz_load_rlx(&segment->base); /* relaxed, all: owner */
    size_t bytes = hz_load_rlx(&segment->direct_bytes);
    uint32_t region = hz_load_rlx(&segment->region);
    hz_lock_acquire(&hz_arena.lock);
    entry_release_locked(segment, true);
    hz_lock_release(&hz_arena.lock);
    hz_sub_rlx(&hz_arena.direct_bytes, bytes); /* relaxed, both: counters */
    hz_add_rlx(&hz_arena.purged_bytes, region == 0 || is_altered ? bytes : 0);
    hz_direct_space_release(base, bytes, region, is_altered);
}

/* ---- direct blocks that were freed a moment ago ---- */

/* `taken`: as hz_direct_cache_take returns it, not HZ_DIRECT_NONE. */
static struct hz_segment *cached_segment(uint32_t taken) {
    return hz_load_acq(&hz_arena.segments[taken - 1]); /* sync: segment-publish, partner entry_get_locked */
}

/* The blocks leave the cache; their units rest. True if there was one. */
static bool cache_empty(void) {
    uint32_t taken = HZ_DIRECT_NONE;
    unsigned left = CACHE_BLOCKS_MAX; /* others may never stop freeing */
    for (; left > 0 && (taken = hz_direct_cache_take_any()) != HZ_DIRECT_NONE; left--)
        direct_end(cached_segment(taken), false);
    return left < CACHE_BLOCKS_MAX;
}

static void cache_age(void) {
    uint32_t taken;
    while ((taken = hz_direct_cache_take_old(HZ_DIRECT_LOOK_MS)) != HZ_DIRECT_NONE)
        direct_end(cached_segment(taken), false);
}

/* Whether a block of this length comes from the cache and goes into it. */
static bool is_for_cache(size_t bytes) {
    return !hz_arena.tight && !hz_direct_is_alone(bytes);
}

/* A block that was freed a moment ago; NULL when there is none of that length. */
static struct hz_segment *cached_get(size_t bytes, bool zeroed) {
    uint32_t taken = is_for_cache(bytes) ? hz_direct_cache_take(bytes) : HZ_DIRECT_NONE;
    if (taken == HZ_DIRECT_NONE)
        return NULL;
    struct hz_segment *segment = cached_segment(taken);
    char *base = (char *)hz_load_rlx(&segment->base); /* relaxed, both: owner */
    size_t former = hz_load_rlx(&segment->direct_bytes);
    if (hard_forbids(bytes > former ? bytes - former : 0)) { /* the limit may be newer than the cached block */
        direct_end(segment, false);
        return NULL;
    }
    if (bytes != former) {
        hz_add_rlx(&hz_arena.direct_bytes, bytes - former); /* relaxed, both: counter, owner */
        hz_store_rlx(&segment->direct_bytes, bytes);
    }
    if (zeroed && !hz_os_purge(base, bytes))
        memset(base, 0, bytes);
    publish(segment, base, HZ_SEGMENT_DIRECT);
    if (hz_budget_has_idle_loop())
        hz_budget_learn(0, bytes, hz_arena_used_bytes(), hz_arena_resting_bytes());
    return segment;
}

/* Keeps the freed block as it is. False if then more would rest than the budget allows. */
static bool cached_put(struct hz_segment *segment, size_t bytes) {
    if (!is_for_cache(bytes) ||
        hz_arena_resting_bytes() + bytes > rest_limit((size_t)hz_direct_units(bytes) << HZ_UNIT_LOG2))
        return false;
    unpublish(segment);
    hz_store_rel(&segment->kind, HZ_SEGMENT_NONE); /* sync: segment-publish, partner hz_arena_segment */
    uint32_t moved = hz_direct_cache_put(segment->index, bytes);
    if (moved != HZ_DIRECT_NONE)
        direct_end(cached_segment(moved), false);
    if (hz_arena_is_over_soft()) /* which may not have counted the block before */
        budget_keep(bytes);
    return true;
}

struct hz_segment *hz_arena_direct_alloc(size_t bytes, size_t alignment, bool zeroed) {
    struct hz_claim claim;
    alignment = hz_max(alignment, HZ_SEGMENT_BYTES);
    uint32_t region;
    struct hz_segment *segment = alignment == HZ_SEGMENT_BYTES ? cached_get(bytes, zeroed) : NULL;
    if (segment != NULL)
        return segment;
    if (hard_forbids(bytes))
        return NULL;
    if (hz_runmap_resting(&hz_region_units) << HZ_UNIT_LOG2 < bytes && hz_direct_cache_bytes() >= bytes)
        (void)cache_empty(); /* blocks of other lengths: what holds memory is used first */
    char *base = hz_direct_space(bytes, alignment, &claim, &region);
    if (base == NULL && unused_give_up(bytes))
        base = hz_direct_space(bytes, alignment, &claim, &region);
    if (base == NULL)
        return NULL;
    unsigned reused = hz_bits_count(claim.dirty & claim.bits);
    if (zeroed && reused > 0 && !hz_os_purge(base, bytes))
        memset(base, 0, bytes);
    segment = direct_publish(base, bytes, region);
    if (segment == NULL && cache_empty()) /* whose blocks have directory entries */
        segment = direct_publish(base, bytes, region);
    if (segment == NULL) {
        hz_direct_space_release(base, bytes, region, false);
        return NULL;
    }
    hz_add_rlx(&hz_arena.direct_bytes, bytes); /* relaxed: counter */
    segment->is_huge = region == 0 && hz_huge_block_begin(base, bytes);
    if (region != 0)
        hz_budget_learn((size_t)(hz_bits_count(claim.bits) - reused) << HZ_UNIT_LOG2, (size_t)reused << HZ_UNIT_LOG2,
                        hz_arena_used_bytes(), hz_arena_resting_bytes());
    return segment;
}

void hz_arena_direct_free(struct hz_segment *segment) {
    size_t bytes = hz_load_rlx(&segment->direct_bytes); /* relaxed, all: owner */
    bool is_in_region = hz_load_rlx(&segment->region) != 0;
    bool is_altered = hz_load_rlx(&segment->is_altered);
    if (is_in_region && !is_altered && cached_put(segment, bytes))
        return;
    if (segment->is_huge)
        hz_huge_block_end(bytes);
    unpublish(segment); /* first: once the space is released, any thread can get the address */
    direct_end(segment, is_altered);
    if (is_in_region)
        budget_keep(hz_max((size_t)BUDGET_STEP_PAGES << HZ_PAGE_LOG2, bytes));
}

/* If refused, the memory stays with the block. */
static void tail_renew(char *tail, size_t bytes) {
    if (hz_os_renew(tail, bytes))
        hz_os_name(tail, bytes, HZ_NAME_BLOCKS);
}

/* Resizes a block within its region. A block that needs no more units stays there, even if a new block of its size
 * would be mapped alone. */
static bool region_resize(uint32_t region, char *base, size_t old_bytes, size_t bytes, bool is_altered) {
    if (bytes > old_bytes && hz_direct_is_alone(bytes))
        return false;
    unsigned old_units = hz_direct_units(old_bytes);
    unsigned units = hz_direct_units(bytes);
    if (units > old_units) /* the units behind it may be those of a block in the cache */
        return hz_region_grow(region, base, old_units, units - old_units) ||
               (cache_empty() && hz_region_grow(region, base, old_units, units - old_units));
    size_t end = hz_min(old_bytes, (size_t)units << HZ_UNIT_LOG2);
    if (end > bytes && is_altered)
        tail_renew(base + bytes, end - bytes);
    else if (end > bytes && old_bytes - bytes > old_bytes / TAIL_SHARE)
        (void)hz_os_purge(base + bytes, end - bytes);
    if (units < old_units)
        hz_region_release(region, base + ((size_t)units << HZ_UNIT_LOG2), old_units - units, is_altered);
    return true;
}

/* Moves the pages of a block to a mapping of its own. `old_bytes`, in whole units, can be more than `bytes`. The rest
   is cut off only after the move: the kernel would cut it off before, and might then refuse the move. */
static bool direct_move(struct hz_segment *segment, char *base, size_t old_bytes, size_t bytes) {
    size_t room = hz_max(old_bytes, bytes);
    if (bytes > old_bytes && bytes - old_bytes >= PROBE_BYTES && !hz_space_can_map(bytes - old_bytes))
        return false;
    hz_lock_acquire(&hz_arena.lock);
    char *target = hz_space_get_locked(room, HZ_SEGMENT_BYTES, false);
    bool done = target != NULL && hz_space_tables_open_locked(target, HZ_PAGE_BYTES);
    if (target != NULL && !done)
        (void)hz_os_unmap(target, room);
    done = done && hz_os_remap(base, old_bytes, room, target) != NULL; /* if refused, the target is given up */
    if (done) {
        unpublish(segment);
        hz_store_rlx(&segment->region, 0); /* relaxed: published by publish */
        publish(segment, target, HZ_SEGMENT_DIRECT);
        if (room > bytes && !hz_os_unmap(target + bytes, room - bytes))
            (void)hz_os_purge(target + bytes, room - bytes); /* address space is lost, but no memory */
    }
    hz_lock_release(&hz_arena.lock);
    return done;
}

struct hz_segment *hz_arena_direct_resize(struct hz_segment *segment, size_t bytes, bool may_move) {
    char *base = (char *)hz_load_rlx(&segment->base); /* relaxed, all: owner */
    size_t old_bytes = hz_load_rlx(&segment->direct_bytes);
    uint32_t region = hz_load_rlx(&segment->region);
    if (bytes > old_bytes && hard_forbids(bytes - old_bytes))
        return NULL;
    bool done = region != 0 ? region_resize(region - 1, base, old_bytes, bytes, hz_load_rlx(&segment->is_altered))
                            : hz_os_remap(base, old_bytes, bytes, NULL) != NULL;
    if (!done && bytes > old_bytes && may_move) {
        unsigned units = hz_direct_units(old_bytes);
        done = direct_move(segment, base, region != 0 ? (size_t)units << HZ_UNIT_LOG2 : old_bytes, bytes);
        if (done && region != 0)
            hz_region_release_hole(region - 1, base, units);
    }
    if (!done)
        return NULL;
    if (hz_load_rlx(&segment->region) == 0) /* relaxed, both: owner */
        segment->is_huge =
            hz_huge_block_resized((char *)hz_load_rlx(&segment->base), segment->is_huge ? old_bytes : 0, bytes);
    hz_add_rlx(&hz_arena.direct_bytes, bytes - old_bytes); /* relaxed, both: counter, owner */
    hz_store_rlx(&segment->direct_bytes, bytes);
    if (bytes < old_bytes && region != 0) /* as hz_arena_direct_free */
        budget_keep(hz_max((size_t)BUDGET_STEP_PAGES << HZ_PAGE_LOG2, old_bytes - bytes));
    return segment;
}

/* ---- purge --------------------------------------------------------------------------------------- */

static size_t runmap_purge(struct hz_runmap *map, uint64_t delay_ms, size_t most) {
    return delay_ms == 0 ? hz_runmap_purge_all(map, most) : hz_runmap_purge_rested(map, (uint32_t)delay_ms, most);
}

size_t hz_arena_purge(uint64_t delay_ms, size_t budget_pages) {
    if (!is_ready())
        return 0;
    if (delay_ms == 0)
        (void)cache_empty();
    else
        cache_age();
    size_t pages = delay_ms != 0 && hz_budget_is_paused() ? 0 : runmap_purge(&hz_arena.pages, delay_ms, budget_pages);
    size_t units = 0;
    if (!hz_arena.tight && pages < budget_pages)
        units = runmap_purge(&hz_region_units, delay_ms, (budget_pages - pages - 1) / HZ_SEGMENT_PAGES + 1);
    if (hz_arena.tight && delay_ms == 0)
        (void)segments_release_unused(true);
    size_t purged = (pages << HZ_PAGE_LOG2) + (units << HZ_UNIT_LOG2);
    hz_add_rlx(&hz_arena.purged_bytes, purged); /* relaxed: counter */
    return purged;
}

void hz_arena_tick(void) {
    uint64_t now = hz_os_now_ms();
    uint64_t last = hz_load_rlx(&hz_arena.ticked_at_ms); /* relaxed: hint */
    /* relaxed: the CAS picks one thread, and publishes nothing */
    if (now >= last + TICK_MS && hz_cas_rlx_rlx(&hz_arena.ticked_at_ms, &last, now)) {
        hz_arena_purge(HZ_PURGE_DELAY_MS, TICK_BUDGET_PAGES);
        hz_budget_age(hz_arena_resting_bytes());
        (void)tables_give_up();
        budget_keep(TICK_BUDGET_PAGES << HZ_PAGE_LOG2);
        hz_arena_idle_end(HZ_SEGMENT_IDLE_MS, IDLE_MOST);
    }
}

struct hz_runmap *hz_arena_pages(void) {
    return &hz_arena.pages;
}

struct hz_arena_masks hz_arena_masks_get(uint32_t index) {
    uint64_t dirty = hz_load_rlx(&hz_arena.pages.dirty_masks[index]); /* relaxed, both: figures, which can change */
    return (struct hz_arena_masks){.dirty = dirty, .unused = hz_load_rlx(&hz_arena.pages.free_masks[index])};
}

size_t hz_arena_hollow_bytes(void) {
    return hz_load_rlx(&hz_arena.hollow_bytes); /* relaxed: counter */
}

size_t hz_arena_segments_acquired(void) {
    return hz_load_rlx(&hz_arena.segments_acquired); /* relaxed: counter */
}

void hz_arena_show(void) {
    for (uint32_t index = 0; index < hz_arena_segment_count(); index++) {
        struct hz_segment *segment = hz_arena_segment(index);
        if (segment != NULL &&
            hz_load_rlx(&segment->kind) == HZ_SEGMENT_PAGED) /* relaxed: hint; direct ones have no marks */
            hz_dump_show(&segment->hidden, hz_segment_page_address(segment, 0), UINT8_MAX);
    }
    if (is_ready())
        hz_dump_all(&hz_arena);
}

void hz_arena_after_fork(void) {
    hz_lock_settle(&hz_arena.lock); /* the fields are sound after each step; what its holder had taken out is lost */
}

void hz_arena_recount_after_fork(size_t direct_bytes) {
    if (!is_ready())
        return;
    hz_runmap_repair(&hz_arena.pages, hz_arena_segment_count());
    if (!hz_arena.tight)
        hz_runmap_repair(&hz_region_units, hz_region_count());
    hz_direct_cache_recount_after_fork();
    hz_store_rlx(&hz_arena.direct_bytes, direct_bytes + hz_direct_cache_bytes()); /* relaxed, both: one thread */
    hz_store_rlx(&hz_arena.purging, false);
}
