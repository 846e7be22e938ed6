/*
 * live.h - the check build's watch over live blocks, for every way in and out of the family.
 */
#ifndef HZ_FRONT_LIVE_H
#define HZ_FRONT_LIVE_H

#include "base/compiler.h"
#include "base/guard_pool.h"
#include "base/livemap.h"

/* Ends the program unless `block` is live or NULL. Afterwards the block is not live any more. Check build only. */
void hz_live_remove(const void *block);

/* In the check build marks a block that is handed out. NULL is allowed. Returns the block. */
HZ_INLINE void *hz_live_add(void *block) {
    if (HZ_CONFIG_CHECKS && block != NULL && !hz_guard_has(block)) /* the pool knows its own blocks */
        hz_livemap_add(block);
    return block;
}

#endif
