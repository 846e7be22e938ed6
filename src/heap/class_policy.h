/*
 * class_policy.h - what the knobs mean for a size class: how many blocks its bins hold, how many move in one step, and
 * where its blocks go. Pure functions; any thread. They divide, so slow paths of attached threads read the answers from
 * a table.
 */
#ifndef HZ_HEAP_CLASS_POLICY_H
#define HZ_HEAP_CLASS_POLICY_H

#include "base/watch/guard_pool.h"
#include "heap/knobs.h"
#include "heap/sizeclass.h"
#include "policy.h"

/* Most blocks of the class that a bin can hold. */
HZ_INLINE uint32_t hz_bin_capacity(unsigned size_class) {
    size_t bytes = hz_class_bytes(size_class);
    size_t count = hz_min(HZ_BIN_BYTES / bytes, HZ_BIN_COUNT);
    size_t least = hz_max(hz_min(HZ_BIN_COUNT_MIN, HZ_BIN_BYTES_MAX / bytes), 2);
    return (uint32_t)hz_max(count, least) & ~1U; /* even, since half a bin is a batch */
}

enum {
    HZ_BIN_NEW_COUNT = 1, /* room of a new bin: the program gets the only block, so its free is inspected */
    /* From this class on, above 4 KiB, a bin pays for the room of each block, so it may have none. In lane percpu only
       bins of long blocks do: the bins of a CPU have their first room for nothing. */
    HZ_PAYS_CLASS_FIRST = HZ_CPU_BYTES > 0
                              ? HZ_LONG_CLASS_FIRST
                              : 1 + HZ_LINEAR_CLASSES + (HZ_BIN_PAYS_LOG2 - HZ_LINEAR_LOG2) * HZ_STEPS_PER_DOUBLING,
};

/* Whether the class's blocks are so large that the room for them has a limit of its own. */
HZ_INLINE bool hz_class_is_long(unsigned size_class) {
    return size_class >= HZ_LONG_CLASS_FIRST;
}

/* Whether a bin pays for the room of each block. Without room in its bin a long block goes home, and any other one
   to the depot. */
HZ_INLINE bool hz_class_pays(unsigned size_class) {
    return size_class >= HZ_PAYS_CLASS_FIRST;
}

/* Whether a block of the class is exactly a run of pages. Without room in its bin a large block does as well. */
HZ_INLINE bool hz_class_is_run(unsigned size_class) {
    return size_class >= HZ_RUN_CLASS_FIRST;
}

/* Room, in blocks, that a bin never has to give up. */
HZ_INLINE uint32_t hz_bin_first(unsigned size_class) {
    if (hz_class_pays(size_class))
        return 0;
    bool is_large = hz_class_bytes(size_class) >= HZ_BIN_FIRST_LARGE_BYTES;
    return (uint32_t)hz_min(is_large ? HZ_BIN_FIRST_COUNT_LARGE : HZ_BIN_FIRST_COUNT, hz_bin_capacity(size_class));
}

/* Room, in blocks, of a new bin. */
HZ_INLINE uint32_t hz_bin_new(unsigned size_class) {
    return hz_class_pays(size_class) ? 0 : HZ_BIN_NEW_COUNT;
}

/* Room, in blocks, that each visit may double a bin's room up to; beyond it only while the thread's bins have little
   room (room.c). */
HZ_INLINE uint32_t hz_bin_start(unsigned size_class) {
    size_t count = hz_max(HZ_BIN_START_BYTES / hz_class_bytes(size_class), HZ_BIN_COUNT_MIN);
    return (uint32_t)hz_min(count, hz_bin_capacity(size_class)) & ~1U;
}

/* Most blocks of the class that move in one step. */
HZ_INLINE uint32_t hz_batch_count(unsigned size_class) {
    return hz_class_is_long(size_class) ? 1 : (uint32_t)hz_min(hz_bin_capacity(size_class) / 2, HZ_BATCH_COUNT);
}

/* What a slow path asks about a class. */
struct hz_class_shape {
    uint32_t bytes;        /* hz_class_bytes */
    uint32_t depot_blocks; /* HZ_DEPOT_BYTES in blocks, but at least a batch: else no class could start to pass */
    uint16_t capacity;     /* hz_bin_capacity */
    uint16_t first;        /* hz_bin_first */
    uint16_t start;        /* hz_bin_start */
    uint16_t batch;        /* hz_batch_count */
};

/* const after hz_class_shapes_init, which can be repeated; zeros before */
extern HZ_HIDDEN struct hz_class_shape hz_class_shapes[HZ_CLASS_COUNT];
void hz_class_shapes_init(void);

enum {
    HZ_HAS_HOME = (int)HZ_HOME_BELOW_BYTES > (int)HZ_GRANULE_BYTES,
    HZ_HAS_MID_HOME = (int)HZ_HOME_BELOW_BYTES > (int)HZ_SMALL_MAX + 1,
};

/* Whether blocks of the class go home when a thread of another shard frees them. Otherwise that thread adopts them. */
HZ_INLINE bool hz_class_is_home(unsigned size_class) {
    return HZ_HAS_HOME && (int)hz_class_bytes(size_class) < HZ_HOME_BELOW_BYTES;
}

/* The number of home classes, which are the smallest ones. */
HZ_INLINE unsigned hz_home_classes(void) {
    if ((int)HZ_HOME_BELOW_BYTES > (int)HZ_CLASS_BYTES_MAX)
        return HZ_CLASS_COUNT - 1;
    return hz_class_of(HZ_HOME_BELOW_BYTES) - 1;
}

/* Whether a full bin's surplus goes to the depot. There it is for any thread, or, if the class is a home class, for
   threads of the shard. */
enum { HZ_HAS_DEPOT = HZ_DEPOT_BYTES > 0 };

#endif
