/*
 * figures.c - see figures.h. Sums figures of pages, bins and shards.
 */
#include "heap/report/figures.h"

#include "hakozuna/hakozuna.h"

#include "base/arena/peak.h"
#include "base/os/hooks.h"
#include "base/os/os.h"
#include "cpu_bins.h"
#include "heap/cache/depot.h"
#include "heap/pages/page.h"
#include "heap/threads/thread_block.h"
#include "heap/threads/zone.h"
#include "sent.h"

static void add_page(void *context, struct hz_page *page) {
    struct hz_figures *figures = context;
    unsigned size_class = hz_load_rlx(&page->size_class); /* relaxed, all: figures */
    size_t run_pages = hz_load_rlx(&page->run_pages);
    if (size_class == HZ_CLASS_NONE)
        return;
    struct hz_class_figures *f = &figures->classes[size_class];
    f->pages++;
    f->run_pages += run_pages;
    f->capacity += (run_pages << HZ_PAGE_LOG2) / hz_class_bytes(size_class);
    f->free_blocks += hz_load_rlx(&page->free_count);
    f->hollow_bytes += hz_page_hollow_bytes(page);
    figures->blocks[HZ_IN_PAGE_LISTS][size_class] += hz_sent_count_in_page(page);
}

/* Whether no thread has the thread block, and its memory has gone back. */
static bool is_hollow(struct hz_registered *registered) {
    return hz_load_acq(&registered->is_hollow); /* sync: thread-fill, partner hz_thread_block_get */
}

/* Adds the blocks of a thread's remote buffer, which has blocks of all home classes, to the counts of their classes.
 * Its owner may send them meanwhile, so a block and its tag may be gone. */
void hz_figures_add_remote_buffer(size_t *blocks, struct hz_registered *registered) {
    struct hz_thread_block *thread = hz_thread_block_from(registered);
    if (is_hollow(registered))
        return;
    void **base = hz_bin_base(&thread->cache, HZ_REMOTE_BIN);
    size_t count = hz_bin_figure(&thread->cache, HZ_REMOTE_BIN);
    for (size_t i = 1; i <= count; i++) {
        /* relaxed: figures */
        const void *block = hz_slot_load_rlx(i < count ? &base[i] : &thread->cache.bins[HZ_REMOTE_BIN].newest);
        bool is_out = block == NULL || block == hz_slot_load_rlx(&thread->parking.gone[HZ_REMOTE_BIN]);
        unsigned size_class = is_out ? HZ_CLASS_NONE : hz_pagetag_class(block);
        if (size_class != HZ_CLASS_NONE && size_class < HZ_CLASS_COUNT)
            blocks[size_class]++;
    }
}

/* Adds the blocks of a thread's bins. Only bins of a parked thread or of an orphan can have holes. Of other threads
 * only the tops are read, since a refill writes the slots. The lock keeps a parked thread parked meanwhile. */
void hz_figures_add_bins(size_t *blocks, struct hz_registered *registered) {
    struct hz_thread_block *thread = hz_thread_block_from(registered);
    if (is_hollow(registered))
        return;
    hz_lock_acquire(&registered->lock);
    bool has_holes = hz_load_rlx(&thread->parking.parked) || /* relaxed: lock; figure */
                     hz_load_rlx(&registered->state) == HZ_THREAD_ORPHAN;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        blocks[size_class] += has_holes ? hz_bin_count(&thread->cache, size_class, &thread->parking.gone[size_class])
                                        : hz_bin_figure(&thread->cache, size_class);
    hz_lock_release(&registered->lock);
}

void hz_figures_get(struct hz_figures *figures) {
    size_t reserves[HZ_CLASS_COUNT] = {0};
    *figures = (struct hz_figures){0};
    hz_hooks_enter();
    hz_pages_walk(add_page, figures);
    hz_zones_count_reserves(reserves);
    for (struct hz_registered *thread = hz_registry_first(); thread != NULL; thread = thread->next) {
        hz_figures_add_bins(figures->blocks[HZ_IN_BINS], thread);
        hz_figures_add_remote_buffer(figures->blocks[HZ_IN_REMOTE_BUFFERS], thread);
    }
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        figures->classes[size_class].free_blocks += reserves[size_class];
        figures->blocks[HZ_IN_BINS][size_class] += hz_cpu_bins_held(size_class);
        figures->blocks[HZ_IN_DEPOT][size_class] = hz_depot_blocks(size_class);
        for (struct hz_shard *shard = hz_shard_get(0); shard != NULL; shard = hz_shard_next(shard))
            figures->blocks[HZ_IN_SHARDS][size_class] += hz_sent_count(shard, size_class);
    }
    hz_hooks_leave();
    hz_large_figures_get(&figures->large);
    hz_arena_figures_get(&figures->arena);
    hz_guard_figures_get(&figures->guard);
    hz_profile_figures_get(&figures->profile);
}

static size_t not_below_zero(size_t a, size_t b) {
    return a > b ? a - b : 0;
}

