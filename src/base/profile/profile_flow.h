/*
 * profile_flow.h - the flow of the heap profile: which threads free what which threads allocated.
 *
 * A pair is the thread that allocated sampled blocks and the thread that freed them, by the kernel's ids. One more pair
 * of each thread, with HZ_PROFILE_NOBODY, has what the thread allocated. Blocks of all weights meet in a pair, so its
 * sums are estimates: each sampled block counts for the blocks that it stands for. Pairs are never removed. When the
 * table is full, new pairs count in the pairs of HZ_PROFILE_OTHERS. A fork's child can have a pair twice: a reader adds
 * them up.
 */
#ifndef HZ_BASE_PROFILE_PROFILE_FLOW_H
#define HZ_BASE_PROFILE_PROFILE_FLOW_H

#include "base/os/atomic.h"
#include "base/os/compiler.h"

enum {
    HZ_PROFILE_PAIRS = 2048,
    HZ_PROFILE_BLOCK_LOG2 = 16, /* a pair's block counts 2^16, since a sampled block can stand for 1.6 blocks */
};

#define HZ_PROFILE_NOBODY 0U
#define HZ_PROFILE_OTHERS UINT32_MAX

struct hz_profile_pair {
    uint32_t from;             /* const after publish: the thread that allocated */
    uint32_t to;               /* const after publish: the thread that freed, or HZ_PROFILE_NOBODY */
    uint32_t next;             /* const after publish: number of another pair of its bucket */
    _Atomic(uint64_t) samples; /* counter, all: sampled blocks */
    _Atomic(uint64_t) blocks;  /* estimate, in 2^-16 blocks */
    _Atomic(uint64_t) bytes;   /* estimate */
};

/* Makes the pairs of HZ_PROFILE_OTHERS. There is one thread. */
void hz_profile_flow_start(void);

/* Adds a sampled block that stands for `scale` blocks to the sums of a pair. is_undone: takes it away again. Under the
   profile's lock. */
void hz_profile_flow_count_locked(uint32_t from, uint32_t to, size_t size, double scale, bool is_undone);

/* Pairs so far. They have the numbers 1 to this. Under the profile's lock. */
uint32_t hz_profile_pair_count_locked(void);

/* A pair by its number, which the thread has got under the profile's lock. Any thread. */
const struct hz_profile_pair *hz_profile_pair_at(uint32_t number);

#endif
