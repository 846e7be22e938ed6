/*
 * takers.h - who takes what was sent to a shard, where each thread must have a shard of its own
 * (HZ_SHARD_COLLISION_FAILFAST=1): any thread under the shard's lock, and, with HZ_EXCLUSIVE_ALWAYS=0, the shard's
 * thread without it.
 *
 * With HZ_EXCLUSIVE_ALWAYS=0 a purge or an adopting thread may take at the same time as the shard's thread. An exchange
 * takes each list, so each list has one taker. Only the shard's own thread puts leftovers back, so none are
 * overwritten (lists/sent.c). Pages still need the lock. Edge "carry-publish": a purge that takes leftovers sees their
 * links.
 */
#ifndef HZ_WAYS_ALONE_TAKERS_H
#define HZ_WAYS_ALONE_TAKERS_H

#include "base/os/compiler.h"
#include "heap/knobs.h"

#define HZ_TEXT_SHARDS "more threads than shards; shards there are:"

_Static_assert(HZ_SHARD_COLLISION_FAILFAST, "the build compiled ways/alone, but HZ_SHARD_COLLISION_FAILFAST is 0");

enum { HZ_TAKES_UNLOCKED = !HZ_EXCLUSIVE_ALWAYS };

/* Ends the program if every shard exists, so that no further one can be made. Otherwise there was no memory for it. */
bool hz_takers_may_share(bool all_made);

#endif
