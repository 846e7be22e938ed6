/*
 * arena_state.h - the arena's variables, sums over them, and what its anatomy (anatomy.h) says of them.
 */
#ifndef HZ_BASE_ARENA_ARENA_STATE_H
#define HZ_BASE_ARENA_ARENA_STATE_H

#include "base/lists/lock.h"
#include "base/map/region.h"
#include "base/map/runmap.h"
#include "base/os/anatomy.h"

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
    _Atomic(size_t) direct_bytes; /* counter: bytes of direct blocks that are handed out or in the cache */
    _Atomic(size_t) hollow_bytes; /* counter: bytes of runs in use that hold no memory, as their holders say */

    struct hz_lock lock;
    /* lock: lock; lists of unused directory entries, linked through `base`: paged, direct */
    struct hz_segment *spare[2];
};

extern HZ_HIDDEN struct arena hz_arena;

/* Resting: bytes of free dirty pages and units, and of direct blocks in the cache. Used: bytes that are handed out and
   not hollow. The resting bytes may not exceed the dirty budget: 4 MiB, and 1/64 of the used bytes, and up to 128 MiB
   more (of pages 8 MiB and 1/8 of the used bytes) while the program frees and allocates the same memory in a loop. A
   free that exceeds the budget purges up to 4 MiB at once, or as much as it frees if that is more. Both functions only
   read counters. */
size_t hz_arena_resting_bytes(void);
size_t hz_arena_used_bytes(void);

/* What is held, that is, used or at rest, and whether that is more than the limits (budget.h). Above the soft limit
   nothing may rest. What would exceed the hard limit is refused, as if the OS had refused it. */
size_t hz_arena_held_bytes(void);
size_t hz_arena_soft_held_bytes(void); /* what the soft limit counts */

/* What counts against a control group's limit of so many bytes: no blocks above 2 MiB, of which much may be untouched,
   but metadata, as far as it is a sixteenth of the limit. */
size_t hz_arena_group_held_bytes(size_t limit);
bool hz_arena_is_over_soft(void);

/* Bytes of all runs that are handed out, hollow or not. Any thread. */
size_t hz_arena_runs_bytes(void);

/* Bytes that were given back to the OS since the start, by any thread and for any reason. */
size_t hz_arena_purged_bytes(void);

/* Counts bytes that the layer above gave back. */
void hz_arena_count_purged(size_t bytes);

/* The holder of a run says that `bytes` of it are hollow, that is, hold no memory, because it purged them or has not
   touched them yet. Negative: they may hold memory again, or the run is about to be freed. Hollow bytes do not count as
   used. */
void hz_arena_count_hollow(ptrdiff_t bytes);

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
