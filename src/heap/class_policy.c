/*
 * class_policy.c - see class_policy.h. Filled by init.c.
 */
#include "heap/class_policy.h"

struct hz_class_shape hz_class_shapes[HZ_CLASS_COUNT];

void hz_class_shapes_init(void) {
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        uint32_t bytes = (uint32_t)hz_class_bytes(size_class);
        hz_class_shapes[size_class] = (struct hz_class_shape){
            .bytes = bytes,
            .depot_blocks = (uint32_t)hz_max(HZ_DEPOT_BYTES / bytes, hz_batch_count(size_class)),
            .capacity = (uint16_t)hz_bin_capacity(size_class),
            .first = (uint16_t)hz_bin_first(size_class),
            .start = (uint16_t)hz_bin_start(size_class),
            .batch = (uint16_t)hz_batch_count(size_class),
        };
    }
}
