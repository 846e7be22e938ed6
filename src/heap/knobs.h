/*
 * knobs.h - the knobs as constants, each in its range. Includes the lane that the library is built with.
 *
 * A knob's value is its variant's (-DVARIANT_HZ_NAME=HZ_SET(8), see tools/variant.py), else its lane's
 * (`#define LANE_HZ_NAME HZ_SET(8)`), else its default in knobs.def. Constants only.
 */
#ifndef HZ_HEAP_KNOBS_H
#define HZ_HEAP_KNOBS_H

#include "engine_config.h"

/* HZ_PICK(setting, otherwise) is 8 if `setting` is a macro defined as HZ_SET(8). An undefined `setting` is one plain
   word, so `otherwise` stays the second argument and is picked. */
#define HZ_SET(value)                      ~, value,
#define HZ_SECOND_(first, second, ...)     second
#define HZ_SECOND(...)                     HZ_SECOND_(__VA_ARGS__)
#define HZ_PICK(setting, otherwise)        HZ_SECOND(setting otherwise, otherwise, ~)
#define HZ_KNOB_VALUE(name, default_value) HZ_PICK(VARIANT_##name, HZ_PICK(LANE_##name, default_value))

#define KNOB(name, smallest, largest, default_value, unit, text) name = HZ_KNOB_VALUE(name, default_value),
enum {
#include "engine_knobs.def"
#include "heap/knobs.def"
};
#undef KNOB

#define KNOB(name, smallest, largest, default_value, unit, text)                                                       \
    _Static_assert((name) >= (smallest) && (name) <= (largest), #name " must be in " #smallest ".." #largest ":"       \
                                                                      " " text);
#include "engine_knobs.def"
#include "heap/knobs.def"
#undef KNOB

_Static_assert((int)HZ_BIN_COUNT_MIN <= (int)HZ_BIN_COUNT, "HZ_BIN_COUNT_MIN: must not be above HZ_BIN_COUNT");
_Static_assert(HZ_BATCH_COUNT <= HZ_BIN_COUNT / 2,
               "HZ_BATCH_COUNT: two batches must fit into a bin, or it flushes the batch that has just filled it");

_Static_assert(!HZ_SHARD_COLLISION_FAILFAST || HZ_SHARDS_PER_CPU == 0,
               "HZ_SHARD_COLLISION_FAILFAST=1: needs HZ_SHARDS_PER_CPU=0, or the machine decides how many threads are "
               "too many");

_Static_assert(HZ_EXCLUSIVE_ALWAYS == 1 || HZ_SHARD_COLLISION_FAILFAST == 1,
               "HZ_EXCLUSIVE_ALWAYS=0: needs HZ_SHARD_COLLISION_FAILFAST=1, or two threads of a shard could take what "
               "was sent and overwrite the leftovers of the other, whether transfer and central are lock-free or not");

#endif
