/*
 * trim.c - see trim.h.
 */
#include "base/arena/trim.h"

#include "base/arena/arena.h"
#include "base/map/region.h"
#include "base/map/runmap.h"
#include "base/os/os.h"

/* The first segment with pages from *index on; NULL when there is none. */
static struct hz_segment *paged_from(uint32_t *index) {
    for (; *index < hz_arena_segment_count(); ++*index) {
        struct hz_segment *segment = hz_arena_segment(*index);
        if (segment != NULL && hz_load_rlx(&segment->kind) == HZ_SEGMENT_PAGED) /* relaxed: checked by the claim */
            return segment;
    }
    return NULL;
}

static size_t segment_meta_purge(struct hz_segment *segment) {
    struct hz_claim claim;
    /* relaxed: hint. Whoever holds a run of the segment has claimed its bits */
    if (!hz_load_rlx(&segment->is_described) ||
        !hz_runmap_claim_bits(hz_arena_pages(), segment->index, UINT64_MAX, &claim))
        return 0;
    size_t bytes = hz_arena_undescribe(segment);
    hz_runmap_clean(hz_arena_pages(), segment->index, ~claim.dirty);
    hz_runmap_release(hz_arena_pages(), segment->index, UINT64_MAX);
    return bytes;
}

size_t hz_trim_meta(void) {
    size_t bytes = 0;
    struct hz_segment *segment;
    for (uint32_t index = 0; (segment = paged_from(&index)) != NULL; index++)
        bytes += segment_meta_purge(segment);
    hz_arena_count_purged(bytes);
    return bytes;
}

/* Pages of the segment of which the kernel has some in memory. */
static uint64_t pages_in_memory(struct hz_segment *segment) {
    uint64_t resident[HZ_MARKS / 64];
    unsigned log2 = HZ_PAGE_LOG2 - hz_log2(hz_os_page_bytes());
    uint64_t pages = 0;
    if (!hz_os_resident_map(hz_segment_page_address(segment, 0), HZ_SEGMENT_BYTES, resident))
        return 0;
    for (unsigned page = 0; page < HZ_SEGMENT_PAGES; page++) {
        unsigned first = page << log2;
        uint64_t bits = resident[first / 64] >> (first % 64) & (UINT64_MAX >> (64 - (1U << log2)));
        pages |= (uint64_t)(bits != 0) << page;
    }
    return pages;
}

size_t hz_trim_free(void) {
    size_t pages = 0;
    struct hz_segment *segment;
    for (uint32_t index = 0; (segment = paged_from(&index)) != NULL; index++) {
        struct hz_arena_masks masks = hz_arena_masks_get(index);
        /* relaxed: hint. What is clean and plain stays as it is, unless the kernel has filled it again */
        uint64_t plain = masks.unused & ~masks.dirty & hz_load_rlx(&segment->altered.plain);
        uint64_t filled = plain != 0 ? plain & pages_in_memory(segment) : 0;
        pages += hz_runmap_renew_free(hz_arena_pages(), index, (masks.unused & ~plain) | filled);
    }
    hz_arena_count_purged(pages << HZ_PAGE_LOG2);
    size_t units = hz_arena_purge(0, SIZE_MAX);
    if (hz_pagetags.flat)
        hz_region_close_free();
    return (pages << HZ_PAGE_LOG2) + units;
}

bool hz_trim_filled(void) {
    bool any = false;
    struct hz_segment *segment;
    for (uint32_t index = 0; (segment = paged_from(&index)) != NULL; index++) {
        struct hz_arena_masks masks = hz_arena_masks_get(index);
        uint64_t clean = masks.unused & ~masks.dirty;
        if (clean == 0)
            continue;
        uint64_t filled = clean & pages_in_memory(segment);
        hz_runmap_purge_free(hz_arena_pages(), index, filled);
        any |= filled != 0;
    }
    return any;
}
