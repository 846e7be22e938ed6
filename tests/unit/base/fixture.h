/*
 * fixture.h - what unit tests of the base layer share.
 */
#ifndef HZ_TESTS_UNIT_BASE_FIXTURE_H
#define HZ_TESTS_UNIT_BASE_FIXTURE_H

#include "unit/library.h"
#include "unit/together.h"

namespace unit {

/* The arena's constants as typed numbers: C++ warns when an enumerator is compared with a size_t. */
inline constexpr size_t page_bytes = HZ_PAGE_BYTES;
inline constexpr size_t segment_bytes = HZ_SEGMENT_BYTES;
inline constexpr unsigned segment_pages = HZ_SEGMENT_PAGES;
inline constexpr unsigned run_pages_max = HZ_RUN_PAGES_MAX;

/* Makes the page tags and the arena, as the heap does when it starts. */
inline bool base_init() {
    return (hz_pagetags.mask != 0 || hz_pagetag_init()) && hz_arena_init();
}

inline char *page_address(struct hz_segment *segment, unsigned page) {
    return static_cast<char *>(hz_segment_page_address(segment, page));
}

inline struct hz_arena_figures figures() {
    struct hz_arena_figures got;
    hz_arena_figures_get(&got);
    return got;
}

inline enum hz_thread_state state_of(struct hz_registered *block) {
    return static_cast<enum hz_thread_state>(hz_load_acq(&block->state));
}

} // namespace unit

#endif
