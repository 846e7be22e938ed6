/*
 * sizeclass.h - the sizes that blocks come in.
 *
 * Class 0 is "none". Classes 1..HZ_LINEAR_CLASSES are multiples of 16 bytes up to HZ_LINEAR_MAX. Above that each
 * doubling has HZ_STEPS_PER_DOUBLING equal steps, up to HZ_CLASS_BYTES_MAX, so at most 1/9 of a block is wasted. Larger
 * blocks are "large". So are blocks above HZ_RUN_ABOVE_BYTES that realloc has grown or that belong to a zone, and above
 * HZ_RUN_CLASSES_ABOVE_BYTES that must be zero: a run of pages can grow in place, and knows what is zero. Up to
 * HZ_SMALL_MAX malloc finds the bin in a table in the thread block and needs nothing from this file. All functions are
 * pure; any thread may call them.
 */
#ifndef HZ_HEAP_SIZECLASS_H
#define HZ_HEAP_SIZECLASS_H

#include "base/arena/large.h"
#include "base/arena/spread.h"
#include "base/map/pagetag.h"
#include "base/os/check.h"
#include "base/os/compiler.h"
#include "heap/knobs.h"

enum {
    HZ_LINEAR_LOG2 = 8,
    HZ_LINEAR_MAX = 1 << HZ_LINEAR_LOG2,
    HZ_LINEAR_CLASSES = HZ_LINEAR_MAX / HZ_GRANULE_BYTES,
    HZ_STEPS_LOG2 = 3,
    HZ_STEPS_PER_DOUBLING = 1 << HZ_STEPS_LOG2,
    HZ_CLASS_LOG2_MAX = 21,
    HZ_CLASS_BYTES_MAX = 1 << HZ_CLASS_LOG2_MAX,
    HZ_CLASS_COUNT = 1 + HZ_LINEAR_CLASSES + (HZ_CLASS_LOG2_MAX - HZ_LINEAR_LOG2) * HZ_STEPS_PER_DOUBLING,
    HZ_RUN_ABOVE_BYTES = HZ_PAGE_BYTES,
    HZ_SMALL_LOG2_MAX = 11,
    HZ_SMALL_MAX = 1 << HZ_SMALL_LOG2_MAX,
    HZ_SPREAD_ABOVE_LOG2 = 13,
    HZ_SPREAD_ABOVE_BYTES = 1 << HZ_SPREAD_ABOVE_LOG2, /* larger blocks begin at different cache lines: spread.h */
    HZ_SPREAD_CLASS_FIRST = 1 + HZ_LINEAR_CLASSES + (HZ_SPREAD_ABOVE_LOG2 - HZ_LINEAR_LOG2) * HZ_STEPS_PER_DOUBLING,
    HZ_MID_CLASS_FIRST = 1 + HZ_LINEAR_CLASSES + (HZ_SMALL_LOG2_MAX - HZ_LINEAR_LOG2) * HZ_STEPS_PER_DOUBLING,
    /* blocks of more than 512 KiB, each exactly some arena pages long; the class, and the largest size below it */
    HZ_RUN_CLASS_FIRST =
        1 + HZ_LINEAR_CLASSES + (HZ_PAGE_LOG2 + HZ_STEPS_LOG2 - HZ_LINEAR_LOG2) * HZ_STEPS_PER_DOUBLING,
    HZ_RUN_CLASSES_ABOVE_BYTES = HZ_PAGE_BYTES << HZ_STEPS_LOG2,
    HZ_LONG_CLASS_FIRST = 1 + HZ_LINEAR_CLASSES + (HZ_PAGE_LOG2 - HZ_LINEAR_LOG2) * HZ_STEPS_PER_DOUBLING,
};

_Static_assert((int)HZ_CLASS_COUNT <= (int)HZ_CLASS_LARGE, "a class must fit into a page tag's byte");
_Static_assert((int)HZ_LINEAR_MAX <= (int)HZ_SMALL_MAX, "malloc's table covers the linear classes");

/* Class for a size in HZ_LINEAR_MAX + 1 .. HZ_CLASS_BYTES_MAX. */
HZ_INLINE unsigned hz_class_of_medium(size_t size) {
    hz_assert(size > HZ_LINEAR_MAX && size <= HZ_CLASS_BYTES_MAX);
    size_t last = size - 1;
    unsigned doubling = hz_log2(last);
    /* the subtraction clears the top bit of `last` */
    unsigned step = (unsigned)(last >> (doubling - HZ_STEPS_LOG2)) - HZ_STEPS_PER_DOUBLING;
    return 1 + HZ_LINEAR_CLASSES + (doubling - HZ_LINEAR_LOG2) * HZ_STEPS_PER_DOUBLING + step;
}

/* For the same sizes: by how much the class is larger than the one below. Places of its blocks are multiples of it,
   or of 64 KiB if that is less. */
HZ_INLINE size_t hz_class_step_of_medium(size_t size) {
    return (size_t)1 << (hz_log2(size - 1) - HZ_STEPS_LOG2);
}

/* Class for a size in 0..HZ_CLASS_BYTES_MAX; size 0 has the smallest class. */
HZ_INLINE unsigned hz_class_of(size_t size) {
    if (size <= HZ_LINEAR_MAX)
        return size == 0 ? 1 : (unsigned)((size + HZ_GRANULE_BYTES - 1) / HZ_GRANULE_BYTES);
    return hz_class_of_medium(size);
}

/* Block size of a class in 1..HZ_CLASS_COUNT-1. */
HZ_INLINE size_t hz_class_bytes(unsigned size_class) {
    hz_assert(size_class > HZ_CLASS_NONE && size_class < HZ_CLASS_COUNT);
    if (size_class <= HZ_LINEAR_CLASSES)
        return (size_t)size_class * HZ_GRANULE_BYTES;
    unsigned index = size_class - 1 - HZ_LINEAR_CLASSES;
    unsigned doubling = HZ_LINEAR_LOG2 + index / HZ_STEPS_PER_DOUBLING;
    size_t step = index % HZ_STEPS_PER_DOUBLING + 1;
    return ((size_t)1 << doubling) + (step << (doubling - HZ_STEPS_LOG2));
}

/* Mid: above HZ_SMALL_MAX, up to HZ_CLASS_BYTES_MAX. */
HZ_INLINE bool hz_class_is_mid(unsigned size_class) {
    return size_class >= HZ_MID_CLASS_FIRST;
}

/* The places of the class's blocks are multiples of this (base/arena/spread.h). 1: the blocks begin at their places. */
HZ_INLINE size_t hz_class_grid(unsigned size_class) {
    if (size_class < HZ_SPREAD_CLASS_FIRST)
        return 1;
    return hz_min(hz_class_step_of_medium(hz_class_bytes(size_class)), HZ_SPREAD_BYTES);
}

/* Smallest class that holds `size` bytes and whose block size is a multiple of `alignment`, a power of two up to 64 KiB
   (so that blocks carved from the start of a 64 KiB page are aligned). HZ_CLASS_NONE if there is no such class. */
unsigned hz_class_of_aligned(size_t size, size_t alignment);

#endif
