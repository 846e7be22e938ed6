/*
 * sleepers.h - threads that leave their bins alone: they are parked (threads/park.h), and their bins go home.
 */
#ifndef HZ_HEAP_THREADS_SLEEPERS_H
#define HZ_HEAP_THREADS_SLEEPERS_H

#include "heap/threads/thread_block.h"

/* How long a thread must leave its bins unused: a shorter pause may be a wait for a CPU. */
enum { HZ_SLEEPER_MS = 1000 };

enum hz_activity { HZ_PARKED, HZ_WAITS, HZ_WORKS };

/* Sends home what vanished threads left in a fork's child, and, if `can_park`, what the bins of threads have that did
   not use them for `wait_ms`; 0: of all threads that are outside the heap. Adds to *bytes what the others keep. Returns
   the activity of the busiest thread. Only the keeper may give another `wait_ms` than 0. */
enum hz_activity hz_sleepers_park(struct hz_thread_block *self, bool can_park, uint64_t now_ms, uint64_t wait_ms,
                                  size_t *bytes);

/* Whether a thread has used its bins since the keeper looked. For the keeper. */
bool hz_sleepers_moved(struct hz_thread_block *self);

#endif
