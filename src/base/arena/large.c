/*
 * large.c - runs and direct blocks behind one interface.
 */
#include "base/arena/large.h"

#include "base/arena/arena.h"
#include "base/arena/peak.h"
#include "base/arena/spread.h"
#include "base/map/pagetag.h"
#include "base/os/os.h"

#include <string.h>

_Static_assert((int)HZ_SPREAD_BYTES <= (int)HZ_PAGE_BYTES, "a block begins in the first page of its run");

static const size_t run_bytes_max = (size_t)HZ_RUN_PAGES_MAX * HZ_PAGE_BYTES;

static unsigned pages_for(size_t size) {
    return (unsigned)((size + HZ_PAGE_BYTES - 1) >> HZ_PAGE_LOG2);
}

static size_t direct_bytes_for(size_t size) {
    return hz_round_up(size, hz_os_page_bytes());
}

/* Zeroes the part of [block, block + size) that lies in pages which were dirty. */
static void zero_dirty(const struct hz_run *run, char *block, size_t size) {
    char *end = block + size;
    for (unsigned page = run->first; page < run->first + run->pages && block < end; page++) {
        char *next = (char *)hz_segment_page_address(run->segment, page) + HZ_PAGE_BYTES;
        if (run->dirty_mask >> page & 1)
            memset(block, 0, hz_min((size_t)(next - block), (size_t)(end - block)));
        block = next;
    }
}

/* The most slack within which a run that is not zeroed is spread: realloc has usually grown it, and needs the rest. */
enum { GROWING_SLACK = 4095 };

/* The start of the block whose memory begins at `place`. */
static void *place_spread(void *place, uint64_t key, size_t slack, size_t alignment) {
    return alignment > HZ_SPREAD_STEP ? place : (char *)place + hz_spread_within(key, slack);
}

static void *run_block_alloc(size_t size, size_t alignment, bool zeroed) {
    struct hz_run run;
    unsigned align_pages = (unsigned)(hz_max(alignment, HZ_PAGE_BYTES) >> HZ_PAGE_LOG2);
    if (!hz_arena_run_alloc(pages_for(size), align_pages, &run))
        return NULL;
    hz_peak_note();
    void *place = hz_segment_page_address(run.segment, run.first);
    size_t slack = ((size_t)run.pages << HZ_PAGE_LOG2) - size;
    void *block = place_spread(place, hz_spread_key(place), zeroed ? slack : hz_min(slack, GROWING_SLACK), alignment);
    if (zeroed)
        zero_dirty(&run, block, size);
    hz_pagetag_set(place, 1, 0, HZ_CLASS_LARGE, 0);
    return block;
}

/* A direct block keeps its segment when its pages move, so its start depends on that. */
static uint64_t direct_key(const struct hz_segment *segment) {
    return segment->index;
}

static void *direct_block_alloc(size_t size, size_t alignment, bool zeroed) {
    if (size > PTRDIFF_MAX)
        return NULL;
    struct hz_segment *segment = hz_arena_direct_alloc(direct_bytes_for(size), alignment, zeroed);
    if (segment == NULL)
        return NULL;
    hz_peak_note();
    void *place = hz_segment_page_address(segment, 0);
    hz_pagetag_set(place, 1, 0, HZ_CLASS_LARGE, 0);
    size_t slack = hz_load_rlx(&segment->direct_bytes) - size; /* relaxed: owner */
    return place_spread(place, direct_key(segment), slack, alignment);
}

void *hz_large_alloc(size_t size, size_t alignment, bool zeroed) {
    if (size <= run_bytes_max && alignment <= run_bytes_max)
        return run_block_alloc(size, alignment, zeroed);
    return direct_block_alloc(size, alignment, zeroed);
}

void hz_large_free(void *block) {
    struct hz_segment *segment = hz_segment_get(block);
    hz_pagetag_clear(block, 1);
    if (hz_load_rlx(&segment->kind) == HZ_SEGMENT_DIRECT) /* relaxed: constant while the caller has the block */
        hz_arena_direct_free(segment);
    else
        hz_arena_run_free(segment, hz_segment_page(block));
    hz_arena_tick();
}

size_t hz_large_bytes(const void *block) {
    struct hz_segment *segment = hz_segment_get(block);
    if (hz_load_rlx(&segment->kind) == HZ_SEGMENT_DIRECT) /* relaxed: constant while the caller has the block */
        return hz_load_rlx(&segment->direct_bytes);       /* relaxed: owner */
    return (size_t)segment->run_pages[hz_segment_page(block)] << HZ_PAGE_LOG2;
}

size_t hz_large_usable(const void *block) {
    return hz_large_bytes(block) - hz_spread_offset(block, HZ_SPREAD_BYTES);
}

