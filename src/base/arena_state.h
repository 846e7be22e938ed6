/*
 * arena_state.h - the arena's variables, for arena.c and arena_dump.c, and what its anatomy (anatomy.h) says of them.
 */
#ifndef HZ_BASE_ARENA_STATE_H
#define HZ_BASE_ARENA_STATE_H

#include "base/anatomy.h"
#include "base/lock.h"
#include "base/region.h"
#include "base/runmap.h"

struct hz_segment;

struct arena {
    _Atomic(bool) ready; /* sync: arena-init; the pointers and fields up to `tight` are const after it */
    _Atomic(struct hz_segment *) *segments; /* sync: segment-publish */
    struct hz_runmap pages;                 /* a word per segment */
    uint32_t capacity;
    bool tight;

    _Atomic(uint32_t) count;           /* sync: segment-publish */
    _Atomic(size_t) purged_bytes;      /* counter */
    _Atomic(size_t) segments_acquired; /* counter */
    _Atomic(uint64_t) ticked_at_ms;    /* hint */

    _Atomic(size_t) alone_bytes;  /* hint: direct blocks of at least so many bytes are mapped alone */
    _Atomic(bool) purging;        /* hint: a thread purges because the dirty budget is exceeded */
    _Atomic(size_t) direct_bytes; /* counter: usable bytes of direct blocks that are handed out */
    _Atomic(size_t) hollow_bytes; /* counter: bytes of runs in use that hold no memory, as their holders say */

    struct hz_lock lock;
    /* lock: lock; lists of unused directory entries, linked through `base`: paged, direct */
    struct hz_segment *spare[2];
};

/* What readers of core files need to find the segments, their runs and the arena's totals. */
#define HZ_ARENA_ANATOMY(arena_object)                                                                                 \
    HZ_ANATOMY(arena, HZ_ANATOMY_OBJECT(arena, arena_object), HZ_ANATOMY_OBJECT(regions, hz_region_units),             \
               HZ_ANATOMY_FIELD(arena, segments), HZ_ANATOMY_FIELD(arena, pages), HZ_ANATOMY_FIELD(arena, count),      \
               HZ_ANATOMY_FIELD(arena, purged_bytes), HZ_ANATOMY_FIELD(arena, segments_acquired),                      \
               HZ_ANATOMY_FIELD(arena, hollow_bytes), HZ_ANATOMY_FIELD(arena, lock),                                   \
               HZ_ANATOMY_FIELD(hz_runmap, free_masks), HZ_ANATOMY_FIELD(hz_runmap, dirty_masks),                      \
               HZ_ANATOMY_FIELD(hz_runmap, counts), HZ_ANATOMY_SIZE(hz_segment), HZ_ANATOMY_FIELD(hz_segment, base),   \
               HZ_ANATOMY_FIELD(hz_segment, direct_bytes), HZ_ANATOMY_FIELD(hz_segment, kind),                         \
               HZ_ANATOMY_FIELD(hz_segment, region), HZ_ANATOMY_FIELD(hz_segment, run_pages),                          \
               HZ_ANATOMY_FIELD(hz_segment, meta), HZ_ANATOMY_FIELD(hz_lock, word),                                    \
               HZ_ANATOMY_NUMBER(HZ_PAGE_META_BYTES), HZ_ANATOMY_NUMBER(HZ_SEGMENT_PAGED),                             \
               HZ_ANATOMY_NUMBER(HZ_SEGMENT_DIRECT), HZ_ANATOMY_NUMBER(HZ_SEGMENT_BYTES),                              \
               HZ_ANATOMY_NUMBER(HZ_SEGMENT_PAGES), HZ_ANATOMY_NUMBER(HZ_PAGE_BYTES),                                  \
               HZ_ANATOMY_NUMBER(HZ_UNIT_BYTES), HZ_ANATOMY_NUMBER(HZ_RUN_PAGES_MAX))

#endif
