/*
 * census.c - see census.h. First all blocks that are not in their pages count as live; then each tier takes back what
 * rests in it.
 */
#include "heap/report/census.h"

#include "base/arena/arena.h"
#include "base/map/meta.h"
#include "base/map/region.h"
#include "base/os/hooks.h"
#include "base/os/os.h"
#include "base/profile/profile.h"
#include "base/profile/profile_sites.h"
#include "base/watch/guard_pool.h"
#include "cpu_bins.h"
#include "heap/cache/batches.h"
#include "heap/cache/depot.h"
#include "heap/pages/page.h"
#include "heap/threads/thread_block.h"
#include "heap/threads/zone.h"
#include "sent.h"

enum {
    CENSUS_MARK_LOG2 = 4, /* a mark for each granule */
    SEGMENT_MARKS = HZ_SEGMENT_BYTES >> CENSUS_MARK_LOG2,
};

_Static_assert(1 << CENSUS_MARK_LOG2 == (int)HZ_GRANULE_BYTES, "blocks begin at granules");

/* ---- finding ------------------------------------------------------------------------------------------ */

static bool is_large_there(uintptr_t place) {
    return hz_pagetag_class((const void *)place) == HZ_CLASS_LARGE; /* NOLINT(performance-no-int-to-ptr) */
}

