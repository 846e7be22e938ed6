/*
 * arena_figures.c - see arena_figures.h.
 */
#include "base/arena/arena_figures.h"

#include "base/arena/arena.h"
#include "base/map/direct_cache.h"
#include "base/map/region.h"

void hz_arena_figures_get(struct hz_arena_figures *figures) {
    *figures = (struct hz_arena_figures){
        .purged_bytes = hz_arena_purged_bytes(),
        .segments_acquired = hz_arena_segments_acquired(),
        .hollow_bytes = hz_arena_hollow_bytes(),
    };
    uint32_t count = hz_arena_segment_count(); /* 0 before the arena is ready */
    size_t resting = (hz_runmap_resting(&hz_region_units) << HZ_UNIT_LOG2) + hz_direct_cache_unit_bytes();
    figures->mapped_bytes = figures->dirty_bytes = figures->free_dirty_bytes = figures->unit_bytes = resting;
    for (uint32_t index = 0; index < count; index++) {
        struct hz_segment *segment = hz_arena_segment(index);
        if (segment == NULL)
            continue;
        unsigned kind = hz_load_rlx(&segment->kind); /* relaxed, all: figures, which can change meanwhile */
        size_t bytes = hz_load_rlx(&segment->direct_bytes);
        if (kind == HZ_SEGMENT_NONE)
            continue;
        if (kind == HZ_SEGMENT_DIRECT) {
            figures->mapped_bytes += bytes;
            figures->dirty_bytes += bytes;
            figures->direct_bytes += bytes;
            figures->direct_count++;
            continue;
        }
        struct hz_arena_masks masks = hz_arena_masks_get(index);
        figures->segment_count++;
        figures->mapped_bytes += HZ_SEGMENT_BYTES;
        figures->dirty_bytes += (size_t)__builtin_popcountll(masks.dirty) << HZ_PAGE_LOG2;
        figures->used_bytes += (size_t)__builtin_popcountll(~masks.unused) << HZ_PAGE_LOG2;
        figures->free_dirty_bytes += (size_t)__builtin_popcountll(masks.dirty & masks.unused) << HZ_PAGE_LOG2;
    }
}
