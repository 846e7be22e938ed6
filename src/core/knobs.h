/*
 * knobs.h - the lane this library is built with, checked, and what follows from it. Constants and pure functions only.
 */
#ifndef HZ_CORE_KNOBS_H
#define HZ_CORE_KNOBS_H

#include "base/compiler.h"
#include "base/sizeclass.h"
#include "engine_config.h"

#define KNOB(name, smallest, largest, text)                                                                            \
    _Static_assert((name) >= (smallest) && (name) <= (largest), #name " must be in " #smallest ".." #largest ":"       \
                                                                      " " text);
#include "core/knobs.def"
#include "engine_knobs.def"
#undef KNOB

_Static_assert(HZ_BIN_COUNT_MIN <= HZ_BIN_COUNT, "HZ_BIN_COUNT_MIN: must not be above HZ_BIN_COUNT");
_Static_assert(HZ_BATCH_COUNT <= HZ_BIN_COUNT / 2,
               "HZ_BATCH_COUNT: two batches must fit into a bin, or it flushes what it has just got");

_Static_assert(
    !HZ_SHARD_COLLISION_FAILFAST || HZ_SHARDS_PER_CPU == 0,
    "HZ_SHARD_COLLISION_FAILFAST=1: needs HZ_SHARDS_PER_CPU=0, else how many threads are too many depends on "
    "the machine");

_Static_assert(
    HZ_EXCLUSIVE_ALWAYS || HZ_SHARD_COLLISION_FAILFAST,
    "HZ_EXCLUSIVE_ALWAYS=0: needs HZ_SHARD_COLLISION_FAILFAST=1, else two threads of a shard would take what "
    "was sent at once and overwrite what the other left, be transfer and central lock-free or not");

/* Mid: above 2 KiB, to 64 KiB. */
enum {
    HZ_MID_ABOVE_LOG2 = 11,
    HZ_MID_CLASS_FIRST = 1 + HZ_LINEAR_CLASSES + (HZ_MID_ABOVE_LOG2 - HZ_LINEAR_LOG2) * HZ_STEPS_PER_DOUBLING,
};

_Static_assert(1 << HZ_MID_ABOVE_LOG2 == HZ_SMALL_MAX && HZ_LINEAR_MAX <= HZ_SMALL_MAX,
               "what malloc finds in the table is small, the rest mid");

/* Blocks of a class a bin can hold at most, how many it may hold at first, and how many move at once at most. Pure. */
HZ_INLINE uint32_t hz_bin_capacity(unsigned size_class) {
    size_t bytes = hz_class_bytes(size_class);
    size_t count = hz_min(HZ_BIN_BYTES / bytes, HZ_BIN_COUNT);
    size_t least = hz_min(HZ_BIN_COUNT_MIN, HZ_BIN_BYTES_MAX / bytes);
    return (uint32_t)hz_max(count, least) & ~1U; /* even: half of it is a batch */
}

HZ_INLINE uint32_t hz_bin_start(unsigned size_class) {
    size_t count = hz_max(HZ_BIN_START_BYTES / hz_class_bytes(size_class), HZ_BIN_COUNT_MIN);
    return (uint32_t)hz_min(count, hz_bin_capacity(size_class)) & ~1U;
}

HZ_INLINE uint32_t hz_batch_count(unsigned size_class) {
    return (uint32_t)hz_min(hz_bin_capacity(size_class) / 2, HZ_BATCH_COUNT);
}

HZ_INLINE bool hz_class_is_mid(unsigned size_class) {
    return size_class >= HZ_MID_CLASS_FIRST;
}

enum { HZ_HAS_HOME = HZ_HOME_BELOW_BYTES > HZ_GRANULE_BYTES };

/* Blocks of the class go home to their shard when another thread frees them; others are adopted by that thread. */
HZ_INLINE bool hz_class_is_home(unsigned size_class) {
    return (int)hz_class_bytes(size_class) < HZ_HOME_BELOW_BYTES;
}

/* What a bin of the class has too much of rests in the depot, for any thread. */
HZ_INLINE bool hz_class_is_shared(unsigned size_class) {
    return (int)hz_class_bytes(size_class) >= HZ_DEPOT_FROM_BYTES && !hz_class_is_home(size_class);
}

#endif
