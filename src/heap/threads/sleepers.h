/*
 * sleepers.h - threads that leave their bins alone: they are parked (threads/park.h), and their bins go home.
 */
#ifndef HZ_HEAP_THREADS_SLEEPERS_H
#define HZ_HEAP_THREADS_SLEEPERS_H

#include "heap/threads/thread_block.h"

/* How long a thread must leave its bins unused: a shorter pause may be a wait for a CPU. */
enum { HZ_SLEEPER_MS = 1000 };

/* What the keeper finds of a thread, in rising order. */
enum hz_activity {
    HZ_PARKED, /* parked, or nothing to park */
    HZ_WAITS,  /* has not used its bins lately, but not for long enough */
    HZ_WORKS,  /* has used its bins since the last look */
};

/* Reclaims what vanished threads left in a fork's child. If `can_park`, also parks threads that have not used their
   bins for `wait_ms`, and sends their blocks home; with 0, every thread that is outside the heap. Unless `wait_ms`
   is 0, adds to *bytes what the other threads keep, and returns the activity of the busiest one. Only the keeper may
   pass another `wait_ms` than 0. */
enum hz_activity hz_sleepers_park(struct hz_thread_block *self, bool can_park, uint64_t now_ms, uint64_t wait_ms,
                                  size_t *bytes);

/* Whether a thread has used its bins since the keeper looked. For the keeper. */
bool hz_sleepers_moved(struct hz_thread_block *self);

#endif