static size_t resting_blocks(const struct hz_figures *figures, unsigned size_class) {
    size_t blocks = 0;
    for (unsigned tier = 0; tier < HZ_TIERS; tier++)
        blocks += figures->blocks[tier][size_class];
    return blocks;
}

/* Bytes of blocks that are counted by class. */
static size_t bytes_of(const size_t *blocks) {
    size_t bytes = 0;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        bytes += blocks[size_class] * hz_class_bytes(size_class);
    return bytes;
}

size_t hz_figures_tier_bytes(const struct hz_figures *figures, enum hz_tier tier) {
    return bytes_of(figures->blocks[tier]);
}

unsigned hz_figures_unused(size_t live_bytes, size_t held_bytes) {
    enum { WHOLE = 1000 };
    return held_bytes == 0 ? 0 : (unsigned)(not_below_zero(held_bytes, live_bytes) * WHOLE / held_bytes);
}

/* ---- rows ------------------------------------------------------------------------------------------ */

/* The blocks outside their pages are live or rest. What else the pages hold is free. */
static void size_of_class(const struct hz_figures *figures, unsigned size_class, struct hz_size_figures *out) {
    const struct hz_class_figures *f = &figures->classes[size_class];
    size_t block_bytes = hz_class_bytes(size_class);
    size_t blocks_out = not_below_zero(f->capacity, f->free_blocks);
    size_t resting = hz_min(resting_blocks(figures, size_class), blocks_out);
    size_t unused_bytes = not_below_zero(f->run_pages << HZ_PAGE_LOG2, blocks_out * block_bytes);
    size_t free_bytes = not_below_zero(unused_bytes, f->hollow_bytes);
    *out = (struct hz_size_figures){
        .block_bytes = block_bytes,
        .live_bytes = (blocks_out - resting) * block_bytes,
        .resting_bytes = resting * block_bytes,
        .free_bytes = free_bytes,
        .held_bytes = blocks_out * block_bytes + free_bytes,
        .live_blocks = blocks_out - resting,
        .resting_blocks = resting,
        .free_blocks = f->free_blocks,
        .pages = f->pages,
    };
}

bool hz_figures_size(const struct hz_figures *figures, unsigned index, struct hz_size_figures *out) {
    if (index < HZ_CLASS_COUNT) {
        if (index == HZ_CLASS_NONE || figures->classes[index].pages == 0)
            return false;
        size_of_class(figures, index, out);
        return true;
    }
    unsigned size = index - HZ_CLASS_COUNT;
    *out = (struct hz_size_figures){
        .block_bytes = (size_t)1 << size,
        .is_large = true,
        .live_bytes = figures->large.bytes[size],
        .held_bytes = figures->large.bytes[size],
        .live_blocks = figures->large.blocks[size],
    };
    return out->live_blocks > 0;
}

static void range_of_classes(const struct hz_figures *figures, unsigned first, unsigned behind,
                             struct hz_range_figures *out) {
    for (unsigned size_class = first; size_class < behind; size_class++) {
        struct hz_size_figures row;
        if (!hz_figures_size(figures, size_class, &row))
            continue;
        out->live_bytes += row.live_bytes;
        out->resting_bytes += row.resting_bytes;
        out->free_bytes += row.free_bytes;
        out->held_bytes += row.held_bytes;
        out->live_blocks += row.live_blocks;
    }
}

/* Of all large blocks: those that are runs, or those that are direct blocks. */
static void range_of_large(const struct hz_large_figures *large, bool is_direct, struct hz_range_figures *out) {
    size_t bytes = 0;
    size_t blocks = 0;
    for (unsigned size = 0; size < HZ_LARGE_SIZES; size++) {
        bytes += large->bytes[size];
        blocks += large->blocks[size];
    }
    out->live_bytes = out->held_bytes = is_direct ? large->direct_bytes : bytes - large->direct_bytes;
    out->live_blocks = is_direct ? large->direct_count : blocks - large->direct_count;
}

/* What rests in the arena. Pages in use in which there are no blocks count here too: a thread is purging them, or they
   were lost in a fork. */
static size_t free_page_bytes(const struct hz_figures *figures) {
    struct hz_range_figures runs = {0};
    size_t with_blocks = 0;
    range_of_large(&figures->large, false, &runs);
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        with_blocks += figures->classes[size_class].run_pages << HZ_PAGE_LOG2;
    return figures->arena.free_dirty_bytes + not_below_zero(figures->arena.used_bytes, with_blocks + runs.held_bytes);
}

static void range_of_pool(size_t live_bytes, size_t held_bytes, size_t live_blocks, struct hz_range_figures *out) {
    out->live_bytes = live_bytes;
    out->free_bytes = not_below_zero(held_bytes, live_bytes);
    out->held_bytes = out->live_bytes + out->free_bytes;
    out->live_blocks = live_blocks;
}

