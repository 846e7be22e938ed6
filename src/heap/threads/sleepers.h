/*
 * sleepers.h - threads that leave their bins alone: they are parked (threads/park.h), and their bins go home.
 */
#ifndef HZ_HEAP_THREADS_SLEEPERS_H
#define HZ_HEAP_THREADS_SLEEPERS_H

#include "heap/threads/thread_block.h"
#include "policy.h"

/* What the keeper finds of a thread, in rising order. */
enum hz_activity {
    HZ_LEFT_ALONE, /* parked, nothing to park, or in a slow path just now */
    HZ_WAITS,      /* has not used its bins lately, but not for long enough */
    HZ_WORKS,      /* has used its bins since the last look */
};

/* Reclaims what vanished threads left in a fork's child. If `can_park`, also parks threads that have not used their
   bins for HZ_SLEEPER_MS, and sends their blocks home. Adds to *bytes what the others keep. Returns the activity of the
   busiest thread. For the keeper. */
enum hz_activity hz_sleepers_park(struct hz_thread_block *self, bool can_park, uint64_t now_ms, size_t *bytes);

/* The same for every thread that is outside the heap, however long it has slept. Any thread. */
void hz_others_park(struct hz_thread_block *self, bool can_park);

/* Whether a thread has used its bins since the keeper looked. For the keeper. */
bool hz_sleepers_moved(struct hz_thread_block *self);

#endif
