/*
 * thread.c - see thread.h. Called by the engines when threads come and go, never on a fast path.
 */
#include "base/thread.h"

#include "base/check.h"

#include <errno.h>
#include <pthread.h>

static _Atomic(struct hz_thread *) newest; /* sync: thread-publish */
static _Atomic(uint32_t) made_count;       /* counter */
static _Atomic(uint32_t) unused_count;     /* hint: blocks nobody has */
static _Atomic(uint32_t) orphan_count;     /* hint */
static _Atomic(uint32_t) hooks_state;      /* 0 none, 1 being installed, 2 installed; sync: hooks */
static pthread_key_t exit_key;             /* const after publish (hooks) */

struct hz_thread *hz_thread_first(void) {
    return hz_load_acq(&newest); /* sync: thread-publish, partner hz_thread_publish */
}

static struct hz_thread *claim_from(uint32_t state, _Atomic(uint32_t) *count) {
    if (hz_load_rlx(count) == 0) /* relaxed: hint, one block too many does no harm */
        return NULL;
    for (struct hz_thread *thread = hz_thread_first(); thread != NULL; thread = thread->next) {
        uint32_t expected = state;
        if (hz_load_rlx(&thread->state) != state) /* relaxed: hint */
            continue;
        if (hz_cas_strong_acq_rlx(&thread->state, &expected,
                                  HZ_THREAD_USED)) { /* sync: thread-claim, partner release */
            hz_sub_rlx(count, 1);                    /* relaxed: hint */
            return thread;
        }
    }
    return NULL;
}

struct hz_thread *hz_thread_claim_orphan(void) {
    return claim_from(HZ_THREAD_ORPHAN, &orphan_count);
}

struct hz_thread *hz_thread_claim(void) {
    struct hz_thread *thread = hz_thread_claim_orphan();
    return thread != NULL ? thread : claim_from(HZ_THREAD_FREE, &unused_count);
}

void hz_thread_publish(struct hz_thread *thread) {
    thread->number = hz_add_rlx(&made_count, 1);   /* relaxed: counter */
    hz_store_rlx(&thread->state, HZ_THREAD_USED);  /* published by the CAS */
    struct hz_thread *seen = hz_load_rlx(&newest); /* relaxed: cas */
    do {
        thread->next = seen;
    } while (!hz_cas_rel_rlx(&newest, &seen, thread)); /* sync: thread-publish, partner hz_thread_first */
}

void hz_thread_release(struct hz_thread *thread) {
    hz_store_rel(&thread->state, HZ_THREAD_FREE); /* sync: thread-claim, partner claim_from */
    hz_add_rlx(&unused_count, 1);                 /* relaxed: hint */
}

void hz_thread_after_fork(struct hz_thread *self) {
    uint32_t orphans = 0;
    uint32_t nobodys = 0;
    for (struct hz_thread *thread = hz_thread_first(); thread != NULL; thread = thread->next) {
        uint32_t state = hz_load_rlx(&thread->state); /* relaxed, all: one thread */
        if (thread != self && state == HZ_THREAD_USED)
            hz_store_rlx(&thread->state, HZ_THREAD_ORPHAN);
        orphans += thread != self && state != HZ_THREAD_FREE;
        nobodys += state == HZ_THREAD_FREE;
    }
    hz_store_rlx(&orphan_count, orphans);
    hz_store_rlx(&unused_count, nobodys);
}

void hz_thread_hooks_install(void (*on_exit)(void *), void (*after_fork)(void)) {
    uint32_t expected = 0;
    if (hz_load_acq(&hooks_state) != 0 || !hz_cas_strong_acq_rlx(&hooks_state, &expected, 1))
        return;
    int saved = errno;
    static bool fork_hooked; /* owner: who has brought hooks_state from 0 to 1 */
    if (!fork_hooked)
        fork_hooked = pthread_atfork(NULL, NULL, after_fork) == 0; /* no memory: tried again with the next thread */
    bool have_key = pthread_key_create(&exit_key, on_exit) == 0;
    errno = saved;
    hz_store_rel(&hooks_state, have_key ? 2 : 0); /* sync: hooks, partner hz_thread_exit_arm. Out of keys: as above */
}

bool hz_thread_exit_arm(void *value) {
    if (hz_load_acq(&hooks_state) != 2) /* sync: hooks, partner hz_thread_hooks_install */
        return false;
    int saved = errno;
    bool armed = pthread_setspecific(exit_key, value) == 0;
    errno = saved;
    return armed;
}
