/*
 * os_life.h - whether a thread still lives, as the kernel says.
 *
 * A thread that ends by the system call itself runs no destructor and no hook of ours. So it holds a robust mutex
 * (pthread_mutexattr_setrobust(3)) as long as it lives: however a thread ends, the kernel then marks the robust mutexes
 * that it holds, and wakes a thread that waits for one. The mutex lies in memory of ours, so nothing of the other
 * thread is touched to find out. The kernel reads the list of mutexes from the thread's own memory. So a thread counts
 * as alive for ever if that memory was unmapped before it ended, or if clone(2) has made it without the C library.
 */
#ifndef HZ_BASE_PROCESS_OS_LIFE_H
#define HZ_BASE_PROCESS_OS_LIFE_H

#include "base/os/atomic.h"
#include "base/os/compiler.h"

#include <pthread.h>

/* Zeroed memory is a life that has not begun. Calls for the same life must not overlap, except that hz_life_wait and
   hz_life_wake may overlap with each other and with the thread's end. */
struct hz_life {
    pthread_mutex_t held;    /* by the thread */
    _Atomic(uint32_t) phase; /* sync: life; enum hz_life_phase */
};

enum hz_life_phase { HZ_LIFE_UNKNOWN, HZ_LIFE_WATCHED, HZ_LIFE_LOST };

/* Before all other calls: finds what they need, once. Until it has returned no life begins. Any thread. */
void hz_life_load(void);

/* The calling thread's life begins, or has ended in an orderly way. Begin: false if the C library refuses. With musl,
   in a process that may be filtered, nothing is watched, and true is returned. */
bool hz_life_begin(struct hz_life *life);
void hz_life_end(struct hz_life *life);

/* Whether the life has begun, and has not ended or been lost. Any thread. */
bool hz_life_is_watched(struct hz_life *life);

/* Whether the thread has ended without hz_life_end. Any other thread. No system call. */
bool hz_life_is_lost(struct hz_life *life);

/* Sleeps while *word == expected, and can return early. Returns when the thread ends, however it does. Of use to one
   thread at a time. */
void hz_life_wait(struct hz_life *life, const _Atomic(uint32_t) *word, uint32_t expected);

/* Ends that sleep. The caller has changed *word before. */
void hz_life_wake(struct hz_life *life, const _Atomic(uint32_t) *word);

#endif