bool hz_large_may_begin(const void *address) {
    struct hz_segment *segment = hz_segment_get(address);
    bool is_direct = hz_load_rlx(&segment->kind) == HZ_SEGMENT_DIRECT; /* relaxed: as above */
    size_t offset = hz_spread_offset(address, HZ_SPREAD_BYTES);
    if (is_direct)
        return offset < hz_os_page_bytes() && hz_spread_may_be(direct_key(segment), offset);
    return hz_spread_may_be(hz_spread_key((const char *)address - offset), offset);
}

static void *run_block_resize(struct hz_segment *segment, void *block, size_t bytes) {
    unsigned first = hz_segment_page(block);
    unsigned old = segment->run_pages[first];
    if (bytes > run_bytes_max)
        return NULL;
    unsigned pages = pages_for(bytes);
    uint64_t dirty_mask;
    if (pages > old) {
        if (!hz_arena_run_grow(segment, first, pages - old, &dirty_mask))
            return NULL;
        hz_peak_note();
        return block;
    }
    hz_arena_run_shrink(segment, first, pages);
    return block;
}

void *hz_large_resize(void *block, size_t size, bool may_move) {
    struct hz_segment *segment = hz_segment_get(block);
    if (size <= HZ_PAGE_BYTES || size > PTRDIFF_MAX)
        return NULL; /* a size class serves it better, or nothing can */
    size_t offset = hz_spread_offset(block, HZ_SPREAD_BYTES);
    if (hz_load_rlx(&segment->kind) != HZ_SEGMENT_DIRECT) /* relaxed: constant while the caller has the block */
        return run_block_resize(segment, block, offset + size);
    if (size <= run_bytes_max)
        return NULL;
    size_t bytes = direct_bytes_for(offset + size);
    if (bytes == hz_load_rlx(&segment->direct_bytes)) /* relaxed: owner */
        return block;
    hz_pagetag_clear(block, 1); /* first: once the pages have moved, anybody can get the address */
    struct hz_segment *resized = hz_arena_direct_resize(segment, bytes, may_move);
    hz_peak_note();
    char *moved = resized != NULL ? (char *)hz_segment_page_address(resized, 0) + offset : block;
    hz_pagetag_set(moved, 1, 0, HZ_CLASS_LARGE, 0);
    return resized != NULL ? moved : NULL;
}

size_t hz_large_bytes_for(size_t size) {
    if (size <= run_bytes_max)
        return (size_t)pages_for(size) << HZ_PAGE_LOG2;
    return size > PTRDIFF_MAX ? 0 : direct_bytes_for(size);
}

static void large_count(struct hz_large_figures *figures, size_t bytes) {
    unsigned size = bytes > 1 ? hz_log2(bytes - 1) + 1 : 0; /* a block that is being made can have no length yet */
    figures->blocks[size]++;
    figures->bytes[size] += bytes;
}

static void large_count_direct(struct hz_large_figures *figures, struct hz_segment *segment) {
    size_t bytes = hz_load_rlx(&segment->direct_bytes); /* relaxed, both: figures */
    bool is_alone = hz_load_rlx(&segment->region) == 0;
    large_count(figures, bytes);
    figures->direct_count++;
    figures->direct_bytes += bytes;
    figures->alone_count += is_alone;
    figures->alone_bytes += is_alone ? bytes : 0;
}

/* A run of a large block has a tag at its first page only, so it ends at a free page or at one that has a tag. */
static void large_count_runs(struct hz_large_figures *figures, struct hz_segment *segment) {
    uint64_t free_pages = hz_arena_masks_get(segment->index).unused;
    size_t length = 0; /* of the large block's run so far */
    for (unsigned page = 0; page < HZ_SEGMENT_PAGES; page++) {
        unsigned size_class = hz_pagetag_class(hz_segment_page_address(segment, page));
        bool is_free = free_pages >> page & 1;
        bool begins = size_class == HZ_CLASS_LARGE && !is_free;
        if (length > 0 && (is_free || size_class != HZ_CLASS_NONE)) {
            large_count(figures, length << HZ_PAGE_LOG2);
            length = 0;
        }
        length += begins || length > 0;
    }
    if (length > 0)
        large_count(figures, length << HZ_PAGE_LOG2);
}

void hz_large_figures_get(struct hz_large_figures *figures) {
    *figures = (struct hz_large_figures){0};
    uint32_t segments = hz_arena_segment_count();
    for (uint32_t index = 0; index < segments; index++) {
        struct hz_segment *segment = hz_arena_segment(index);
        if (segment == NULL)
            continue;
        unsigned kind = hz_load_rlx(&segment->kind); /* relaxed: figure */
        if (kind == HZ_SEGMENT_DIRECT)
            large_count_direct(figures, segment);
        else if (kind == HZ_SEGMENT_PAGED)
            large_count_runs(figures, segment);
    }
}
