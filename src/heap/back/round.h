/*
 * round.h - what the keeper does in one round: it lets go what rests, step by step.
 */
#ifndef HZ_HEAP_BACK_ROUND_H
#define HZ_HEAP_BACK_ROUND_H

#include "heap/threads/thread_block.h"

/* What a round has found. */
struct hz_round {
    bool has_changed;  /* something has changed, or waits for the next round: the keeper must not sleep */
    size_t rest_bytes; /* in the depot, in bins of threads that are not parked, and in the arena */
};

/* A round at the time `now_ms`. `can_park`: hz_os_barrier works. Only keeper.c calls this. Not inlined, since
   `hakobench counts` takes its calls for the number of rounds. */
HZ_NOINLINE struct hz_round hz_round_do(struct hz_thread_block *self, uint64_t now_ms, bool can_park);

/* Before the keeper sleeps: gives back memory that the kernel has filled again since it went back. Only keeper.c
   calls this. */
void hz_round_end(struct hz_thread_block *self);

/* Whether a thread has used its bins since the last round. Only keeper.c calls this. */
bool hz_round_is_outdated(struct hz_thread_block *self);

#endif