static bool find_direct(const struct hz_census *census, uintptr_t address, struct hz_census_block *block) {
    uint32_t low = 0;
    uint32_t high = census->direct_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (census->direct[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == census->direct_count || census->direct[low].begin > address)
        return false;
    const struct hz_census_direct *found = &census->direct[low];
    block->start = found->begin;
    block->bytes = found->end - found->begin;
    block->marks = census->marks + (size_t)found->index * SEGMENT_MARKS;
    return true;
}

/* In a segment of pages. Reads what the tags and descriptions say, as hz_query_place does. */
static bool find_paged(const struct hz_census *census, struct hz_segment *segment, uintptr_t address,
                       struct hz_census_block *block) {
    unsigned first = segment->run_first[hz_segment_page((const void *)address)]; /* NOLINT(performance-no-int-to-ptr) */
    uintptr_t base = hz_load_rlx(&segment->base);                                /* relaxed: nobody changes it */
    uintptr_t run = base + ((uintptr_t)first << HZ_PAGE_LOG2);
    size_t run_bytes = (size_t)segment->run_pages[first] << HZ_PAGE_LOG2;
    unsigned size_class = hz_pagetag_class((const void *)run); /* NOLINT(performance-no-int-to-ptr) */
    if (address - run >= run_bytes || size_class == HZ_CLASS_NONE)
        return false;
    *block = (struct hz_census_block){.start = run, .bytes = run_bytes};
    if (size_class != HZ_CLASS_LARGE) {
        const struct hz_page *page = (const struct hz_page *)(const void *)&segment->meta[first];
        size_t number = (address - (uintptr_t)page->start) / page->block_bytes;
        if (hz_load_rlx(&page->size_class) == HZ_CLASS_NONE || number >= page->capacity) /* relaxed: as above */
            return false;
        block->start = (uintptr_t)page->start + number * page->block_bytes;
        block->bytes = page->block_bytes;
    }
    block->marks = census->marks + (size_t)segment->index * SEGMENT_MARKS + ((block->start - base) >> CENSUS_MARK_LOG2);
    return true;
}

static bool find_profiled(const struct hz_census *census, uintptr_t address, struct hz_census_block *block) {
    struct hz_profile_block found;
    if (!hz_profile_block_at((const void *)address, &found)) /* NOLINT(performance-no-int-to-ptr) */
        return false;
    uintptr_t start = (uintptr_t)found.start;
    size_t offset = start - hz_load_rlx(&hz_profile_state.begin); /* relaxed: constant */
    if (census->pool_at + (offset >> CENSUS_MARK_LOG2) >= census->guard_at)
        return false;
    *block =
        (struct hz_census_block){start, found.bytes, census->marks + census->pool_at + (offset >> CENSUS_MARK_LOG2)};
    return true;
}

static bool find_guarded(const struct hz_census *census, uintptr_t address, struct hz_census_block *block) {
    uint32_t index = hz_guard_slot_of((const void *)address); /* NOLINT(performance-no-int-to-ptr) */
    if (index == HZ_GUARD_SLOTS)
        return false;
    const struct hz_guard_slot *slot = hz_guard_slot_at(index);
    if (slot == NULL || slot->state != HZ_GUARD_LIVE || address - (uintptr_t)slot->start >= hz_max(slot->size, 1))
        return false;
    *block = (struct hz_census_block){(uintptr_t)slot->start, slot->size, census->marks + census->guard_at + index};
    return true;
}

/* The place of a block, live or not. */
static bool census_place_find(const struct hz_census *census, uintptr_t address, struct hz_census_block *block) {
    const void *pointer = (const void *)address; /* NOLINT(performance-no-int-to-ptr) */
    if (hz_guard_has(pointer))
        return find_guarded(census, address, block);
    if (hz_profile_has(pointer))
        return find_profiled(census, address, block);
    struct hz_segment *segment = hz_segment_find(pointer);
    if (segment == NULL || segment->index >= census->segments ||
        hz_load_rlx(&segment->kind) != HZ_SEGMENT_PAGED) /* relaxed: nobody changes it */
        return find_direct(census, address, block);
    return find_paged(census, segment, address, block);
}

bool hz_census_find(const struct hz_census *census, uintptr_t address, struct hz_census_block *block) {
    return address - census->begin < census->end - census->begin && census_place_find(census, address, block) &&
           (*block->marks & HZ_CENSUS_LIVE) != 0;
}

void hz_census_forget(void *of, const void *pointer) {
    const struct hz_census *census = of;
    struct hz_census_block block;
    if (pointer != NULL && census_place_find(census, (uintptr_t)pointer, &block))
        *block.marks &= (uint8_t)~HZ_CENSUS_LIVE;
}

/* ---- walking ------------------------------------------------------------------------------------------ */

struct census_walk {
    const struct hz_census *census;
    void (*visit)(void *context, const struct hz_census_block *block);
    void *context;
};

static void census_visit(const struct census_walk *walk, const struct hz_census_block *block) {
    if ((*block->marks & HZ_CENSUS_LIVE) != 0)
        walk->visit(walk->context, block);
}

/* One run of pages. */
static void census_run_walk(const struct census_walk *walk, uintptr_t run) {
    struct hz_census_block block;
    if (!census_place_find(walk->census, run, &block))
        return;
    if (is_large_there(run)) {
        census_visit(walk, &block);
        return;
    }
    const struct hz_page *page = hz_page_of((const void *)run); /* NOLINT(performance-no-int-to-ptr) */
    for (uint32_t number = 0; number < page->capacity; number++) {
        census_visit(walk, &block);
        block.start += block.bytes;
        block.marks += block.bytes >> CENSUS_MARK_LOG2;
    }
}

static void census_segment_walk(const struct census_walk *walk, struct hz_segment *segment) {
    uintptr_t base = hz_load_rlx(&segment->base); /* relaxed: nobody changes it */
    for (unsigned page = 0; page < HZ_SEGMENT_PAGES; page++)
        if (segment->run_first[page] == page)
            census_run_walk(walk, base + ((uintptr_t)page << HZ_PAGE_LOG2));
}

static void census_pool_walk(const struct census_walk *walk) {
    uintptr_t begin = hz_load_rlx(&hz_profile_state.begin); /* relaxed: constant */
    size_t bytes = (walk->census->guard_at - walk->census->pool_at) << CENSUS_MARK_LOG2;
    struct hz_census_block block;
    for (size_t offset = 0; offset < bytes;) {
        bool is_found = census_place_find(walk->census, begin + offset, &block);
        if (is_found)
            census_visit(walk, &block);
        offset += is_found ? block.bytes : HZ_GRANULE_BYTES;
    }
    for (uint32_t index = 0; index < HZ_GUARD_SLOTS; index++) {
        const struct hz_guard_slot *slot = hz_guard_slot_at(index);
        if (slot != NULL && slot->state == HZ_GUARD_LIVE &&
            census_place_find(walk->census, (uintptr_t)slot->start, &block))
            census_visit(walk, &block);
    }
}

void hz_census_walk(const struct hz_census *census, void (*visit)(void *context, const struct hz_census_block *block),
                    void *context) {
    struct census_walk walk = {census, visit, context};
    struct hz_census_block block;
    for (uint32_t index = 0; index < census->segments; index++) {
        struct hz_segment *segment = hz_arena_segment(index);
        if (segment != NULL && hz_load_rlx(&segment->kind) == HZ_SEGMENT_PAGED) /* relaxed: nobody changes it */
            census_segment_walk(&walk, segment);
    }
    for (uint32_t i = 0; i < census->direct_count; i++)
        if (find_direct(census, census->direct[i].begin, &block))
            census_visit(&walk, &block);
    census_pool_walk(&walk);
}

/* ---- taking the census ---------------------------------------------------------------------------------- */

static void range_include(struct hz_census *census, uintptr_t begin, size_t bytes) {
    census->begin = hz_min(census->begin, begin);
    census->end = hz_max(census->end, begin + bytes);
}

/* The block that the bit stands for is out, unless the bit is set. */
static void page_mark(void *of, struct hz_page *page) {
    const struct hz_census *census = of;
    struct hz_census_block block;
    for (uint32_t bit = 0; bit < page->capacity; bit++) {
        size_t number = (bit + page->rotation) % page->capacity;
        bool is_out = (page->free_bits[bit / 64] >> (bit % 64) & 1) == 0;
        if (is_out && census_place_find(census, (uintptr_t)page->start + number * page->block_bytes, &block))
            *block.marks |= HZ_CENSUS_LIVE;
    }
}

static void large_runs_mark(const struct hz_census *census, struct hz_segment *segment) {
    uint64_t unused = hz_arena_masks_get(segment->index).unused;
    uintptr_t base = hz_load_rlx(&segment->base); /* relaxed: nobody changes it */
    struct hz_census_block block;
    for (unsigned page = 0; page < HZ_SEGMENT_PAGES; page++) {
        uintptr_t run = base + ((uintptr_t)page << HZ_PAGE_LOG2);
        if ((unused >> page & 1) == 0 && segment->run_first[page] == page && is_large_there(run) &&
            census_place_find(census, run, &block))
            *block.marks |= HZ_CENSUS_LIVE;
    }
}

/* Keeps the array sorted. Few programs have many direct blocks, and most get higher indexes at lower addresses. */
static void direct_add(struct hz_census *census, struct hz_census_direct direct) {
    uint32_t at = census->direct_count++;
    for (; at > 0 && census->direct[at - 1].begin > direct.begin; at--)
        census->direct[at] = census->direct[at - 1];
    census->direct[at] = direct;
}

static void segments_mark(struct hz_census *census) {
    for (uint32_t index = 0; index < census->segments; index++) {
        struct hz_segment *segment = hz_arena_segment(index);
        if (segment == NULL)
            continue;
        uintptr_t base = hz_load_rlx(&segment->base); /* relaxed, all: nobody changes them */
        if (hz_load_rlx(&segment->kind) == HZ_SEGMENT_PAGED) {
            range_include(census, base, HZ_SEGMENT_BYTES);
            large_runs_mark(census, segment);
        } else if (is_large_there(base)) {
            size_t bytes = hz_load_rlx(&segment->direct_bytes);
            range_include(census, base, bytes);
            direct_add(census, (struct hz_census_direct){base, base + bytes, index});
            census->marks[(size_t)index * SEGMENT_MARKS] |= HZ_CENSUS_LIVE;
        }
    }
    hz_pages_walk(page_mark, census);
}

static void pools_mark(struct hz_census *census) {
    uintptr_t begin = hz_load_rlx(&hz_profile_state.begin); /* relaxed, both: constant */
    struct hz_census_block block;
    size_t bytes = hz_profile_pool_bytes();
    if (bytes > 0)
        range_include(census, begin, bytes);
    for (size_t offset = 0; offset < bytes;) {
        bool is_found = census_place_find(census, begin + offset, &block);
        if (is_found)
            *block.marks |= HZ_CENSUS_LIVE;
        offset += is_found ? block.bytes : HZ_GRANULE_BYTES;
    }
    if (hz_guard_slot_at(0) == NULL)
        return;
    range_include(census, hz_load_rlx(&hz_guard_range.begin), hz_load_rlx(&hz_guard_range.bytes));
    for (uint32_t index = 0; index < HZ_GUARD_SLOTS; index++)
        if (hz_guard_slot_at(index)->state == HZ_GUARD_LIVE)
            census->marks[census->guard_at + index] |= HZ_CENSUS_LIVE;
}

/* Bins of a parked thread can have holes, and one of their blocks can be gone (hz_bin_take_old). */
static void bins_forget(struct hz_census *census, struct hz_registered *registered) {
    struct hz_thread_block *thread = hz_thread_block_from(registered);
    if (hz_load_acq(&registered->is_hollow)) /* sync: thread-fill, partner hz_thread_block_get */
        return;
    for (unsigned index = 1; index < HZ_BINS; index++) {
        void **base = hz_bin_base(&thread->cache, index);
        uint32_t held = hz_bin_figure(&thread->cache, index);
        const void *gone = hz_slot_load_rlx(&thread->parking.gone[index]); /* relaxed, all: nobody changes them */
        for (uint32_t i = 1; i <= held; i++) {
            const void *block = hz_slot_load_rlx(i < held ? base + i : &thread->cache.bins[index].newest);
            if (block != gone)
                hz_census_forget(census, block);
        }
    }
}

static void resting_forget(struct hz_census *census) {
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next)
        bins_forget(census, each);
    hz_depot_walk(hz_census_forget, census);
    hz_sent_walk(hz_census_forget, census);
    hz_cpu_bins_walk(hz_census_forget, census);
    hz_zones_walk(hz_census_forget, census);
}

