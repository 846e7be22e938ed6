/*
 * flowmap.h - counts the blocks that cross threads, for builds with statistics. It knows which thread allocated each
 * live block, and counts, by size, the blocks that one thread allocated and another freed.
 *
 * Each segment has a map with a word for each possible block start. The word holds the serial number of the thread that
 * got the block. Any thread, lock-free. Every build compiles this file, but only builds with statistics call it.
 *
 * Edge "livemap-publish", as in livemap.h: a thread that finds a segment's map sees its zeroed words.
 */
#ifndef HZ_BASE_WATCH_FLOWMAP_H
#define HZ_BASE_WATCH_FLOWMAP_H

#include "base/os/atomic.h"
#include "base/os/compiler.h"

/* The layer above numbers the sizes of blocks: from 0 to HZ_FLOWMAP_SIZES - 1. */
enum { HZ_FLOWMAP_SIZES = 192 };

#define HZ_FLOWMAP_OTHERS UINT32_MAX /* any thread: for the sum of the pairs that found no room */

/* The calling thread gets the block. If there is no memory for the segment's map, its blocks are not counted. */
void hz_flowmap_add(const void *block);

/* Whether hz_flowmap_add has noted the block, and hz_flowmap_remove not yet. Any pointer. */
bool hz_flowmap_has(const void *block);

/* The calling thread gives back a block for which hz_flowmap_has is true. `size`: its number; `bytes`: its length. */
void hz_flowmap_remove(const void *block, unsigned size, size_t bytes);

struct hz_flowmap_sums {
    uint64_t freed_blocks;
    uint64_t freed_bytes;
    uint64_t passed_blocks; /* those of the freed blocks that another thread had allocated */
    uint64_t passed_bytes;
};

void hz_flowmap_sums_get(unsigned size, struct hz_flowmap_sums *sums);

struct hz_flowmap_pair {
    uint32_t from; /* the allocating thread: the kernel's id, or HZ_FLOWMAP_OTHERS */
    uint32_t to;   /* the freeing thread: likewise */
    unsigned size; /* HZ_FLOWMAP_SIZES in the entry of the others: all sizes */
    uint64_t blocks;
    uint64_t bytes;
};

/* The number of entries of the table of pairs. The last entry is the sum of the pairs that found no room. */
uint32_t hz_flowmap_pair_count(void);

/* Reads entry `index`, 0 to the count - 1. False when it is empty. */
bool hz_flowmap_pair_get(uint32_t index, struct hz_flowmap_pair *pair);

#endif
