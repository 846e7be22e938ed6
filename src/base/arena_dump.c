/*
 * arena_dump.c - see arena_dump.h.
 */
#include "base/arena_dump.h"

#include "base/os.h"
#include "base/space.h"

enum { HIDDEN_MAX = 4096 }; /* 16 GiB. A process has at most 65,530 mappings, unless the system is told otherwise */

static _Atomic(uint32_t) hidden_count; /* hint */

/* tools/heap_core.py reads these three arrays. */
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

void hz_dump_hide(_Atomic(bool) *is_hidden, char *start, size_t bytes) {
    /* relaxed, all: hint; the caller's pages publish the mark */
    if (hz_load_rlx(is_hidden) || hz_load_rlx(&hidden_count) >= HIDDEN_MAX)
        return;
    hz_add_rlx(&hidden_count, 1);
    hz_store_rlx(is_hidden, true);
    hz_signal_fence(); /* fork: what a copy finds hidden is marked so */
    hz_os_hide(start, bytes);
}

void hz_dump_show(_Atomic(bool) *is_hidden, char *start, size_t bytes) {
    hz_os_show(start, bytes);
    hz_signal_fence();
    hz_dump_forget(is_hidden);
}

void hz_dump_forget(_Atomic(bool) *is_hidden) {
    /* relaxed, both: hint. Of several threads that claim pages of the segment at the same time, one counts */
    if (hz_xchg_rlx(is_hidden, false))
        hz_sub_rlx(&hidden_count, 1);
}

void hz_dump_all(const struct arena *of) {
    const char *begin = (const char *)of->segments;
    const char *end = (const char *)&of->pages.dirty_masks[of->capacity];
    hz_os_show(of->segments, hz_round_up((size_t)(end - begin), hz_os_page_bytes()));
    hz_space_show_reserved();
    if (!of->tight)
        hz_regions_show();
}
