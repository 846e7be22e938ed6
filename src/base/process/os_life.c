/*
 * os_life.c - see os_life.h.
 *
 * Edge "life": the waiter sets FUTEX_WAITERS in the mutex's word, as a thread that waits for the mutex does, and then
 * reads *word. The waker changes *word, and then clears the bit. If the waiter's change comes second, it sees the new
 * *word; if it comes first, the word of the mutex is no longer what the waiter sleeps on. And the mutex is made before
 * the life counts as watched.
 */
#define _GNU_SOURCE
#include "base/process/os_life.h"

#include "base/os/os.h"
#include "base/process/symbols.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>

/* The word that the kernel marks. */
static _Atomic(uint32_t) *robust_word(struct hz_life *life) {
#ifdef __GLIBC__
    return (_Atomic(uint32_t) *)(void *)&life->held.__data.__lock;
#else
    return (_Atomic(uint32_t) *)(void *)&life->held.__u.__i[1];
#endif
}

/* Acquire: the mutex of a life that is watched. */
static enum hz_life_phase phase_of(struct hz_life *life) {
    return (enum hz_life_phase)hz_load_acq(&life->phase); /* sync: life, partner hz_life_begin */
}

/* Tools replace these functions with their own, which may allocate. So the C library's own are called, as far as they
   can be found. */
static struct {
    int (*attributes_begin)(pthread_mutexattr_t *);
    int (*attributes_end)(pthread_mutexattr_t *);
    int (*make_robust)(pthread_mutexattr_t *, int);
    int (*make_shared)(pthread_mutexattr_t *, int);
    int (*begin)(pthread_mutex_t *, const pthread_mutexattr_t *);
    int (*lock)(pthread_mutex_t *);
    int (*try_lock)(pthread_mutex_t *);
    int (*unlock)(pthread_mutex_t *);
    int (*consistent)(pthread_mutex_t *);
} mutexes; /* sync: life; const once it is found */

enum { NOT_FOUND, IS_SOUGHT, IS_FOUND };

/* musl leaves the robust mutexes of one process to itself, and tells the kernel only of shared ones. */
enum { SHARED = PTHREAD_PROCESS_SHARED };

static _Atomic(uint32_t) mutexes_state; /* sync: life */

#define MUTEX_FUNCTIONS(FUNCTION)                                                                                      \
    FUNCTION(attributes_begin, pthread_mutexattr_init)                                                                 \
    FUNCTION(attributes_end, pthread_mutexattr_destroy)                                                                \
    FUNCTION(make_robust, pthread_mutexattr_setrobust)                                                                 \
    FUNCTION(make_shared, pthread_mutexattr_setpshared)                                                                \
    FUNCTION(begin, pthread_mutex_init)                                                                                \
    FUNCTION(lock, pthread_mutex_lock)                                                                                 \
    FUNCTION(try_lock, pthread_mutex_trylock)                                                                          \
    FUNCTION(unlock, pthread_mutex_unlock)                                                                             \
    FUNCTION(consistent, pthread_mutex_consistent)
#define MUTEX_NAME(member, name) #name,
#define MUTEX_SET(member, name)                                                                                        \
    mutexes.member = found[next] != 0 ? (__typeof__(mutexes.member))found[next] : (name);                              \
    next++;

void hz_life_load(void) {
    static const char *const names[] = {MUTEX_FUNCTIONS(MUTEX_NAME)};
    uintptr_t found[HZ_ARRAY_LENGTH(names)];
    uint32_t none = NOT_FOUND;
    size_t next = 0;
    if (!hz_cas_strong_acq_rlx(&mutexes_state, &none, IS_SOUGHT)) /* cas */
        return;
    hz_symbols_linked(names, found, HZ_ARRAY_LENGTH(names));
    MUTEX_FUNCTIONS(MUTEX_SET)
    hz_store_rel(&mutexes_state, IS_FOUND); /* sync: life, partner hz_life_begin */
}

static bool mutex_make(pthread_mutex_t *mutex) {
    pthread_mutexattr_t attributes;
    if (mutexes.attributes_begin(&attributes) != 0)
        return false;
    bool made = mutexes.make_robust(&attributes, PTHREAD_MUTEX_ROBUST) == 0 && mutexes.begin(mutex, &attributes) == 0;
    (void)mutexes.attributes_end(&attributes);
    return made;
}

/* musl tells the kernel of a thread's robust mutexes only when the thread first locks one, by calls that neither its
   malloc nor its threads make: a filter could end the process for them. */
static bool can_watch(void) {
#ifdef __GLIBC__
    return true;
#else
    return hz_os_is_unfiltered();
#endif
}

bool hz_life_begin(struct hz_life *life) {
    if (!can_watch())
        return true;
    memset(&life->held, 0, sizeof(life->held));             /* what a vanished thread has left is no mutex any more */
    bool begun = hz_load_acq(&mutexes_state) == IS_FOUND && /* sync: life, partner hz_life_load */
                 mutex_make(&life->held) && mutexes.lock(&life->held) == 0;
    /* sync: life, partner phase_of */
    hz_store_rel(&life->phase, begun ? HZ_LIFE_WATCHED : HZ_LIFE_UNKNOWN);
    return begun;
}

void hz_life_end(struct hz_life *life) {
    if (phase_of(life) != HZ_LIFE_WATCHED)
        return;
    hz_store_rlx(&life->phase, HZ_LIFE_UNKNOWN); /* relaxed: publishes nothing */
    (void)mutexes.unlock(&life->held);           /* fails in a child that has its parent's copy */
}

bool hz_life_is_watched(struct hz_life *life) {
    return phase_of(life) == HZ_LIFE_WATCHED;
}

bool hz_life_is_lost(struct hz_life *life) {
    enum hz_life_phase phase = phase_of(life);
    if (phase != HZ_LIFE_WATCHED)
        return phase == HZ_LIFE_LOST;
    int error = mutexes.try_lock(&life->held);
    if (error == EBUSY)
        return false;
    if (error == EOWNERDEAD)
        (void)mutexes.consistent(&life->held); /* cannot fail after EOWNERDEAD */
    if (error == EOWNERDEAD || error == 0)
        (void)mutexes.unlock(&life->held);    /* cannot fail: it is held */
    hz_store_rlx(&life->phase, HZ_LIFE_LOST); /* relaxed: publishes nothing */
    return true;
}

void hz_life_wait(struct hz_life *life, const _Atomic(uint32_t) *word, uint32_t expected) {
    if (phase_of(life) != HZ_LIFE_WATCHED) {
        hz_os_wait(word, expected);
        return;
    }
    _Atomic(uint32_t) *held = robust_word(life);
    uint32_t bits = FUTEX_WAITERS;
    uint32_t seen = hz_or_acq(held, bits) | bits; /* sync: life, partner hz_life_wake */
    /* relaxed: ordered by the edge */
    if ((seen & FUTEX_TID_MASK) != 0 && (seen & FUTEX_OWNER_DIED) == 0 && hz_load_rlx(word) == expected)
        hz_os_wait_shared(held, seen); /* the kernel's own wake is for shared memory */
}

/* The waiter may have come before the life began. */
void hz_life_wake(struct hz_life *life, const _Atomic(uint32_t) *word) {
    hz_os_wake(word, 1);
    if (phase_of(life) != HZ_LIFE_WATCHED)
        return;
    _Atomic(uint32_t) *held = robust_word(life);
    hz_and_rel(held, ~(uint32_t)FUTEX_WAITERS); /* sync: life, partner hz_life_wait */
    hz_os_wake_shared(held);
}
