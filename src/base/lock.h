/*
 * lock.h - a small futex lock that survives fork.
 *
 * All-zero is "free". Each lock has a rank; a thread takes locks in rising rank only (checked in the check build). The
 * lock remembers who holds it, so that the child of a fork can tell a lock held by the forking thread (keeps it) from
 * one held by a thread that does not exist there (hz_lock_abandoned, hz_lock_reset). Never held across user code or
 * stdio.
 */
#ifndef HZ_BASE_LOCK_H
#define HZ_BASE_LOCK_H

#include "base/atomic.h"
#include "base/compiler.h"

/* From outermost to innermost; only a leaf, which comes last, is 0: zeroed memory is a free leaf. */
enum hz_lock_rank {
    HZ_RANK_LEAF = 0, /* no other lock is taken while it is held */
    HZ_RANK_INIT,     /* first use of the library */
    HZ_RANK_OUTER,    /* the locks of the layer above */
    HZ_RANK_ARENA,    /* growth of the arena, direct mappings */
    HZ_RANK_META,     /* memory for the allocator's own structures */
};

struct hz_lock {
    _Atomic(uint32_t) word;   /* 0 free, 1 held, 2 held and somebody sleeps */
    _Atomic(uintptr_t) owner; /* hz_lock_self() of the holder; 0 when free or just being taken */
    enum hz_lock_rank rank;   /* const after publish */
};

#define HZ_LOCK_INIT(lock_rank)                                                                                        \
    { 0, 0, (lock_rank) }

/* A number for the calling thread, the same before and after fork; never 0. */
uintptr_t hz_lock_self(void);

void hz_lock_init(struct hz_lock *lock, enum hz_lock_rank rank);
void hz_lock_acquire(struct hz_lock *lock);
bool hz_lock_try_acquire(struct hz_lock *lock);
void hz_lock_release(struct hz_lock *lock);

/* True when the calling thread holds the lock. */
bool hz_lock_is_mine(struct hz_lock *lock);

/* In a fork's child, its only thread: true when the lock was held by a thread that is not here. */
bool hz_lock_abandoned(struct hz_lock *lock);

/* In a fork's child: makes an abandoned lock free. What it guards must be repaired first. */
void hz_lock_reset(struct hz_lock *lock);

#endif
