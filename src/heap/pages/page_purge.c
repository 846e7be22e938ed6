/*
 * page_purge.c - see page_purge.h.
 *
 * The memory goes back under the exclusive of the page's shard, so that no block of it is carved meanwhile. One call of
 * the OS takes about a microsecond, so CALLS_AT_ONCE bounds how long the shard's threads can wait.
 */
#include "heap/pages/page_purge.h"

#include "heap/pages/page.h"
#include "heap/seal.h"
#include "policy.h"

enum {
    CALLS_AT_ONCE = 16,       /* most calls of the OS under one lock */
    TRIED = (int)(1U << 30),  /* in looked_free: the look left no unit to purge, */
    SPARED = (int)(1U << 29), /* or what it left is worth less than the huge page that it lies in */
};

struct walk {
    struct hz_thread_block *self;
    enum hz_page_purge_mode mode;
    bool is_trim;
    bool is_anew;                     /* maps what it purges anew */
    bool found;                       /* something to purge */
    uint32_t calls;                   /* left */
    const struct hz_segment *looked;  /* the segment that `resident` is of */
    bool knows;                       /* `resident` is known */
    uint64_t resident[HZ_MARKS / 64]; /* the segment's system pages that are in memory */
};

/* Purged units of the page that the kernel has filled again: it makes huge pages of neighbours, for the program or by
   itself. One call for all pages of a segment; what it says can be old, so such a unit may be purged in vain. */
static uint64_t filled_units(struct walk *walk, const struct hz_page *page) {
    struct hz_segment *segment = hz_segment_get(page->start);
    char *base = hz_segment_page_address(segment, 0);
    if (walk->looked != segment) {
        walk->looked = segment;
        walk->knows = hz_os_resident_map(base, HZ_SEGMENT_BYTES, walk->resident);
    }
    unsigned os_log2 = hz_log2(hz_os_page_bytes());
    unsigned log2 = hz_page_unit_log2(page);
    uint64_t filled = 0;
    for (uint64_t left = walk->knows ? hz_load_rlx(&page->purged_units) : 0; /* relaxed: lock */
         left != 0; left &= left - 1) {
        unsigned unit = (unsigned)__builtin_ctzll(left);
        size_t first = ((size_t)(page->start - base) + ((size_t)unit << log2)) >> os_log2;
        for (size_t at = first; at < first + ((size_t)1 << (log2 - os_log2)); at++)
            filled |= (walk->resident[at / 64] >> (at % 64) & 1) << unit;
    }
    return filled;
}

/* Units that no block that is out touches. Takes the blocks that are out in runs of neighbouring bits. If 64 blocks fit
   into a unit, no gap between two blocks of a word has room for a unit, so all from the first to the last is one run.
 */
static uint64_t free_units(const struct hz_page *page) {
    unsigned log2 = hz_page_unit_log2(page);
    bool has_small_gaps = (size_t)64 * page->block_bytes <= (size_t)1 << log2;
    uint64_t used_units = 0;
    for (uint32_t word = 0; word * 64 < page->capacity; word++) {
        uint32_t bits = (uint32_t)hz_min(page->capacity - word * 64, 64);
        uint64_t used = ~page->free_bits[word] & (UINT64_MAX >> (64 - bits));
        while (used != 0) {
            unsigned first = (unsigned)__builtin_ctzll(used);
            uint64_t after = ~(used >> first);
            unsigned run = after == 0 ? 64 : (unsigned)__builtin_ctzll(after);
            unsigned count = has_small_gaps ? 64 - (unsigned)__builtin_clzll(used) - first : run;
            used &= ~((UINT64_MAX >> (64 - count)) << first);
            uint32_t index = (word * 64 + first + page->rotation) % page->capacity;
            uint32_t straight = (uint32_t)hz_min(count, page->capacity - index); /* the rest begins at block 0 */
            used_units |=
                hz_units_touched(log2, (size_t)index * page->block_bytes, (size_t)straight * page->block_bytes);
            if (straight < count)
                used_units |= hz_units_touched(log2, 0, (size_t)(count - straight) * page->block_bytes);
        }
    }
    size_t run_bytes = (size_t)hz_load_rlx(&page->run_pages) << HZ_PAGE_LOG2; /* relaxed: lock */
    return hz_units_touched(log2, 0, run_bytes) & ~used_units;
}

/* Whether the walk breaks up huge pages for little. */
static bool spares_nothing(const struct walk *walk) {
    return walk->is_trim || hz_arena_is_over_soft();
}

/* The units that the walk purges of a page. A trim maps anew also what was purged without that: the program may have
   changed it by system calls of its own. */
static uint64_t units_wanted(struct walk *walk, const struct hz_page *page) {
    uint64_t unused = free_units(page);
    if (walk->mode == HZ_PURGE_FILLED)
        return unused & filled_units(walk, page);
    if (walk->is_anew)
        return unused & (~page->plain_units | filled_units(walk, page));
    return unused & ~hz_load_rlx(&page->purged_units); /* relaxed: lock */
}

/* Whether `units`, which could be purged, are too little to break up the huge page that the page lies in. */
static bool is_worth_huge(const struct walk *walk, const struct hz_page *page, uint64_t units) {
    if (units == 0 || spares_nothing(walk))
        return false;
    unsigned unit = hz_segment_page(page->start) / (HZ_HUGE_BYTES / HZ_PAGE_BYTES);
    size_t run_bytes = (size_t)hz_load_rlx(&page->run_pages) << HZ_PAGE_LOG2; /* relaxed: lock */
    return ((size_t)__builtin_popcountll(units) << hz_page_unit_log2(page)) < run_bytes / HZ_HUGE_BREAK_SHARE &&
           hz_huge_is_asked(&hz_segment_get(page->start)->huge, unit);
}

