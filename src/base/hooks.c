/*
 * hooks.c - a key with a destructor for the ends of threads, pthread_atfork for forks. See hooks.h.
 */
#include "base/hooks.h"

#include "base/atomic.h"

#include <errno.h>
#include <pthread.h>

static _Atomic(uint64_t) exit_key; /* sync: hooks; the key for the ends of threads, plus 1; 0 until there is one */
static _Atomic(bool) fork_hooked;  /* hint: some thread has hooked fork */
static HZ_TLS bool installing;     /* owner */

/* Several threads can be here at the same time. Each returns with a key to arm, and with fork hooked. No thread waits
   for another, or relies on what another has only begun, because a fork may have left that thread out of this process.
   So fork can get hooked twice. That does no harm, unless a handler of the program, called between the two, starts a
   thread. The calls can allocate, and so lead here again; `installing` stops the recursion. */
void hz_hooks_install(void (*on_exit)(void *), void (*after_fork)(void)) {
    /* sync: hooks, partner the CAS below. relaxed: hint */
    if (installing || (hz_load_acq(&exit_key) != 0 && hz_load_rlx(&fork_hooked)))
        return;
    installing = true;
    int saved = errno;
    pthread_key_t key;
    uint64_t none = 0;
    /* relaxed: hint. sync: hooks, partner hz_hooks_arm_exit. The thread that loses the race deletes its key */
    if (hz_load_rlx(&exit_key) == 0 && pthread_key_create(&key, on_exit) == 0 &&
        !hz_cas_strong_ar_acq(&exit_key, &none, (uint64_t)key + 1))
        pthread_key_delete(key);
    /* when there is no memory, or no key left, the next thread tries again */
    if (!hz_load_rlx(&fork_hooked) && pthread_atfork(NULL, NULL, after_fork) == 0) /* relaxed, both: hint */
        hz_store_rlx(&fork_hooked, true);
    errno = saved;
    installing = false;
}

bool hz_hooks_arm_exit(void *value) {
    uint64_t key = hz_load_acq(&exit_key); /* sync: hooks, partner hz_hooks_install */
    if (key == 0)
        return false;
    int saved = errno;
    bool armed = pthread_setspecific((pthread_key_t)(key - 1), value) == 0;
    errno = saved;
    return armed;
}
