/*
 * arena.h - segments, and runs of pages in them.
 *
 * A segment is 4 MiB of address space at a 4 MiB boundary: 64 pages of 64 KiB ("page" here is an arena page). The arena
 * hands out runs of pages; a run never crosses its segment's end. The segment's word in a runmap says which pages are
 * free, and which may hold memory ("dirty"). Taking and freeing a run takes no lock. The arena keeps free dirty pages
 * for reuse within a budget, and purges them when they have rested for a while. A block too large for a run is a
 * segment of its own, of the kind "direct".
 *
 * Invariants of a segment: those of runmap.h; a page that is not dirty reads as zero.
 */
#ifndef HZ_BASE_ARENA_ARENA_H
#define HZ_BASE_ARENA_ARENA_H

#include "base/arena/arena_state.h"
#include "base/lists/lock.h"
#include "base/map/altered.h"
#include "base/map/huge.h"
#include "base/map/pagetag.h"
#include "base/os/atomic.h"
#include "base/os/compiler.h"

enum {
    HZ_SEGMENT_LOG2 = 22,
    HZ_SEGMENT_BYTES = 1 << HZ_SEGMENT_LOG2,
    HZ_SEGMENT_PAGES = HZ_SEGMENT_BYTES / HZ_PAGE_BYTES,
    HZ_RUN_PAGES_MAX = HZ_SEGMENT_PAGES / 2, /* a longer block is a direct block */
    HZ_PAGE_META_BYTES = 2 * HZ_CACHE_LINE_BYTES + HZ_PAGE_BYTES / HZ_GRANULE_BYTES / 8, /* a bit per smallest block */
};

_Static_assert(HZ_SEGMENT_PAGES == 64, "a segment's pages are the bits of one word");
_Static_assert((int)HZ_SEGMENT_PAGES == (int)HZ_MARK_PAGES, "marks cover a segment");

struct hz_runmap;

enum hz_segment_kind {
    HZ_SEGMENT_NONE = 0, /* unused entry of the directory */
    HZ_SEGMENT_PAGED,
    HZ_SEGMENT_DIRECT,
};

/* Space in which a run's holder describes the run. Only the meta of the run's first page is used. */
struct hz_page_meta {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) unsigned char bytes[HZ_PAGE_META_BYTES];
};

struct hz_segment {
    _Atomic(uintptr_t) base;       /* sync: segment-publish; changes only while the segment is unused or direct */
    _Atomic(size_t) direct_bytes;  /* owner: the block's holder; length of a direct block */
    _Atomic(uint8_t) kind;         /* sync: segment-publish */
    _Atomic(uint16_t) flow_thread; /* owner: the block's holder; of a direct block, its allocating thread (flowmap.c) */
    _Atomic(_Atomic(uint64_t) *) livemap; /* sync: livemap-publish; check build, livemap.c */
    _Atomic(_Atomic(uintptr_t) *) notes;  /* sync: notes-publish; debugging, a word for each block start */
    uint32_t index;                       /* const after publish; in the directory */
    _Atomic(uint32_t) region;             /* owner: the block's holder; 1 + number of its region, 0: mapped alone */
    bool is_huge;                         /* owner: the block's holder; huge pages were asked for */
    _Atomic(bool) is_altered;             /* owner: the block's holder; of a direct block: see attributes.h */
    void *note;                           /* owner: the block's holder, the layer above; of a direct block */
    /* the entry of a direct block ends here */
    _Atomic(bool) is_described;           /* hint: a run was handed out since `meta` was last purged */
    _Atomic(uint8_t) hidden;              /* hint: units that core files do not have (hz_dump_marks) */
    hz_huge_units huge;                   /* hint: what the kernel was told */
    struct hz_altered altered;            /* as altered.h says */
    uint8_t run_first[HZ_SEGMENT_PAGES];  /* owner: the run's holder; first page of the run that a page is in */
    uint8_t run_pages[HZ_SEGMENT_PAGES];  /* owner: the run's holder; length of the run, at its first page */
    _Atomic(_Atomic(uint16_t) *) flowmap; /* sync: livemap-publish; builds with statistics, flowmap.c */
    struct hz_page_meta meta[HZ_SEGMENT_PAGES];
};

struct hz_run {
    struct hz_segment *segment;
    unsigned first; /* number of the first page in the segment */
    unsigned pages;
    uint64_t dirty_mask; /* pages of the segment that were dirty before; all others in the run read as zero */
};

/* Maps the directory. Once, after hz_pagetag_init, under a lock of rank HZ_RANK_INIT. False when there is no memory; a
   later call tries again. */
bool hz_arena_init(void);

/* Hands out a run of `pages` (1..HZ_RUN_PAGES_MAX) whose first page number is a multiple of `align_pages` (a power of
   two up to HZ_RUN_PAGES_MAX). False when the OS gives no more memory. Any thread; can take the arena lock. */
bool hz_arena_run_alloc(unsigned pages, unsigned align_pages, struct hz_run *run);

/* Gives back a whole run, whose tags the caller has cleared. Any thread; can take the arena lock. */
void hz_arena_run_free(struct hz_segment *segment, unsigned first);

/* Grow makes a run `more` pages longer; false when the pages behind it are not all free. *dirty_mask: as in hz_run.
   Shrink cuts the run down to `pages`. Only for the run's holder. */
