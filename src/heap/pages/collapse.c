/*
 * collapse.c - see collapse.h.
 *
 * The keeper holds no lock while it calls the OS, so no thread waits for the call in malloc. But the kernel makes other
 * threads wait that touch the unit, fault or map meanwhile: as long as it takes to copy 2 MiB.
 */
#include "heap/pages/collapse.h"

#include "base/map/huge.h"
#include "base/os/hooks.h"
#include "base/os/os.h"
#include "heap/pages/page.h"

enum {
    SEGMENT_UNITS = HZ_SEGMENT_BYTES / HZ_HUGE_BYTES,
    PAGES_OF_UNIT = HZ_SEGMENT_PAGES / SEGMENT_UNITS,
    LOOK_SEGMENTS = 64,      /* most segments that one call looks at; each takes some microseconds */
    COLLAPSE_MOST_US = 5000, /* after this time a call begins no other segment: 5 % of the time between rounds */
    FORK_PAUSE_MS = 60000,
};

struct fullness {
    struct hz_thread_block *self;
    unsigned full[SEGMENT_UNITS]; /* pages of the unit that are full of small blocks */
};

static void page_count_if_full(void *context, struct hz_page *page) {
    struct fullness *seen = context;
    struct hz_shard *shard = hz_page_shard(page); /* asked again under the lock */
    hz_shard_lock(seen->self, shard, HZ_TO_GIVE);
    /* sync: page-publish, partners hz_page_create_locked, hz_page_retire_locked. If the page has a class and is this
     * shard's, both stay true while the lock is held. A run of small blocks is one page long */
    if (hz_load_acq(&page->size_class) != HZ_CLASS_NONE && hz_page_is_of(page, shard) &&
        hz_load_rlx(&page->run_pages) == 1 && hz_page_is_full_of_small_locked(page)) /* relaxed: lock */
        seen->full[hz_segment_page(page->start) / PAGES_OF_UNIT]++;
    hz_shard_unlock(shard);
}

static bool segment_collapse(struct hz_thread_block *self, uint32_t index) {
    struct hz_segment *segment = hz_arena_segment(index);
    bool begun[SEGMENT_UNITS] = {false};
    bool any = false;
    /* relaxed: hz_arena_segment has acquired it */
    if (segment == NULL || hz_load_rlx(&segment->kind) != HZ_SEGMENT_PAGED)
        return false;
    uint64_t unused = hz_arena_masks_get(index).unused;
    for (unsigned unit = 0; unit < SEGMENT_UNITS; unit++) {
        uint64_t pages = (UINT64_MAX >> (HZ_SEGMENT_PAGES - PAGES_OF_UNIT)) << (unit * PAGES_OF_UNIT);
        begun[unit] = (unused & pages) == 0 && hz_huge_collapse_begin(&segment->huge, unit);
        any |= begun[unit];
    }
    struct fullness seen = {.self = self};
    if (any)
        hz_pages_walk_segment(index, page_count_if_full, &seen);
    any = false;
    for (unsigned unit = 0; unit < SEGMENT_UNITS; unit++) {
        if (begun[unit] && seen.full[unit] == PAGES_OF_UNIT)
            any |= hz_huge_collapse(&segment->huge, hz_segment_page_address(segment, 0), unit);
        else if (begun[unit])
            hz_huge_collapse_cancel(&segment->huge, unit);
    }
    return any;
}

static bool may_collapse(void) {
    uint64_t forked = hz_hooks_forked_at_ms();
    return hz_huge_collapse_is_wanted(hz_arena_runs_bytes()) && !hz_arena_is_over_soft() &&
           (forked == 0 || hz_os_now_ms() >= forked + FORK_PAUSE_MS);
}

bool hz_collapse(struct hz_thread_block *self) {
    static uint32_t next; /* owner: the one thread that calls this */
    bool any = false;
    if (!may_collapse())
        return false;
    uint64_t begin = hz_os_now_us();
    uint64_t took = 0;
    uint32_t count = hz_arena_segment_count();
    for (size_t left = hz_min(count, LOOK_SEGMENTS); left > 0 && took < COLLAPSE_MOST_US && may_collapse(); left--) {
        next = next + 1 < count ? next + 1 : 0;
        any |= segment_collapse(self, next);
        took = hz_os_now_us() - begin;
    }
    if (any)
        hz_huge_collapse_rest(took);
    return any;
}
