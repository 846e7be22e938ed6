/*
 * front.h - malloc and free over the heap: the two members of the family that must be short. In the check build, and
 * with HZ_LIST_FAILFAST=1, every block passes the live map; in the guard build it passes the fences. Builds with
 * statistics count the blocks that cross threads.
 */
#ifndef HZ_FRONT_FRONT_H
#define HZ_FRONT_FRONT_H

#include "front/fence.h"
#include "front/live.h"
#include "heap/heap.h"
#include "heap/misuse.h"
#include "heap/report/flow.h"

HZ_INLINE void *hz_front_malloc(size_t size) {
    if (HZ_CONFIG_FENCES)
        return hz_fence_alloc(1, size);
    return hz_live_add(hz_heap_malloc(size));
}

HZ_INLINE void hz_front_free(void *block) {
    if (HZ_CONFIG_FENCES) {
        hz_fence_free(block, HZ_IN_FREE);
        return;
    }
    if (HZ_LIVE_WATCHED)
        hz_live_remove(block);
    if (HZ_CONFIG_STATS)
        hz_flow_count_free(block);
    hz_heap_free(block);
}

#endif
