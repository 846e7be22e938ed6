/*
 * arena_dump.c - see arena_dump.h.
 */
#include "base/arena/arena_dump.h"

#include "base/map/space.h"
#include "base/os/os.h"

enum { HIDDEN_MAX = 8192 }; /* units, 16 GiB. By default the kernel allows a process 65,530 mappings */

static _Atomic(uint32_t) hidden_count; /* hint */

/* command/heap_core.py reads these three arrays. */
void hz_dump_directory(const struct arena *of, uint32_t index) {
    size_t os_page = hz_os_page_bytes();
    const uintptr_t entries[] = {
        (uintptr_t)&of->segments[index],
        (uintptr_t)&of->pages.free_masks[index],
        (uintptr_t)&of->pages.dirty_masks[index],
    };
    for (size_t i = 0; i < HZ_ARRAY_LENGTH(entries); i++)
        if (index == 0 || entries[i] % os_page == 0)
            hz_os_show((void *)(entries[i] & ~(os_page - 1)), os_page);
}

void hz_dump_reserved(char *space, size_t bytes) {
    if (bytes == 0)
        return;
    hz_os_hide(space, bytes);
    hz_os_name(space, bytes, HZ_NAME_BLOCKS);
}

static char *unit_start(char *base, unsigned unit) {
    return base + ((size_t)unit << HZ_HUGE_LOG2);
}

static unsigned bits_in(uint8_t marks) {
    return (unsigned)__builtin_popcount(marks);
}

void hz_dump_begin(hz_dump_marks *marks, char *base, size_t bytes) {
    bool may_hide = hz_load_rlx(&hidden_count) < HIDDEN_MAX; /* relaxed, all: hint */
    uint8_t all = (uint8_t)(may_hide ? (1U << (bytes >> HZ_HUGE_LOG2)) - 1 : 0U);
    uint8_t before = hz_load_rlx(marks); /* those of the segment that had this entry before */
    hz_add_rlx(&hidden_count, bits_in(all) - bits_in(before));
    hz_store_rlx(marks, all);
    if (!may_hide && bytes > 0)
        hz_os_show(base, bytes);
}

void hz_dump_hide(hz_dump_marks *marks, char *base, unsigned unit, bool again) {
    uint8_t bit = (uint8_t)(1U << unit);
    bool is_marked = (hz_load_rlx(marks) & bit) != 0; /* relaxed, all: hint; the caller's pages publish the mark */
    if (is_marked ? !again : hz_load_rlx(&hidden_count) >= HIDDEN_MAX)
        return;
    if (!is_marked) {
        hz_add_rlx(&hidden_count, 1);
        (void)hz_or_rlx(marks, bit);
        hz_signal_fence(); /* fork: what a copy finds hidden is marked so */
    }
    hz_os_hide(unit_start(base, unit), HZ_HUGE_BYTES);
}

void hz_dump_show(hz_dump_marks *marks, char *base, uint8_t units) {
    for (unsigned unit = 0; units >> unit != 0; unit++) {
        uint8_t bit = (uint8_t)(1U << unit);
        if ((units & hz_load_rlx(marks) & bit) == 0) /* relaxed, all: hint */
            continue;
        hz_os_show(unit_start(base, unit), HZ_HUGE_BYTES);
        hz_signal_fence();
        /* of several threads that claim pages of the unit at the same time, one counts */
        if ((hz_and_rlx(marks, (uint8_t)~bit) & bit) != 0)
            hz_sub_rlx(&hidden_count, 1);
    }
}

void hz_dump_all(const struct arena *of) {
    const char *begin = (const char *)of->segments;
    const char *end = (const char *)&of->pages.dirty_masks[of->capacity];
    hz_os_show(of->segments, hz_round_up((size_t)(end - begin), hz_os_page_bytes()));
    hz_space_show_reserved();
    if (!of->tight)
        hz_regions_show();
}
