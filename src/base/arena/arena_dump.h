/*
 * arena_dump.h - which of the arena's memory goes into core files.
 *
 * Core files get what the program may have written, and what leads to it. Left out are reserved space, units of
 * segments that hold no memory, and the unused parts of the directory: the kernel writes a mapping as soon as one page
 * of it was touched, and gdb's gcore writes each mapping in full. A confined process may not make the calls that hide
 * and show memory, so everything is shown before a process is confined.
 */
#ifndef HZ_BASE_ARENA_ARENA_DUMP_H
#define HZ_BASE_ARENA_ARENA_DUMP_H

#include "base/arena/arena_state.h"
#include "base/map/huge.h"
#include "base/map/pagetag.h"

/* Shows those system pages of the directory in which the entry `index` is the first. Under the arena lock. */
void hz_dump_directory(const struct arena *of, uint32_t index);

/* Hides and names reserved space. Its parts are shown when they are opened. */
void hz_dump_reserved(char *space, size_t bytes);

/* A segment's marks: bit n says that core files do not have its unit n, of 2 MiB. Where hidden memory meets shown
   memory, two mappings meet, and no huge page crosses that boundary. */
typedef _Atomic(uint8_t) hz_dump_marks;

HZ_INLINE uint8_t hz_dump_units(unsigned first, unsigned pages) {
    const unsigned unit_pages_log2 = HZ_HUGE_LOG2 - HZ_PAGE_LOG2;
    return (uint8_t)(1U << (first >> unit_pages_log2) | 1U << ((first + pages - 1) >> unit_pages_log2));
}

/* Sets the marks of a new segment whose first `bytes` are reserved space: a unit of it is shown when it is used. */
void hz_dump_begin(hz_dump_marks *marks, char *base, size_t bytes);

/* Hides a unit that holds no memory, all of whose pages the caller has claimed, unless too many are hidden: each can be
   a mapping of its own. `again`: also if the unit has its mark already. */
void hz_dump_hide(hz_dump_marks *marks, char *base, unsigned unit, bool again);

/* Shows units, of each of which the caller has claimed a page. */
HZ_COLD void hz_dump_show(hz_dump_marks *marks, char *base, uint8_t units);

/* Shows everything but units of segments. */
void hz_dump_all(const struct arena *of);

#endif
