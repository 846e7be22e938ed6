/*
 * arena_figures.h - sums over the whole arena. They are exact while no other thread gets or frees memory.
 */
#ifndef HZ_BASE_ARENA_ARENA_FIGURES_H
#define HZ_BASE_ARENA_ARENA_FIGURES_H

#include "base/os/compiler.h"

struct hz_arena_figures {
    size_t mapped_bytes;      /* paged segments, direct blocks and resting units */
    size_t dirty_bytes;       /* what may be resident: dirty pages, direct blocks, resting units */
    size_t free_dirty_bytes;  /* what rests: free dirty pages and units */
    size_t unit_bytes;        /* of free_dirty_bytes: units */
    size_t used_bytes;        /* runs that are handed out */
    size_t hollow_bytes;      /* of used_bytes: hold no memory, as the holders say */
    size_t direct_bytes;      /* direct blocks that are handed out */
    size_t direct_count;      /* number of direct blocks that are handed out */
    size_t purged_bytes;      /* given back to the OS since the start */
    size_t segment_count;     /* paged segments */
    size_t segments_acquired; /* paged segments made since the start */
};
void hz_arena_figures_get(struct hz_arena_figures *figures);

#endif
