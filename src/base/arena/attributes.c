/*
 * attributes.c - see attributes.h.
 */
#include "base/arena/attributes.h"

#include "base/arena/arena.h"
#include "base/map/region.h"
#include "base/map/space.h"
#include "base/os/os.h"
#include "base/profile/profile.h"

_Atomic(bool) hz_attributes_any;

/* The direct block of a region that contains the address, beyond the block's first unit; NULL: none does. */
static struct hz_segment *direct_around(uintptr_t address) {
    uintptr_t unit = address & ~(uintptr_t)(HZ_UNIT_BYTES - 1);
    for (size_t before = HZ_UNIT_BYTES; before < HZ_REGION_BLOCK_BYTES_MAX && before <= unit; before += HZ_UNIT_BYTES) {
        struct hz_segment *segment = hz_segment_find((void *)(unit - before)); /* NOLINT(performance-no-int-to-ptr) */
        if (segment == NULL)
            continue;
        bool is_inside = hz_load_rlx(&segment->kind) == HZ_SEGMENT_DIRECT && /* relaxed, both: the block is held */
                         hz_load_rlx(&segment->direct_bytes) > address - (unit - before);
        return is_inside ? segment : NULL;
    }
    return NULL;
}

/* From now on each free of a block in these arena pages takes the slow path. If a page has just passed to another
   class, its frees take that path in vain. */
static void tags_slow(uintptr_t first, uintptr_t behind) {
    for (uintptr_t at = first & ~(uintptr_t)(HZ_PAGE_BYTES - 1); at < behind; at += HZ_PAGE_BYTES) {
        struct hz_pagetag *tag = hz_pagetag_of((void *)at); /* NOLINT(performance-no-int-to-ptr) */
        if (hz_load_rlx(&tag->bin) != 0) /* sync: tag-publish. The caller holds a block of the page */
            hz_store_rlx(&tag->bin, 0);
    }
}

/* [first, behind) crosses no multiple of HZ_SEGMENT_BYTES. Returns the address to go on at. */
static uintptr_t part_note(struct hz_segment *segment, uintptr_t first, uintptr_t behind) {
    uintptr_t base = hz_load_rlx(&segment->base); /* relaxed, all: the block is held */
    if (hz_load_rlx(&segment->kind) == HZ_SEGMENT_DIRECT) {
        hz_store_rlx(&segment->is_altered, true);
        uintptr_t block_end = hz_round_up(base + hz_load_rlx(&segment->direct_bytes), HZ_SEGMENT_BYTES);
        return hz_max(behind, block_end);
    }
    hz_altered_mark(&segment->altered, first - base, behind - first);
    /* the block can begin in an earlier page of its run, and free looks at that page's tag */
    tags_slow(base + ((uintptr_t)segment->run_first[(first - base) >> HZ_PAGE_LOG2] << HZ_PAGE_LOG2), behind);
    return behind;
}

static HZ_NOINLINE void range_note(uintptr_t first, uintptr_t behind) {
    uintptr_t os_page = hz_os_page_bytes();
    first &= ~(os_page - 1);
    behind = hz_round_up(behind, os_page);
    struct hz_segment *segment = hz_segment_find((void *)first); /* NOLINT(performance-no-int-to-ptr) */
    if (segment == NULL)
        segment = direct_around(first); /* only here: any other block begins in the range */
    for (uintptr_t at = first, next; at < behind; at = next) {
        next = hz_min(behind, (at | (HZ_SEGMENT_BYTES - 1)) + 1);
        if (at != first)
            segment = hz_segment_find((void *)at); /* NOLINT(performance-no-int-to-ptr) */
        if (segment == NULL)
            continue;
        hz_store_rlx(&hz_attributes_any, true); /* relaxed: see hz_attributes_are_set */
        next = part_note(segment, at, next);
    }
}

void hz_attributes_note(const void *address, size_t bytes) {
    uintptr_t first = (uintptr_t)address;
    uintptr_t behind = first + bytes;
    if (HZ_UNLIKELY(hz_profile_has(address)))
        hz_store_rlx(&hz_attributes_any, true);      /* relaxed: see hz_attributes_are_set */
    if (HZ_UNLIKELY(hz_space_clip(&first, &behind))) /* other mappings of the program lie between ours */
        range_note(first, behind);
}

bool hz_attributes_end(const void *block, size_t bytes) {
    uintptr_t os_page = hz_os_page_bytes();
    uintptr_t from = hz_round_up((uintptr_t)block, os_page);
    uintptr_t to = ((uintptr_t)block + bytes) & ~(os_page - 1);
    if (from >= to)
        return true;
    struct hz_segment *segment = hz_segment_get(block);
    uintptr_t base = hz_load_rlx(&segment->base); /* relaxed: the block is held */
    unsigned first = (unsigned)((from - base) >> HZ_PAGE_LOG2);
    unsigned last = (unsigned)((to - 1 - base) >> HZ_PAGE_LOG2);
    return !hz_altered_is_likely(&segment->altered, first, last - first + 1) ||
           hz_altered_heal(&segment->altered, &segment->huge, hz_segment_page_address(segment, 0), from - base,
                           to - from);
}
