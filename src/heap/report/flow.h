/*
 * flow.h - figures of blocks that cross threads, by size and by pair of threads. A block crosses when another thread
 * frees it than the one that allocated it.
 *
 * Builds with statistics count every block (base/watch/flowmap.h). In other builds the figures are estimates from the
 * samples of the heap profile (base/profile/profile_sites.h, base/profile/profile_flow.h); without a profile there are
 * none. Any thread, outside the heap; allocates nothing.
 */
#ifndef HZ_HEAP_REPORT_FLOW_H
#define HZ_HEAP_REPORT_FLOW_H

#include "heap/report/figures.h"

/* Figures since the start of the process. Counted bytes are usable sizes; estimated bytes are as requested. */
struct hz_flow_size {
    uint64_t freed_blocks;
    uint64_t freed_bytes;
    uint64_t passed_blocks; /* those of the freed blocks that another thread had allocated */
    uint64_t passed_bytes;
    uint64_t passed_samples; /* of which the latter two are estimates; 0 where every block is counted */
    /* estimate: live blocks that another thread will free, if the same share crosses as of the freed blocks */
    uint64_t in_flight_blocks;
    uint64_t in_flight_bytes;
};

struct hz_flow {
    bool is_sampled;                     /* the figures are estimates */
    struct hz_flow_size sizes[HZ_SIZES]; /* in the order of hz_figures_size's rows */
};

/* False when nothing is known; all figures are 0 then. */
bool hz_flow_get(struct hz_flow *flow, const struct hz_figures *figures);

/* Blocks that one thread has allocated and another one freed. */
struct hz_flow_pair {
    uint32_t from; /* allocated them: the kernel's id; UINT32_MAX in the sum of the pairs that found no room */
    uint32_t to;   /* freed them: likewise */
    unsigned size; /* a row of hz_figures_size; HZ_SIZES: all sizes */
    uint64_t blocks;
    uint64_t bytes;
    uint64_t samples; /* as above */
};

/* Finds the next pair that has blocks and advances *number, which begins at 0. False after the last pair. */
bool hz_flow_pair_next(uint32_t *number, struct hz_flow_pair *pair);

/* Builds with statistics: the program gives a block back. Any pointer. Blocks in the pools of the guard and of the
   profile are not counted. */
void hz_flow_count_free(const void *block);

/* The block size of a row of hz_figures_size: exact for a class, the upper bound for large blocks. */
size_t hz_flow_block_bytes(unsigned size);

#endif
