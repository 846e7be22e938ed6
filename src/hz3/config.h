/*
 * config.h - the lane that was chosen, checked. Constants only.
 */
#ifndef HZ3_CONFIG_H
#define HZ3_CONFIG_H

#include "base/compiler.h"
#include "base/sizeclass.h"

#ifndef HZ_LANE_HEADER
#define HZ_LANE_HEADER "lanes/scale.h"
#endif
#include HZ_LANE_HEADER

#define KNOB(name, smallest, largest, text)                                                                            \
    _Static_assert((name) >= (smallest) && (name) <= (largest), #name " must be in " #smallest ".." #largest ":"       \
                                                                      " " text);
#include "hz3/knobs.def"
#undef KNOB

_Static_assert(HZ3_BIN_COUNT_MIN <= HZ3_BIN_COUNT, "HZ3_BIN_COUNT_MIN: must not be above HZ3_BIN_COUNT");
_Static_assert(HZ3_BATCH_COUNT <= HZ3_BIN_COUNT / 2,
               "HZ3_BATCH_COUNT: two batches must fit into a bin, or it flushes what it has just got");

enum { HZ3_CLASS_COUNT = HZ_CLASS_COUNT };

/* Blocks of a class a bin can hold, and how many move at once. Pure. */
HZ_INLINE uint32_t hz3_bin_capacity(unsigned size_class) {
    size_t count = HZ3_BIN_BYTES / hz_class_bytes(size_class);
    return (uint32_t)hz_max(HZ3_BIN_COUNT_MIN, hz_min(count, HZ3_BIN_COUNT)) & ~1U; /* even: half of it is a batch */
}

HZ_INLINE uint32_t hz3_batch_count(unsigned size_class) {
    return (uint32_t)hz_min(hz3_bin_capacity(size_class) / 2, HZ3_BATCH_COUNT);
}

/* Blocks of the class go home to their shard when another thread frees them. */
HZ_INLINE bool hz3_class_is_home(unsigned size_class) {
    return (int)hz_class_bytes(size_class) < HZ3_HOME_BELOW_BYTES;
}

/* "engine=hz3 lane=... shards=... <knobs> compiler=... build=..." */
const char *hz3_config_string(void);

#endif
