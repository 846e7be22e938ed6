/*
 * arena_dump.h - what of the arena's memory core files have. Used by arena.c.
 *
 * Core files get what the program may have written, and what leads to it. Left out are reserved space, segments that
 * hold no memory, and the unused parts of the directory: the kernel writes a mapping as soon as one page of it was
 * touched, and gdb's gcore writes each mapping in full. A confined process can change nothing, so everything is shown
 * before.
 */
#ifndef HZ_BASE_ARENA_DUMP_H
#define HZ_BASE_ARENA_DUMP_H

#include "base/arena_state.h"

/* Shows the system pages of the directory that the entry `index` is the first one in. Under the arena lock. */
void hz_dump_directory(const struct arena *of, uint32_t index);

/* Hides and names reserved space of which parts are opened, and shown, later. */
void hz_dump_reserved(char *space, size_t bytes);

/* Hides the space of a segment that holds no memory, unless too many are hidden: each can be a mapping of its own. The
   caller has claimed all of its pages. `is_hidden`: the segment's mark. */
void hz_dump_hide(_Atomic(bool) *is_hidden, char *start, size_t bytes);

/* Shows it. The caller has claimed a page of it. */
HZ_COLD void hz_dump_show(_Atomic(bool) *is_hidden, char *start, size_t bytes);

/* Forgets that it was hidden: the space has ended. */
void hz_dump_forget(_Atomic(bool) *is_hidden);

/* Shows everything but hidden segments. */
void hz_dump_all(const struct arena *of);

#endif
