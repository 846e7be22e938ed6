/*
 * lock.h - a small futex lock that survives fork.
 *
 * Zeroed memory is a free lock. Each lock has a rank, and a thread takes locks in strictly rising rank only (the check
 * build checks that). A lock remembers its holder. In the child of a fork the forking thread keeps the locks that it
 * holds; a lock whose holder does not exist there can be told apart (hz_lock_abandoned) and reset. No lock is held
 * across user code or stdio.
 */
#ifndef HZ_BASE_LISTS_LOCK_H
#define HZ_BASE_LISTS_LOCK_H

#include "base/os/atomic.h"
#include "base/os/compiler.h"

/* From outermost to innermost, except that a leaf, the innermost, is 0: zeroed memory is a free leaf. */
enum hz_lock_rank {
    HZ_RANK_LEAF = 0, /* its holder takes no other lock */
    HZ_RANK_INIT,     /* first use of the library */
    HZ_RANK_LOOK,     /* held by the one thread that looks at all zones */
    HZ_RANK_OUTER,    /* the locks of the layer above */
    HZ_RANK_ARENA,    /* growth of the arena, direct mappings */
    HZ_RANK_META,     /* memory for the allocator's own structures */
    HZ_RANKS,
};

struct hz_lock {
    _Atomic(uint32_t) word;   /* sync: lock; 0 free, 1 held, 2 held and a thread may sleep */
    _Atomic(uintptr_t) owner; /* owner; hz_lock_self() of the holder, 0 when free, or just being taken or released */
    enum hz_lock_rank rank;   /* const after publish */
};

#define HZ_LOCK_INIT(lock_rank)                                                                                        \
    { 0, 0, (lock_rank) }

/* A number that only the calling thread has, the same before and after fork. Never 0. */
uintptr_t hz_lock_self(void);

void hz_lock_init(struct hz_lock *lock, enum hz_lock_rank rank);
void hz_lock_acquire(struct hz_lock *lock);
bool hz_lock_try_acquire(struct hz_lock *lock);

/* Waits for the lock for about `ms` at most. False when another thread still has it. */
bool hz_lock_acquire_within(struct hz_lock *lock, uint32_t ms);

void hz_lock_release(struct hz_lock *lock);

/* Releases every lock that the calling thread holds. For a thread that is about to abort: a handler of SIGABRT may
   allocate. The fields that the locks guard may be half changed. */
void hz_lock_release_all(void);

/* Whether the calling thread holds the lock. */
bool hz_lock_is_mine(struct hz_lock *lock);

/* In a fork's child, by its only thread: whether the lock is held by a thread that does not exist here. */
bool hz_lock_abandoned(struct hz_lock *lock);

/* In a fork's child: frees an abandoned lock. The caller has repaired what the lock guards. */
void hz_lock_reset(struct hz_lock *lock);

/* In a fork's child: frees the lock if it is abandoned. For locks whose fields are sound after each step. */
void hz_lock_settle(struct hz_lock *lock);

#endif
