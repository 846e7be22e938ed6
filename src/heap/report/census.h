/*
 * census.h - which blocks are live at one instant, exactly: those that the program has, and none that rests in a page,
 * a bin, the depot, a mailbox, a zone's reserve, the sampling guard or the heap profile.
 *
 * For a moment at which no other thread is in the heap (base/os/os_stop.h). Takes no lock and allocates nothing from
 * the heap. A block that was freed a moment ago by a thread which was stopped in the middle of that may count as live;
 * hz_census_thread_is_inside tells of such a thread.
 *
 * Each place at which a block can begin has a byte of the census, in which the layer above keeps marks too.
 */
#ifndef HZ_HEAP_REPORT_CENSUS_H
#define HZ_HEAP_REPORT_CENSUS_H

#include "base/os/compiler.h"

enum { HZ_CENSUS_LIVE = 1 }; /* the other bits of a byte are the caller's, and 0 at first */

struct hz_census_block {
    uintptr_t start; /* of its memory: the program's pointer may be a little behind (base/arena/spread.h) */
    size_t bytes;
    uint8_t *marks;
};

struct hz_census_direct {
    uintptr_t begin, end;
    uint32_t index; /* of the segment */
};

struct hz_census {
    uintptr_t begin, end; /* all blocks are within */
    uint8_t *marks;       /* of each place: those of the segments, of the profile's pool, of the guard */
    size_t marks_bytes;
    uint32_t segments;
    size_t pool_at, guard_at;        /* where the marks of these begin */
    struct hz_census_direct *direct; /* direct blocks, by address */
    size_t direct_bytes;
    uint32_t direct_count;
};

/* Takes the census. False when there is no memory for it. hz_census_end gives the memory back. */
bool hz_census_begin(struct hz_census *census);
void hz_census_end(struct hz_census *census);

/* The live block that has the address. */
bool hz_census_find(const struct hz_census *census, uintptr_t address, struct hz_census_block *block);

/* The block, which the front layer keeps though it was freed, is not live. */
void hz_census_forget(void *census, const void *block);

/* Calls `visit` for each live block, by address but for those of the profile and the guard. */
void hz_census_walk(const struct hz_census *census, void (*visit)(void *context, const struct hz_census_block *block),
                    void *context);

/* Calls `visit` for the memory that blocks are in, used or not, and for all memory of the library's own that may have
   addresses of blocks, though no block is reached by them. The library's variables are not among it. */
void hz_census_memory_walk(void (*visit)(void *context, const void *memory, size_t bytes), void *context);

/* Whether the thread is in a slow path of the heap. `local`: its thread pointer. `own`: the caller's. */
bool hz_census_thread_is_inside(uintptr_t local, uintptr_t own);

/* The thread's block in which its bins are. NULL if it has none. */
const void *hz_census_thread_memory(uintptr_t local, uintptr_t own, size_t *bytes);

#endif
