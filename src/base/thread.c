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
static _Atomic(uint64_t) exit_key;         /* sync: hooks; the key for the ends of threads and 1, or 0 */
static _Atomic(bool) fork_hooked;          /* hint: somebody has hooked fork */
static HZ_TLS bool installing;             /* owner */

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

/* Several threads may be here at once: each leaves with a key to arm, and with fork hooked. None waits for another, or
   relies on what it has only begun: a fork may have made it vanish from this process. So fork may be hooked twice. That
   does no harm, unless a handler of the program that is called in between starts a thread. `installing`: these calls
   may allocate, and come here again. */
void hz_thread_hooks_install(void (*on_exit)(void *), void (*after_fork)(void)) {
    if (installing || (hz_load_acq(&exit_key) != 0 && hz_load_rlx(&fork_hooked))) /* sync: hooks. relaxed: hint */
        return;
    installing = true;
    int saved = errno;
    pthread_key_t key;
    uint64_t none = 0;
    if (hz_load_rlx(&exit_key) == 0 && pthread_key_create(&key, on_exit) == 0 && /* relaxed: hint */
        !hz_cas_strong_ar_acq(&exit_key, &none, (uint64_t)key + 1))              /* sync: hooks, partner arm */
        pthread_key_delete(key);
    /* without memory: tried again with the next thread; out of keys too */
    if (!hz_load_rlx(&fork_hooked) && pthread_atfork(NULL, NULL, after_fork) == 0) /* relaxed, both: hint */
        hz_store_rlx(&fork_hooked, true);
    errno = saved;
    installing = false;
}

bool hz_thread_exit_arm(void *value) {
    uint64_t key = hz_load_acq(&exit_key); /* sync: hooks, partner hz_thread_hooks_install */
    if (key == 0)
        return false;
    int saved = errno;
    bool armed = pthread_setspecific((pthread_key_t)(key - 1), value) == 0;
    errno = saved;
    return armed;
}