void hz_figures_range(const struct hz_figures *figures, enum hz_range range, struct hz_range_figures *out) {
    const size_t large_max = (size_t)HZ_RUN_PAGES_MAX << HZ_PAGE_LOG2;
    *out = (struct hz_range_figures){0};
    switch (range) {
    case HZ_RANGE_SMALL:
        *out = (struct hz_range_figures){.name = "small", .up_to_bytes = HZ_SMALL_MAX};
        range_of_classes(figures, 1, HZ_MID_CLASS_FIRST, out);
        break;
    case HZ_RANGE_MEDIUM:
        *out = (struct hz_range_figures){.name = "medium", .up_to_bytes = HZ_CLASS_BYTES_MAX};
        range_of_classes(figures, HZ_MID_CLASS_FIRST, HZ_CLASS_COUNT, out);
        break;
    case HZ_RANGE_LARGE:
        *out = (struct hz_range_figures){.name = "large", .up_to_bytes = large_max};
        range_of_large(&figures->large, false, out);
        break;
    case HZ_RANGE_MAPPED:
        *out = (struct hz_range_figures){.name = "mapped"};
        range_of_large(&figures->large, true, out);
        break;
    case HZ_RANGE_PROFILED:
        *out = (struct hz_range_figures){.name = "profiled", .up_to_bytes = HZ_CLASS_BYTES_MAX};
        range_of_pool(figures->profile.live_bytes, figures->profile.held_bytes, figures->profile.live_blocks, out);
        break;
    case HZ_RANGE_GUARDED:
        *out = (struct hz_range_figures){.name = "guarded", .up_to_bytes = HZ_GUARD_BLOCK_MAX};
        range_of_pool(figures->guard.live_bytes, figures->guard.resident_bytes, figures->guard.live_blocks, out);
        break;
    default:
        *out = (struct hz_range_figures){.name = "free pages"};
        out->free_bytes = out->held_bytes = free_page_bytes(figures);
        break;
    }
}

void hz_figures_totals(const struct hz_figures *figures, struct hz_stats *stats) {
    const struct hz_arena_figures *of_arena = &figures->arena;
    *stats = (struct hz_stats){
        .mapped_bytes = of_arena->mapped_bytes + figures->guard.mapped_bytes + figures->profile.held_bytes,
        .purged_bytes = of_arena->purged_bytes,
        .mapping_count = figures->large.direct_count,
    };
    for (unsigned range = 0; range < HZ_RANGES; range++) {
        struct hz_range_figures row;
        hz_figures_range(figures, (enum hz_range)range, &row);
        stats->live_bytes += row.live_bytes;
        stats->cached_bytes += row.resting_bytes;
        stats->free_bytes += row.free_bytes;
        stats->resident_bytes += row.held_bytes;
    }
    stats->mapped_bytes = hz_max(stats->mapped_bytes, stats->resident_bytes);
    hz_peak_note();
    stats->peak_bytes = hz_max(hz_peak_bytes(), stats->resident_bytes);
}

size_t hz_figures_resident(const struct hz_figures *figures) {
    size_t bytes = 0;
    uint32_t segments = hz_arena_segment_count();
    for (uint32_t index = 0; index < segments; index++) {
        struct hz_segment *segment = hz_arena_segment(index);
        if (segment == NULL)
            continue;
        unsigned kind = hz_load_rlx(&segment->kind); /* relaxed, both: figures */
        if (kind == HZ_SEGMENT_NONE)
            continue;
        size_t length = kind == HZ_SEGMENT_DIRECT ? hz_load_rlx(&segment->direct_bytes) : HZ_SEGMENT_BYTES;
        bytes += hz_os_resident_bytes(hz_segment_page_address(segment, 0), length);
    }
    return bytes == 0 ? 0
                      : bytes + figures->arena.unit_bytes + figures->guard.resident_bytes + figures->profile.held_bytes;
}

/* ---- threads --------------------------------------------------------------------------------------- */

bool hz_figures_thread(struct hz_registered *registered, struct hz_thread_figures *out) {
    struct hz_thread_block *thread = hz_thread_block_from(registered);
    /* sync: thread-claim, partner hz_registry_release: no label of a thread that has given the block up before */
    bool is_used = hz_load_acq(&registered->state) == HZ_THREAD_USED;
    uint64_t label = hz_load_rlx(&registered->label); /* relaxed, all: figures */
    if (!is_used || label == 0)
        return false;
    size_t in_bins[HZ_CLASS_COUNT] = {0};
    size_t in_buffer[HZ_CLASS_COUNT] = {0};
    hz_hooks_enter();
    hz_figures_add_bins(in_bins, registered);
    hz_figures_add_remote_buffer(in_buffer, registered);
    hz_hooks_leave();
    *out = (struct hz_thread_figures){
        .number = registered->number,
        .id = hz_thread_label_id(label),
        .shard = hz_thread_label_shard(label),
        .is_parked = hz_load_rlx(&thread->parking.parked),
        .bins_bytes = bytes_of(in_bins),
        .remote_bytes = bytes_of(in_buffer),
        .refill = hz_load_rlx(&thread->counters.refill),
        .flush = hz_load_rlx(&thread->counters.flush),
    };
    return true;
}