bool hz_census_begin(struct hz_census *census) {
    size_t os_page = hz_os_page_bytes();
    *census = (struct hz_census){.begin = UINTPTR_MAX};
    census->segments = hz_pagetags.tags != NULL ? hz_arena_segment_count() : 0;
    census->pool_at = (size_t)census->segments * SEGMENT_MARKS;
    census->guard_at = census->pool_at + (hz_profile_pool_bytes() >> CENSUS_MARK_LOG2);
    census->marks_bytes = hz_round_up(census->guard_at + HZ_GUARD_SLOTS, os_page);
    census->direct_bytes = hz_round_up((census->segments + (size_t)1) * sizeof(*census->direct), os_page);
    census->marks = hz_os_map(census->marks_bytes, os_page, true);
    census->direct = hz_os_map(census->direct_bytes, os_page, true);
    if (census->marks == NULL || census->direct == NULL) {
        hz_census_end(census);
        return false;
    }
    segments_mark(census);
    pools_mark(census);
    resting_forget(census);
    return true;
}

/* If refused, address space is lost. */
void hz_census_end(struct hz_census *census) {
    if (census->marks != NULL)
        (void)hz_os_unmap(census->marks, census->marks_bytes);
    if (census->direct != NULL)
        (void)hz_os_unmap(census->direct, census->direct_bytes);
    *census = (struct hz_census){.begin = UINTPTR_MAX};
}