bool hz_arena_run_grow(struct hz_segment *segment, unsigned first, unsigned more, uint64_t *dirty_mask);
void hz_arena_run_shrink(struct hz_segment *segment, unsigned first, unsigned pages);

/* The segment that an address is in; NULL when the address is not ours. Any address, any thread. */
struct hz_segment *hz_segment_find(const void *address);

/* The segment of a block. Never NULL: ends the program when the address is not ours. */
struct hz_segment *hz_segment_get(const void *address);

/* Number of the address's page in its segment. */
HZ_INLINE unsigned hz_segment_page(const void *address) {
    return ((unsigned)((uintptr_t)address >> HZ_PAGE_LOG2)) % HZ_SEGMENT_PAGES;
}

HZ_INLINE void *hz_segment_page_address(struct hz_segment *segment, unsigned page) {
    /* sync: segment-publish, partner publish, through whichever function found the segment */
    uintptr_t base = hz_load_rlx(&segment->base);
    return (void *)(base + ((uintptr_t)page << HZ_PAGE_LOG2));
}

/* A direct block: at least `bytes` (a multiple of the OS page) at an address aligned to max(alignment,
   HZ_SEGMENT_BYTES); all zero if `zeroed`. NULL when the OS refuses. Up to 64 MiB it takes units of a region
   (region.h), and is kept for a moment as it is when it is freed (direct_cache.h); above that, and in tight mode, it is
   a mapping of its own, which ends when it is freed. hz_arena_alone_set makes blocks of at least `bytes` mappings of
   their own from now on; less than 2 MiB counts as 2 MiB, more than 64 MiB as what holds without the call. */
struct hz_segment *hz_arena_direct_alloc(size_t bytes, size_t alignment, bool zeroed);
void hz_arena_direct_free(struct hz_segment *segment);
void hz_arena_alone_set(size_t bytes);

/* Resizes in place, or, with `may_move`, moves the pages to a mapping of their own: the segment stays the same, its
   base can differ. NULL when that is not possible; in that case nothing has changed. What is new can hold anything. */
struct hz_segment *hz_arena_direct_resize(struct hz_segment *segment, size_t bytes, bool may_move);

/* For walks: the number of directory entries that were ever used, and one of them, NULL when it is unused now. Entries
   can come and go during a walk. */
uint32_t hz_arena_segment_count(void);
struct hz_segment *hz_arena_segment(uint32_t index);

/* Purges free dirty pages and units: with `delay_ms` 0 any of them, else those that rested at two calls at least so far
   apart. A unit counts as 64 pages. Stops at `budget_pages`, which the last unit can exceed. Returns the bytes given
   back. Any thread. */
size_t hz_arena_purge(uint64_t delay_ms, size_t budget_pages);

/* Unmaps segments and regions in which nothing is used or rests, and what is reserved for more segments. The kernel
   counts what was accessible as the process's memory (strict overcommit, RLIMIT_DATA). Any thread. */
void hz_arena_trim(void);

/* The same for at most `most` segments that were free and clean for `idle_ms`. Four stay. */
void hz_arena_idle_end(uint32_t idle_ms, unsigned most);

/* Housekeeping, called by slow paths as often as they like: every 100 ms purges a little, and unmaps segments that were
   free and clean for two seconds. Any thread. */
void hz_arena_tick(void);

/* Whether more is held than the hard limit allows (arena_state.h), even after a purge of what rests. */
bool hz_arena_is_over_hard(void);

/* Sets the fixed part of the dirty budget, at first 4 MiB; HZ_ARENA_REST_ALL: nothing is purged because of the budget.
   Less than before: forgets the addition for loops, and purges at once what exceeds the budget. Any thread. */
#define HZ_ARENA_REST_ALL ((size_t)PTRDIFF_MAX)
void hz_arena_rest_set(size_t bytes);

/* Gives back the memory that describes the runs of a segment that has none: zeros say so. The caller has claimed all of
   its pages. Returns the bytes. */
size_t hz_arena_undescribe(struct hz_segment *segment);

/* The pages of all segments, a word each. */
struct hz_runmap *hz_arena_pages(void);

/* Gives back a part of a run, in system pages; `anew`: as hz_altered_give_back. Its holder must not touch it meanwhile.
   False when the OS refuses. The caller counts the bytes. */
bool hz_arena_part_purge(char *start, size_t bytes, bool anew);

/* Figures of one segment: masks of the pages that may hold memory, and of the free pages. Any thread. */
struct hz_arena_masks {
    uint64_t dirty;
    uint64_t unused;
};
struct hz_arena_masks hz_arena_masks_get(uint32_t index);
size_t hz_arena_hollow_bytes(void);
size_t hz_arena_segments_acquired(void); /* since the start */

/* Before hz_os_confine, after which hz_os_show does nothing: core files get all of the reserved space, so that they
   have what is opened there later. Takes no lock: space that another thread reserves meanwhile can stay hidden. */
void hz_arena_show(void);

/* In a fork's child: makes the lock usable again. If a vanished thread was in the middle of a step, at most the
   address space of that step is lost. */
void hz_arena_after_fork(void);

/* In a fork's child, while its thread is in no function of the arena: makes counts and summaries agree with the masks
   and the directory, in which direct blocks have `direct_bytes`. */
void hz_arena_recount_after_fork(size_t direct_bytes);

#endif
