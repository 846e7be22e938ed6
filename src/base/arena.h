/*
 * arena.h - segments and runs of pages.
 *
 * A segment is 4 MiB of address space at a 4 MiB boundary: 64 pages of 64 KiB. Pages are handed out in runs, which
 * never leave their segment. Which pages are free is one 64-bit word per segment, changed by CAS: no lock, and
 * consistent in every instant, so a fork can copy it at any. A second word says which pages may hold memory ("dirty"):
 * what is free and dirty is kept for reuse and purged when it has rested for a while. The words of all segments stand
 * side by side (struct hz_arena), so a search reads few lines. A block too large for a run is a segment of its own
 * kind, "direct": one mapping (large.c).
 *
 * Invariants of a segment: free & handed-out = 0 (bits); a page that is not dirty reads as zero.
 * Edge "run-release": what was written in a run before hz_arena_run_free is over before hz_arena_run_alloc hands the
 * pages out again (free_mask: release on free, acquire on alloc).
 */
#ifndef HZ_BASE_ARENA_H
#define HZ_BASE_ARENA_H

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "base/pagetag.h"

enum {
    HZ_SEGMENT_LOG2 = 22,
    HZ_SEGMENT_BYTES = 1 << HZ_SEGMENT_LOG2,
    HZ_SEGMENT_PAGES = HZ_SEGMENT_BYTES / HZ_PAGE_BYTES,
    HZ_RUN_PAGES_MAX = HZ_SEGMENT_PAGES / 2, /* longer ones are mapped directly */
    HZ_PAGE_META_BYTES = 2 * HZ_CACHE_LINE_BYTES + HZ_PAGE_BYTES / HZ_GRANULE_BYTES / 8, /* a bit per smallest block */
};

_Static_assert(HZ_SEGMENT_PAGES == 64, "a segment's pages are the bits of one word");

enum hz_segment_kind {
    HZ_SEGMENT_NONE = 0, /* unused entry of the directory */
    HZ_SEGMENT_PAGED,
    HZ_SEGMENT_DIRECT,
    HZ_SEGMENT_CACHED, /* a direct mapping that is free and kept for reuse */
};

/* Room for the run holder's description of one page. Only that of a run's first page is used. */
struct hz_page_meta {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) unsigned char bytes[HZ_PAGE_META_BYTES];
};

struct hz_segment {
    _Atomic(uintptr_t) base;      /* sync: segment-publish; changes only while the segment is unused or direct */
    _Atomic(size_t) direct_bytes; /* usable length of a direct mapping; owner: the block's holder */
    _Atomic(size_t) mapped_bytes; /* length of the mapping: more, if it was used before; owner: as above */
    _Atomic(uint8_t) kind;        /* sync: segment-publish */
    _Atomic(_Atomic(uint64_t) *) livemap; /* check build: livemap.c; sync: livemap-publish */
    _Atomic(_Atomic(uintptr_t) *) notes;  /* debugging: a word for each block start; sync: notes-publish */
    uint32_t index;                       /* in the directory; const after publish */
    uint8_t run_first[HZ_SEGMENT_PAGES];  /* owner of the run: first page of the run a page is in */
    uint8_t run_pages[HZ_SEGMENT_PAGES];  /* owner of the run: its length, at the first page */
    struct hz_page_meta meta[HZ_SEGMENT_PAGES];
};

struct hz_run {
    struct hz_segment *segment;
    unsigned first; /* page number in the segment */
    unsigned pages;
    uint64_t dirty_mask; /* which of the segment's pages were dirty before; others in the run read as zero */
};

/* Maps the directory. Once, under the init lock. */
bool hz_arena_init(void);

/* A run of `pages` (1..HZ_RUN_PAGES_MAX) whose first page number is a multiple of `align_pages` (a power of two up to
   HZ_RUN_PAGES_MAX). False when the OS gives no more. Any thread; may take the arena lock. */
bool hz_arena_run_alloc(unsigned pages, unsigned align_pages, struct hz_run *run);

/* Gives back a whole run; its tags must have been cleared. Any thread, no lock. */
void hz_arena_run_free(struct hz_segment *segment, unsigned first);

/* Makes a run longer by `more` pages if those behind it are free (their dirtiness is then in *dirty_mask), or shorter.
 * Its holder only. */
bool hz_arena_run_grow(struct hz_segment *segment, unsigned first, unsigned more, uint64_t *dirty_mask);
void hz_arena_run_shrink(struct hz_segment *segment, unsigned first, unsigned pages);

/* The segment an address is in, NULL when it is not ours. Any address, any thread. */
struct hz_segment *hz_segment_find(const void *address);

/* The segment of a block that is known to be ours: not NULL. */
struct hz_segment *hz_segment_get(const void *address);

/* Number of the page in its segment. */
HZ_INLINE unsigned hz_segment_page(const void *address) {
    return ((unsigned)((uintptr_t)address >> HZ_PAGE_LOG2)) % HZ_SEGMENT_PAGES;
}

HZ_INLINE void *hz_segment_page_address(struct hz_segment *segment, unsigned page) {
    uintptr_t base = hz_load_rlx(&segment->base); /* sync: segment-publish, by whoever passed the segment on */
    return (void *)(base + ((uintptr_t)page << HZ_PAGE_LOG2));
}

/* Direct segments: at least `bytes` (a multiple of the OS page) at an address aligned to max(alignment, segment),
   zeroed when asked. NULL when refused. A freed mapping is kept for a while if it is not too large; a similar request
   gets it without a system call. */
struct hz_segment *hz_arena_direct_alloc(size_t bytes, size_t alignment, bool zeroed);
void hz_arena_direct_free(struct hz_segment *segment);

/* Resizes in place or by moving the pages; returns the segment now in charge (the old one is gone if it differs), NULL
   when refused (the old one is untouched). */
struct hz_segment *hz_arena_direct_resize(struct hz_segment *segment, size_t bytes);

/* Number of directory entries in use so far, and the entry (NULL: unused). For walks; entries may come and go
 * meanwhile. */
uint32_t hz_arena_segment_count(void);
struct hz_segment *hz_arena_segment(uint32_t index);

/* Gives free dirty pages back that have rested for `delay_ms` (0: all), at most `budget` pages. Returns bytes. Any
 * thread. */
size_t hz_arena_purge(uint64_t delay_ms, size_t budget_pages);

/* A moment for housekeeping, from slow paths: purges a little if it is time. */
void hz_arena_tick(void);

struct hz_arena_figures {
    size_t mapped_bytes;     /* paged segments and direct mappings */
    size_t dirty_bytes;      /* pages that may be resident, direct mappings included */
    size_t free_dirty_bytes; /* of these: free, waiting for reuse or purge */
    size_t used_bytes;       /* runs that are handed out */
    size_t direct_bytes;     /* handed out, so is the count */
    size_t direct_count;
    size_t purged_bytes; /* since the start */
    size_t segment_count;
    size_t segments_acquired; /* since the start, those for pages */
};
void hz_arena_figures_get(struct hz_arena_figures *figures);

/* In a fork's child: makes the lock usable again. What a vanished thread held half-done is lost: at most one segment's
 * address space. */
void hz_arena_after_fork(void);

#endif
