/*
 * flowmap.h - counts the blocks that cross threads, for builds with statistics: which thread allocated each live block,
 * and how many blocks one thread has allocated and another freed, by size.
 *
 * A segment has a word for each possible block start: the thread that got the block. Threads have serial numbers for
 * that. Called where blocks are handed to the program and come back; any thread, lock-free. Compiled in every build,
 * but without statistics nothing calls it.
 *
 * Edge "livemap-publish", as in livemap.h: a thread that finds a segment's map sees its zeroed words.
 */
#ifndef HZ_BASE_FLOWMAP_H
#define HZ_BASE_FLOWMAP_H

#include "base/atomic.h"
#include "base/compiler.h"

/* Sizes of blocks, which the layer above numbers: 0 to this - 1. */
enum { HZ_FLOWMAP_SIZES = 160 };

#define HZ_FLOWMAP_OTHERS UINT32_MAX /* threads whose pairs had no room */

/* The calling thread gets the block. If there is no memory for a map, the segment's blocks are not counted. */
void hz_flowmap_add(const void *block);

/* Whether the block was counted by hz_flowmap_add, and not yet by hz_flowmap_remove. Any pointer. */
bool hz_flowmap_has(const void *block);

/* The calling thread gives a block back that hz_flowmap_has. */
void hz_flowmap_remove(const void *block, unsigned size, size_t bytes);

struct hz_flowmap_sums {
    uint64_t freed_blocks;
    uint64_t freed_bytes;
    uint64_t passed_blocks; /* of those freed: by another thread than the one that allocated them */
    uint64_t passed_bytes;
};

void hz_flowmap_sums_get(unsigned size, struct hz_flowmap_sums *sums);

struct hz_flowmap_pair {
    uint32_t from; /* the kernel's ids, or HZ_FLOWMAP_OTHERS */
    uint32_t to;
    unsigned size; /* HZ_FLOWMAP_SIZES: all sizes, of OTHERS */
    uint64_t blocks;
    uint64_t bytes;
};

/* Entries of the table of pairs; the last one is for those that found no room. */
uint32_t hz_flowmap_pair_count(void);

/* An entry, from 0 to the count. False when it is empty. */
bool hz_flowmap_pair_get(uint32_t index, struct hz_flowmap_pair *pair);

#endif
