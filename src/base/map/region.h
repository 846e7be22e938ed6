/*
 * region.h - address space that direct blocks share.
 *
 * A region is 256 MiB of address space: 64 units of 4 MiB, which a runmap keeps. A block takes neighbouring units of
 * one region. A unit becomes accessible as a whole when it is claimed, and stays so until its memory goes back. So
 * neighbours in use are one mapping for the kernel, which limits the number of mappings. A free unit can rest: it keeps
 * its memory for the next block until it is purged. A purge makes it inaccessible, unless that makes too many mappings
 * (docs/decisions/hooks.md#mprotect).
 */
#ifndef HZ_BASE_MAP_REGION_H
#define HZ_BASE_MAP_REGION_H

#include "base/map/runmap.h"
#include "base/os/compiler.h"

enum {
    HZ_UNIT_LOG2 = 22,
    HZ_UNIT_BYTES = 1 << HZ_UNIT_LOG2,
    HZ_REGION_UNITS = 64,
    HZ_REGION_BYTES = HZ_REGION_UNITS * HZ_UNIT_BYTES, /* and its alignment */
    HZ_REGIONS_MAX = 1 << 14,                          /* 4 TiB */
    HZ_REGION_BLOCK_BYTES_MAX = HZ_REGION_BYTES / 4,   /* longer blocks are mapped alone */
};

extern HZ_HIDDEN struct hz_runmap hz_region_units; /* a word per region */

/* Zeroed memory for the tables of at most `most` <= HZ_REGIONS_MAX regions. Init: once, before any other call. */
size_t hz_region_table_bytes(uint32_t most);
void hz_region_init(void *memory, uint32_t most);

/* One more than the highest region number ever used. The number of an unmapped region is used again. */
uint32_t hz_region_count(void);

/* Calls `visit` for each region; and the tables, which have the regions' addresses. For a moment at which no other
   thread adds a region. */
void hz_regions_walk(void (*visit)(void *context, const void *memory, size_t bytes), void *context);
const void *hz_region_table(size_t *bytes);

/* Adds reserved space at a multiple of HZ_REGION_BYTES as a region. False when there are as many as
   the tables have room for. Under a lock of the caller's. */
bool hz_region_add_locked(char *base);

/* Takes neighbouring units, the first one at a multiple of `align` units, and makes them accessible. NULL when no
   region has such units (*is_full is true) or when the OS refuses (*is_full is false). Near a limit of the address
   space (space.h), units that were never accessible are refused. Any thread. */
char *hz_region_claim(unsigned units, unsigned align, struct hz_claim *claim, bool *is_full);

/* Takes the `more` units behind the first `units` of a block, if they are free. */
bool hz_region_grow(uint32_t region, const char *base, unsigned units, unsigned more);

/* Gives back `units` units from `start` on; they rest. `is_altered`: the program has told the kernel something about
   them, so they become inaccessible. */
void hz_region_release(uint32_t region, char *start, unsigned units, bool is_altered);

/* Gives back units whose pages mremap has moved elsewhere, leaving a hole in the region. If the OS refuses, because of
   a limit or because another mapping is in the hole meanwhile, they stay taken until hz_region_withdraw or
   hz_region_trim has filled it. */
void hz_region_release_hole(uint32_t region, char *start, unsigned units);

/* Makes all free units inaccessible again, and unmaps regions without used units, so that they do not count against a
   limit. Returns their bytes. */
size_t hz_region_withdraw(void);

/* Unmaps regions in which no unit is used or rests. Returns their bytes. */
size_t hz_region_trim(void);

/* Puts all of the regions into core files (hz_arena_show). Any thread. */
void hz_regions_show(void);

/* Makes free units inaccessible again, as long as that adds few mappings. */
void hz_region_close_free(void);

#endif
