/*
 * flow.h - where blocks cross threads, that is, are freed by another thread than the one that allocated them: by size,
 * and by pair of threads. For statistics.
 *
 * With the heap profile the figures are estimates from its samples (base/profile_sites.h, base/profile_flow.h). Builds
 * with statistics count every block instead (base/flowmap.h). Other builds without a profile know nothing. Any thread,
 * outside the heap; allocates nothing.
 */
#ifndef HZ_HEAP_FLOW_H
#define HZ_HEAP_FLOW_H

#include "heap/figures.h"

/* Since the start of the process. The bytes are usable sizes if they are exact, else as requested. */
struct hz_flow_size {
    uint64_t freed_blocks;
    uint64_t freed_bytes;
    uint64_t passed_blocks; /* of those freed: by another thread than the one that allocated them */
    uint64_t passed_bytes;
    /* live blocks that another thread will free, if as many of them do as of those that were freed before */
    uint64_t in_flight_blocks;
    uint64_t in_flight_bytes;
};

struct hz_flow {
    bool is_sampled;                     /* the figures are estimates */
    struct hz_flow_size sizes[HZ_SIZES]; /* by rows of hz_figures_size */
};

/* False when nothing is known; all figures are 0 then. */
bool hz_flow_get(struct hz_flow *flow, const struct hz_figures *figures);

/* Blocks that one thread has allocated and another one freed. */
struct hz_flow_pair {
    uint32_t from; /* the kernel's ids; UINT32_MAX: threads whose pairs had no room */
    uint32_t to;
    unsigned size; /* a row of hz_figures_size; HZ_SIZES: all of them */
    uint64_t blocks;
    uint64_t bytes;
};

/* The next pair with blocks, from *number on, which begins at 0. False after the last one. */
bool hz_flow_pair_next(uint32_t *number, struct hz_flow_pair *pair);

/* With statistics: the program gives a block back. Any pointer; a block of the guard's or the profile's pool is not
   counted. */
void hz_flow_count_free(const void *block);

/* The size of the blocks of a row of hz_figures_size: of a class exactly, of large blocks at most. */
size_t hz_flow_block_bytes(unsigned size);

#endif
