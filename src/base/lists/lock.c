/*
 * lock.c - the futex lock of lock.h: one CAS takes it, one exchange releases it, and system calls happen only when
 * threads contend.
 *
 * Edge "lock": what the holder wrote before hz_lock_release is visible after the next hz_lock_acquire.
 */
#include "base/lists/lock.h"

#include "base/os/check.h"
#include "base/os/hooks.h"
#include "base/os/os.h"

enum { SPIN_COUNT = 64 }; /* a holder is done within some 100 ns unless it was preempted */
enum { WAIT_MS = 1000 };  /* after so long a wait the thread looks whether this is still its process */

static HZ_TLS struct hz_lock *held_locks[HZ_RANKS]; /* owner; the lock that the thread holds of each rank */

uintptr_t hz_lock_self(void) {
    /* the address of a thread-local variable is unique among living threads, and a fork keeps it */
    return (uintptr_t)&held_locks;
}

/* Whether the thread holds a lock of this rank or of an inner one; leaves are the innermost. */
static bool holds_from(enum hz_lock_rank rank) {
    bool found = held_locks[HZ_RANK_LEAF] != NULL;
    for (unsigned inner = rank; inner != HZ_RANK_LEAF && inner < HZ_RANKS; inner++)
        found |= held_locks[inner] != NULL;
    return found;
}

static void held_add(struct hz_lock *lock) {
    if (HZ_CONFIG_CHECKS)
        hz_assert(!holds_from(lock->rank));
    held_locks[lock->rank] = lock;
}

static void held_remove(const struct hz_lock *lock) {
    hz_assert(held_locks[lock->rank] == lock);
    held_locks[lock->rank] = NULL;
}

void hz_lock_init(struct hz_lock *lock, enum hz_lock_rank rank) {
    hz_store_rlx(&lock->word, 0); /* relaxed: not shared yet */
    hz_store_rlx(&lock->owner, 0);
    lock->rank = rank;
}

static bool try_once(struct hz_lock *lock) {
    uint32_t expected = 0;
    return hz_cas_strong_acq_rlx(&lock->word, &expected, 1); /* sync: lock, partner hz_lock_release */
}

static bool try_for_a_while(struct hz_lock *lock) {
    for (int i = 0; i < SPIN_COUNT; i++) {
        HZ_CPU_RELAX();
        if (hz_load_rlx(&lock->word) == 0 && try_once(lock)) /* relaxed: hint */
            return true;
    }
    return false;
}

static HZ_NOINLINE void acquire_slow(struct hz_lock *lock) {
    if (try_for_a_while(lock))
        return;
    /* sync: lock, partner hz_lock_release. Stores 2 even if no other thread sleeps, which costs one needless wake */
    while (hz_xchg_acq(&lock->word, 2) != 0) {
        /* A signal handler may interrupt this loop anywhere, and make a child by clone(2). In the child nobody else can
           release the lock, or wake the thread. */
        hz_hooks_before_wait();
        hz_os_wait_ms(&lock->word, 2, WAIT_MS);
    }
}

static void acquired(struct hz_lock *lock) {
    hz_store_rlx(&lock->owner, hz_lock_self()); /* relaxed: read by this thread, and by the only thread of a child */
    held_add(lock);
}

void hz_lock_acquire(struct hz_lock *lock) {
    if (HZ_UNLIKELY(!try_once(lock)))
        acquire_slow(lock);
    acquired(lock);
}

bool hz_lock_try_acquire(struct hz_lock *lock) {
    if (!try_once(lock))
        return false;
    acquired(lock);
    return true;
}

bool hz_lock_acquire_within(struct hz_lock *lock, uint32_t ms) {
    bool done = try_once(lock) || try_for_a_while(lock);
    for (uint64_t begin = hz_os_now_ms(), past = 0; !done && past < ms; past = hz_os_now_ms() - begin) {
        done = hz_xchg_acq(&lock->word, 2) == 0; /* sync: lock, as in acquire_slow */
        if (!done) {
            hz_hooks_before_wait();
            hz_os_wait_ms(&lock->word, 2, ms - (uint32_t)past);
        }
    }
    /* A release may have woken this thread, and no other, just as its time was over */
    done = done || hz_xchg_acq(&lock->word, 2) == 0; /* sync: lock, as in acquire_slow */
    if (done)
        acquired(lock);
    return done;
}

void hz_lock_release(struct hz_lock *lock) {
    held_remove(lock);
    hz_store_rlx(&lock->owner, 0);                     /* relaxed: as in hz_lock_acquire */
    if (HZ_UNLIKELY(hz_xchg_rel(&lock->word, 0) == 2)) /* sync: lock, partners try_once, acquire_slow */
        hz_os_wake(&lock->word, 1);
}

void hz_lock_release_all(void) {
    for (unsigned rank = 0; rank < HZ_RANKS; rank++)
        if (held_locks[rank] != NULL)
            hz_lock_release(held_locks[rank]);
}

bool hz_lock_is_mine(struct hz_lock *lock) {
    return hz_load_rlx(&lock->owner) == hz_lock_self(); /* relaxed: only this thread can write its own number */
}

bool hz_lock_abandoned(struct hz_lock *lock) {
    return hz_load_rlx(&lock->word) != 0 && !hz_lock_is_mine(lock); /* relaxed: one thread */
}

void hz_lock_reset(struct hz_lock *lock) {
    hz_store_rlx(&lock->owner, 0); /* relaxed: one thread */
    hz_store_rlx(&lock->word, 0);
}

void hz_lock_settle(struct hz_lock *lock) {
    if (hz_lock_abandoned(lock))
        hz_lock_reset(lock);
}
