/*
 * spread.h - where in its slack a block above 8 KiB begins. Used by large.c and by the layer above.
 *
 * The memory of such a block begins at its place, a multiple of 1 to 64 KiB. If the program's blocks began
 * there too, the same element of many of them would fall into a few cache sets. So a block begins up to 64 KiB behind
 * its place, at a multiple of HZ_SPREAD_STEP, but never so far that it needs memory which it would not have anyway. How
 * far is a function of the place and of the slack. So nothing is stored, and most pointers that no allocation can have
 * returned are told apart. A request for an alignment above HZ_SPREAD_STEP gets the place itself.
 *
 * Free blocks keep the pointer under which they were freed: who hands one out goes back to its place first.
 */
#ifndef HZ_BASE_SPREAD_H
#define HZ_BASE_SPREAD_H

#include "base/compiler.h"

enum {
    HZ_SPREAD_STEP_LOG2 = 6,
    HZ_SPREAD_STEP = 1 << HZ_SPREAD_STEP_LOG2,
    HZ_SPREAD_LOG2 = 16,
    HZ_SPREAD_BYTES = 1 << HZ_SPREAD_LOG2,
    HZ_SPREADS = !HZ_CONFIG_FENCES, /* the fences place blocks themselves */
};

/* How far a block begins behind its place. Places are multiples of `grid`, a power of two up to HZ_SPREAD_BYTES, and
   blocks begin less than that behind them. */
HZ_INLINE size_t hz_spread_offset(const void *block, size_t grid) {
    return (uintptr_t)block & (grid - 1);
}

HZ_INLINE void *hz_spread_place(void *block, size_t grid) {
    return (char *)block - hz_spread_offset(block, grid);
}

/* The key of a place that never moves. */
HZ_INLINE uint64_t hz_spread_key(const void *place) {
    return (uintptr_t)place >> HZ_SPREAD_STEP_LOG2;
}

/* A multiple of HZ_SPREAD_STEP below HZ_SPREAD_BYTES. Keys lie at equal distances: one multiplication would leave those
   of some distances on few lines. */
HZ_INLINE size_t hz_spread_most(uint64_t key) {
    enum { BITS = HZ_SPREAD_LOG2 - HZ_SPREAD_STEP_LOG2 };
    key *= UINT64_C(0x9e3779b97f4a7c15); /* 2^64 divided by the golden ratio */
    key = (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(key >> (64 - BITS)) << HZ_SPREAD_STEP_LOG2;
}

/* How far from its place a block begins that leaves `slack` bytes of its memory unused: at most so far. */
HZ_INLINE size_t hz_spread_within(uint64_t key, size_t slack) {
    size_t below = (size_t)1 << hz_log2(slack + HZ_SPREAD_STEP);
    size_t most = hz_spread_most(key) & (2 * below - 1);
    return HZ_SPREADS ? most <= slack ? most : most & (below - 1) : 0;
}

/* Whether a block can begin so far from its place, for some slack. */
HZ_INLINE bool hz_spread_may_be(uint64_t key, size_t offset) {
    size_t below = (size_t)2 << hz_log2(offset | 1);
    return (hz_spread_most(key) & (below - 1)) == offset && (HZ_SPREADS || offset == 0);
}

#endif
