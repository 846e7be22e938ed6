/*
 * live.h - the watch over live blocks in the check build and with HZ_LIST_FAILFAST=1, for every way in and out of the
 * family. In builds with statistics it also counts the blocks that cross threads (heap/report/flow.h).
 */
#ifndef HZ_FRONT_LIVE_H
#define HZ_FRONT_LIVE_H

#include "base/os/compiler.h"
#include "base/profile/profile.h"
#include "base/watch/flowmap.h"
#include "base/watch/guard_pool.h"
#include "base/watch/livemap.h"
#include "heap/knobs.h"

enum { HZ_LIVE_WATCHED = HZ_CONFIG_CHECKS == 1 || HZ_LIST_FAILFAST == 1 };

/* Ends the program unless `block` is live or NULL. Afterwards the block is not live any more. Only where
   live blocks are watched. */
void hz_live_remove(const void *block);

/* Notes a block that is handed out, where live blocks are watched or counted. NULL is allowed. Returns the block. */
HZ_INLINE void *hz_live_add(void *block) {
    if ((HZ_LIVE_WATCHED || HZ_CONFIG_STATS) && block != NULL && !hz_guard_has(block) &&
        !hz_profile_has(block)) { /* the pools know their own blocks */
        if (HZ_LIVE_WATCHED)
            hz_livemap_add(block);
        if (HZ_CONFIG_STATS)
            hz_flowmap_add(block);
    }
    return block;
}

#endif