/* Purges up to CALLS_AT_ONCE runs of `units`. False when there is more to do. */
static bool purge_units_locked(struct walk *walk, struct hz_shard *shard, struct hz_page *page, uint64_t units) {
    unsigned log2 = hz_page_unit_log2(page);
    for (unsigned calls = CALLS_AT_ONCE; units != 0 && calls > 0; calls--) {
        unsigned first = (unsigned)__builtin_ctzll(units);
        uint64_t after = ~(units >> first);
        unsigned count = after == 0 ? 64 - first : (unsigned)__builtin_ctzll(after);
        uint64_t run = (UINT64_MAX >> (64 - count)) << first;
        units &= ~run;
        walk->calls -= walk->calls > 0;
        if (HZ_BLOCKS_SEALED)
            hz_seals_forget(page->start + ((size_t)first << log2), (size_t)count << log2);
        if (!hz_arena_part_purge(page->start + ((size_t)first << log2), (size_t)count << log2, walk->is_anew))
            continue; /* the memory may be locked; what it holds does not matter */
        uint64_t purged = hz_load_rlx(&page->purged_units); /* relaxed, both: lock */
        uint64_t fresh = run & ~purged;
        hz_store_rlx(&page->purged_units, purged | run);
        page->plain_units |= walk->is_anew ? run : 0;
        hz_page_count_purged_locked(shard, page, fresh, 1);
        hz_arena_count_purged((size_t)__builtin_popcountll(fresh) << log2);
    }
    return units == 0;
}

/* Whether the page's turn has come, by what the last walk saw. */
static bool is_due(struct hz_page *page, const struct walk *walk) {
    uint32_t unused = hz_load_rlx(&page->free_count); /* relaxed, all: hint */
    if (walk->mode == HZ_PURGE_ZONES && hz_load_rlx(&page->shard) != HZ_SHARD_OF_ZONE)
        return false;
    uint32_t looked = hz_load_rlx(&page->looked_free);
    if (walk->mode == HZ_PURGE_FILLED)
        return unused != 0 && hz_load_rlx(&page->purged_units) != 0;
    if (walk->is_anew)
        return unused != 0;
    if (unused == 0 || looked == (unused | TRIED) || (looked == (unused | SPARED) && !spares_nothing(walk)))
        return false;
    if (walk->mode == HZ_PURGE_RECENT || looked == unused || looked == (unused | SPARED))
        return true;
    hz_store_rlx(&page->looked_free, unused);
    return false;
}

static void page_look(void *context, struct hz_page *page) {
    struct walk *walk = context;
    if (walk->calls == 0 || !is_due(page, walk))
        return;
    struct hz_shard *shard = hz_page_shard(page); /* asked again under the lock */
    uint32_t retired = 0;
    hz_shard_lock(walk->self, shard, HZ_TO_GIVE);
    /* sync: page-publish, partners hz_page_create_locked, hz_page_retire_locked. If the page has a class and is this
     * shard's, both stay true while the lock is held */
    if (hz_load_acq(&page->size_class) != HZ_CLASS_NONE && hz_page_is_of(page, shard) &&
        page->list_state == HZ_PAGE_LISTED) {
        uint32_t unused = hz_load_rlx(&page->free_count); /* relaxed, both: lock; hint */
        if (unused == page->capacity && walk->mode != HZ_PURGE_FILLED) {
            hz_page_retire_locked(shard, page);
            retired = 1;
        } else {
            uint64_t units = units_wanted(walk, page);
            walk->found |= units != 0;
            if (walk->mode == HZ_PURGE_FILLED)
                (void)purge_units_locked(walk, shard, page, units); /* what is left is found by the next walk */
            else if (is_worth_huge(walk, page, units))
                hz_store_rlx(&page->looked_free, unused | SPARED);
            else if (purge_units_locked(walk, shard, page, units))
                hz_store_rlx(&page->looked_free, unused | TRIED);
        }
    }
    hz_shard_unlock(shard);
    hz_count(&walk->self->counters.page_retire, retired);
}

void hz_pages_purge_all(struct hz_thread_block *self, bool anew) {
    struct walk walk = {.self = self, .mode = HZ_PURGE_RECENT, .is_trim = true, .is_anew = anew, .calls = UINT32_MAX};
    hz_pages_walk(page_look, &walk);
}

bool hz_pages_purge_filled(struct hz_thread_block *self) {
    struct walk walk = {.self = self, .mode = HZ_PURGE_FILLED, .calls = UINT32_MAX};
    hz_pages_walk(page_look, &walk);
    return walk.found;
}

bool hz_pages_purge(struct hz_thread_block *self, enum hz_page_purge_mode mode, uint32_t *next, uint32_t segments,
                    uint32_t calls) {
    struct walk walk = {.self = self, .mode = mode, .calls = calls};
    uint32_t count = hz_arena_segment_count();
    for (; *next < count && segments > 0 && walk.calls > 0; segments--) {
        hz_pages_walk_segment(*next, page_look, &walk);
        *next += walk.calls > 0; /* otherwise the next call goes on in this segment */
    }
    if (*next < count)
        return false;
    *next = 0;
    return true;
}
