/*
 * spread.h - where in its slack a block above 8 KiB begins. The slack of a block is what its memory has more than was
 * asked for.
 *
 * The memory of such a block begins at its place, a multiple of 1 to 64 KiB. If the program's blocks began there too,
 * the same element of many of them would fall into a few cache sets. So a block begins up to 64 KiB behind its place,
 * at a multiple of HZ_SPREAD_STEP, but never so far that it needs more memory. The distance is the low bits of a hash
 * of the place (of the directory entry for a direct block, which can move). How many bits depends on the slack, and on
 * former sizes. So nothing is stored, and most pointers that no allocation can have returned are told from those that
 * one has. A request for an alignment above HZ_SPREAD_STEP gets the place itself.
 *
 * A free block keeps the pointer under which it was freed. malloc hands it out there if the size fits, and else nearer
 * to its place. Blocks that reach a thread from the depot or a page are spread over all that their class allows.
 */
#ifndef HZ_BASE_ARENA_SPREAD_H
#define HZ_BASE_ARENA_SPREAD_H

#include "base/os/compiler.h"

enum {
    HZ_SPREAD_STEP_LOG2 = 6,
    HZ_SPREAD_STEP = 1 << HZ_SPREAD_STEP_LOG2,
    HZ_SPREAD_LOG2 = 16,
    HZ_SPREAD_BYTES = 1 << HZ_SPREAD_LOG2,
    HZ_SPREADS = !HZ_CONFIG_FENCES, /* builds with fences (front/fence.h) place blocks themselves */
};

/* How far a block begins behind its place. Places are multiples of `grid`, a power of two up to HZ_SPREAD_BYTES, and
   blocks begin less than that behind them. */
HZ_INLINE size_t hz_spread_offset(const void *block, size_t grid) {
    return (uintptr_t)block & (grid - 1);
}

HZ_INLINE void *hz_spread_place(void *block, size_t grid) {
    return (char *)block - hz_spread_offset(block, grid);
}

/* The key of a place that never moves; direct blocks have another one (large.c). */
HZ_INLINE uint64_t hz_spread_key(const void *place) {
    return (uintptr_t)place >> HZ_SPREAD_STEP_LOG2;
}

/* The key's hash: a multiple of HZ_SPREAD_STEP below HZ_SPREAD_BYTES. Keys often lie at equal distances, and for some
   distances one multiplication would hit few cache lines. */
HZ_INLINE size_t hz_spread_most(uint64_t key) {
    enum { BITS = HZ_SPREAD_LOG2 - HZ_SPREAD_STEP_LOG2 };
    key *= UINT64_C(0x9e3779b97f4a7c15); /* 2^64 divided by the golden ratio */
    key = (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(key >> (64 - BITS)) << HZ_SPREAD_STEP_LOG2;
}

/* The distance from its place at which a block with so much slack begins: at most `slack`. */
HZ_INLINE size_t hz_spread_within(uint64_t key, size_t slack) {
    size_t below = (size_t)1 << hz_log2(slack + HZ_SPREAD_STEP);
    size_t most = hz_spread_most(key) & (2 * below - 1);
    return HZ_SPREADS ? most <= slack ? most : most & (below - 1) : 0;
}

/* The new distance of a block that began `offset` bytes behind its place, if only `slack` bytes are left, which are
   fewer. At most `slack`; for some slack hz_spread_within has the same answer. */
HZ_INLINE size_t hz_spread_nearer(size_t offset, size_t slack) {
    return offset & (((size_t)1 << hz_log2(slack + HZ_SPREAD_STEP)) - HZ_SPREAD_STEP);
}

/* Whether a block can begin `offset` bytes behind its place, for some slack. */
HZ_INLINE bool hz_spread_may_be(uint64_t key, size_t offset) {
    size_t below = (size_t)2 << hz_log2(offset | 1);
    return (hz_spread_most(key) & (below - 1)) == offset && (HZ_SPREADS || offset == 0);
}

#endif
