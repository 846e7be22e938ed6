/*
 * query.c - see query.h.
 */
#include "heap/query.h"

#include "base/arena/large.h"
#include "base/os/hooks.h"
#include "base/watch/guard.h"
#include "heap/pages/page.h"

/* Ends the program with the message that fits a pointer whose page tag names no class. */
static HZ_NORETURN HZ_COLD void fail_no_block(const void *block, const char *function) {
    if (hz_query_place(block) != NULL)
        hz_misuse(HZ_TEXT_INTERIOR, block, function);
    hz_misuse(hz_segment_find(block) != NULL ? HZ_TEXT_DOUBLE_FREE : HZ_TEXT_FOREIGN, block, function);
}

/* In the tight mode different addresses share a tag, so the segment directory decides. */
unsigned hz_query_class(const void *block, const char *function) {
    unsigned size_class = hz_pagetag_class(block);
    if (HZ_UNLIKELY(size_class == HZ_CLASS_NONE || hz_pagetag_is_beyond(block) ||
                    (!hz_pagetags.flat && hz_segment_find(block) == NULL)))
        fail_no_block(block, function);
    return size_class;
}

void hz_query_profiled(const void *block, enum hz_profile_answer answer, const char *function) {
    switch (answer) {
    case HZ_PROFILE_OK:
        return;
    case HZ_PROFILE_TWICE:
        hz_misuse(HZ_TEXT_DOUBLE_FREE, block, function);
    case HZ_PROFILE_INSIDE:
        hz_misuse(HZ_TEXT_INTERIOR, block, function);
    case HZ_PROFILE_NO_BLOCK:
        hz_misuse(HZ_TEXT_FOREIGN, block, function);
    }
}

/* Of a block of the heap profile's pool. */
static HZ_COLD size_t profiled_usable(const void *block, const char *function) {
    size_t bytes = 0;
    hz_hooks_enter(); /* in a fork's child a vanished thread may hold the profile's lock */
    enum hz_profile_answer answer = hz_profile_look(block, &bytes);
    hz_hooks_leave();
    hz_query_profiled(block, answer, function);
    return bytes;
}

size_t hz_query_usable(const void *block, const char *function) {
    if (hz_guard_has(block))
        return hz_guard_usable(block);
    if (hz_profile_has(block))
        return profiled_usable(block, function);
    unsigned size_class = hz_query_class(block, function);
    if (size_class == HZ_CLASS_LARGE)
        return hz_large_usable(block);
    if (HZ_UNLIKELY(hz_class_is_long(size_class)) && !hz_class_has_start(size_class, block))
        hz_misuse(HZ_TEXT_INTERIOR, block, function);
    return hz_class_bytes(size_class) - hz_spread_offset(block, hz_class_grid(size_class));
}

size_t hz_query_offset(const void *block) {
    if (hz_guard_has(block) || hz_profile_has(block))
        return 0;
    unsigned size_class = hz_pagetag_class(block);
    return hz_spread_offset(block, size_class == HZ_CLASS_LARGE ? HZ_SPREAD_BYTES : hz_class_grid(size_class));
}

size_t hz_query_bytes_for(size_t size) {
    if (size <= HZ_CLASS_BYTES_MAX)
        return hz_class_bytes(hz_class_of(size));
    return hz_large_bytes_for(size);
}

size_t hz_query_good_size(size_t size) {
    size_t bytes = hz_query_bytes_for(size);
    return bytes <= HZ_SPREAD_ABOVE_BYTES || !HZ_SPREADS ? bytes : hz_round_up(size, HZ_SPREAD_STEP);
}

const void *hz_query_place(const void *address) {
    struct hz_segment *segment = hz_segment_find(address);
    if (segment == NULL)
        return NULL;
    if (hz_load_rlx(&segment->kind) == HZ_SEGMENT_DIRECT) /* relaxed: hz_segment_find has acquired it */
        return hz_segment_page_address(segment, 0);
    unsigned page_number = hz_segment_page(address);
    unsigned first = segment->run_first[page_number];
    const void *run = hz_segment_page_address(segment, first);
    if (page_number >= first + segment->run_pages[first])
        return NULL; /* the page is free: its last run is gone */
    if (hz_pagetag_class(run) == HZ_CLASS_LARGE)
        return run;
    if (hz_pagetag_class(run) == HZ_CLASS_NONE)
        return NULL;
    const struct hz_page *page = hz_page_of(address);
    size_t offset = (size_t)((const char *)address - page->start);
    return offset / page->block_bytes < page->capacity ? page->start + offset - offset % page->block_bytes : NULL;
}

bool hz_query_is_inside(const void *address) {
    const void *place = hz_query_place(address);
    if (place == NULL || place == address)
        return false;
    unsigned size_class = hz_pagetag_class(place);
    if ((const char *)address - hz_query_offset(address) != place)
        return true;
    return size_class == HZ_CLASS_LARGE ? !hz_large_may_begin(address) : !hz_class_has_start(size_class, address);
}