/* ---- what is ours --------------------------------------------------------------------------------------- */

void hz_census_memory_walk(void (*visit)(void *context, const void *memory, size_t bytes), void *context) {
    for (uint32_t index = hz_arena_segment_count(); index-- > 0;) {
        struct hz_segment *segment = hz_load_acq(&hz_arena.segments[index]); /* sync: segment-publish */
        if (segment == NULL)
            continue;
        /* relaxed: nobody changes it. The descriptions of an unused entry have no addresses of live blocks */
        unsigned kind = hz_load_rlx(&segment->kind);
        bool is_paged = kind == HZ_SEGMENT_PAGED;
        visit(context, segment, is_paged ? sizeof(*segment) : offsetof(struct hz_segment, run_first));
        if (kind != HZ_SEGMENT_NONE)
            visit(context, (const void *)hz_load_rlx(&segment->base), /* NOLINT(performance-no-int-to-ptr) */
                  is_paged ? (size_t)HZ_SEGMENT_BYTES : hz_load_rlx(&segment->direct_bytes));
    }
    hz_regions_walk(visit, context);
    size_t bytes;
    const void *regions = hz_region_table(&bytes);
    if (regions != NULL)
        visit(context, regions, bytes);
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next)
        visit(context, each->block, hz_thread_block_bytes());
    hz_batches_memory_walk(visit, context);
    hz_cpu_bins_memory_walk(visit, context);
    hz_zones_memory_walk(visit, context);
    hz_profile_memory_walk(visit, context);
    if (hz_guard_slot_at(0) != NULL) {
        visit(context, hz_guard_slot_at(0), HZ_GUARD_SLOTS * sizeof(struct hz_guard_slot));
        visit(context, (const void *)hz_load_rlx(&hz_guard_range.begin), /* NOLINT(performance-no-int-to-ptr) */
              hz_load_rlx(&hz_guard_range.bytes));                       /* relaxed, both: constant */
    }
}

/* A thread-local variable of another thread. */
static uintptr_t place_in_thread(const void *mine, uintptr_t local, uintptr_t own) {
    return (uintptr_t)mine - own + local;
}

bool hz_census_thread_is_inside(uintptr_t local, uintptr_t own) {
    const struct hz_hooks_thread *thread =
        (const struct hz_hooks_thread *)place_in_thread(&hz_hooks_thread, local, own); /* NOLINT */
    return thread->inside != 0;
}

const void *hz_census_thread_memory(uintptr_t local, uintptr_t own, size_t *bytes) {
    const void *word = (const void *)place_in_thread(&hz_self_word, local, own); /* NOLINT(performance-no-int-to-ptr) */
    struct hz_thread_block *thread =
        hz_load_rlx((_Atomic(struct hz_thread_block *) *)word); /* relaxed: it is stopped */
    *bytes = hz_thread_block_bytes();
    return thread != NULL && hz_is_attached(thread) ? thread : NULL;
}
