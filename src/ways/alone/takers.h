/*
 * takers.h - who takes what was sent to a shard, where each thread must have a shard of its own
 * (HZ_SHARD_COLLISION_FAILFAST=1): any thread under the shard's lock, and, with HZ_EXCLUSIVE_ALWAYS=0, the shard's
 * thread without it.
 *
 * With HZ_EXCLUSIVE_ALWAYS=0 a purge or an adopting thread may take at the same time as the shard's thread. An exchange
 * takes each list, so each list has one taker. Only the shard's own thread puts leftovers back, so none are
 * overwritten. Pages still need the lock. Edge "carry-publish": a purge that takes leftovers sees their links.
 */
#ifndef HZ_WAYS_ALONE_TAKERS_H
#define HZ_WAYS_ALONE_TAKERS_H

#include "base/lists/list.h"
#include "base/os/atomic.h"
#include "heap/knobs.h"

#define HZ_TEXT_SHARDS "more threads than shards; shards there are:"

_Static_assert(HZ_SHARD_COLLISION_FAILFAST, "the build compiled ways/alone, but HZ_SHARD_COLLISION_FAILFAST is 0");

enum { HZ_TAKES_UNLOCKED = !HZ_EXCLUSIVE_ALWAYS };

/* Ends the program if every shard exists, so that no further one can be made. Otherwise there was no memory for it. */
bool hz_takers_may_share(bool all_made);

/* If takers always hold the lock, the leftovers stay in the carry until hz_carry_keep, so a fork's copy never lacks
   them. Otherwise an exchange takes them. */
HZ_INLINE hz_list_word hz_carry_take(_Atomic(hz_list_word) *carry) {
    hz_list_word word = hz_load_rlx(carry); /* relaxed: lock; without the lock, a hint */
    if (HZ_TAKES_UNLOCKED && word != 0)
        word = hz_xchg_acq(carry, 0); /* sync: carry-publish, partner hz_carry_keep */
    return word;
}

HZ_INLINE void hz_carry_keep(_Atomic(hz_list_word) *carry, hz_list_word word) {
    hz_store_rel(carry, word); /* sync: carry-publish, partner hz_carry_take */
}

/* A drain has taken the leftovers, under the lock. If the shard's thread takes without it, hz_carry_take has cleared
   the carry already, and the thread may have put other leftovers there since. */
HZ_INLINE void hz_carry_clear_locked(_Atomic(hz_list_word) *carry) {
    if (!HZ_TAKES_UNLOCKED)
        hz_store_rlx(carry, 0); /* relaxed: lock */
    hz_signal_fence();
}

#endif
