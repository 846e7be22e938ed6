/*
 * takers.h - who takes what was sent to a shard, where threads may share a shard: any thread, under the shard's lock.
 * In a fork's child the leftovers are a sound list, with all their blocks.
 */
#ifndef HZ_WAYS_SHARED_TAKERS_H
#define HZ_WAYS_SHARED_TAKERS_H

#include "base/os/compiler.h"
#include "heap/knobs.h"

_Static_assert(!HZ_SHARD_COLLISION_FAILFAST, "the build compiled ways/shared, but HZ_SHARD_COLLISION_FAILFAST is 1");

/* Whether a shard's only thread takes what was sent to it without the lock. */
enum { HZ_TAKES_UNLOCKED = 0 };

/* Whether a thread for which no unused shard was found may share one. `all_made`: every shard exists. */
HZ_INLINE bool hz_takers_may_share(bool all_made) {
    (void)all_made;
    return true;
}

#endif
