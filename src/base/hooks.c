/*
 * hooks.c - a key with a destructor for the ends of threads, pthread_atfork for forks. See hooks.h.
 */
#include "base/hooks.h"

#include "base/os.h"

#include <errno.h>
#include <pthread.h>

typedef void fork_function(void);

static _Atomic(uint64_t) exit_key; /* sync: hooks; the key for the ends of threads, plus 1; 0 until there is one */
static _Atomic(bool) fork_hooked;  /* hint: some thread has hooked fork */
static _Atomic(fork_function *) tell_after_fork;  /* const after the first store: all threads store the same */
static _Atomic(fork_function *) tell_settle_fork; /* const after the first store */
static _Atomic(uint64_t) forked_at_ms;            /* hint; 0: never */
static HZ_TLS bool installing;                    /* owner */

HZ_TLS struct hz_hooks_thread hz_hooks_thread;

/* ---- fork ---------------------------------------------------------------------------------------- */

void hz_hooks_settle(void) {
    hz_hooks_thread.is_due = false;
    hz_load_rlx (&tell_settle_fork)(); /* relaxed: stored before fork was hooked, and this fork was hooked */
}

void hz_hooks_callback_begin(struct hz_hooks_callback *call) {
    call->inside = hz_hooks_thread.inside;
    if (call->inside == 1)
        hz_hooks_thread.inside = 0;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call->cancel_state); /* cannot fail */
}

void hz_hooks_callback_end(const struct hz_hooks_callback *call) {
    (void)pthread_setcancelstate(call->cancel_state, NULL); /* cannot fail */
    hz_hooks_thread.inside = call->inside;
}

static void child_tell(void) {
    struct hz_hooks_thread *thread = &hz_hooks_thread;
    thread->id = hz_os_thread_id();
    hz_load_rlx (&tell_after_fork)(); /* relaxed: as in hz_hooks_settle */
    if (thread->inside == 0)
        hz_hooks_settle();
    else
        thread->is_due = true;
}

/* The thread is within fork, or in a handler that fork calls. If its kernel id has changed, this is the child, and the
   handler is one that runs before ours. */
void hz_hooks_look(void) {
    if (hz_os_thread_id() == hz_hooks_thread.id)
        return;
    hz_hooks_thread.is_told = true;
    child_tell();
}

static void before_fork(void) {
    hz_hooks_thread.id = hz_os_thread_id();
    hz_hooks_thread.forking++;
    hz_store_rlx(&forked_at_ms, hz_os_now_ms()); /* relaxed: hint */
}

uint64_t hz_hooks_forked_at_ms(void) {
    return hz_load_rlx(&forked_at_ms); /* relaxed: hint */
}

static void after_fork_in_parent(void) {
    hz_hooks_thread.forking--;
}

static void after_fork_in_child(void) {
    hz_hooks_thread.forking--;
    if (!hz_hooks_thread.is_told)
        child_tell();
    hz_hooks_thread.is_told = false;
}

/* ---- installation ---------------------------------------------------------------------------------- */

static bool fork_hook(fork_function *after_fork, fork_function *settle_fork) {
    hz_store_rlx(&tell_after_fork, after_fork); /* relaxed, both: the C library orders them before any handler's call */
    hz_store_rlx(&tell_settle_fork, settle_fork);
    return pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
}

/* Several threads can be here at the same time. Each returns with a key to arm, and with fork hooked. No thread waits
   for another, or relies on what another has only begun, because a fork may have left that thread out of this process.
   So fork can get hooked twice. That does no harm, unless a handler of the program, called between the two, starts a
   thread. The calls can allocate, and so lead here again; `installing` stops the recursion. */
void hz_hooks_install(void (*on_exit)(void *), void (*after_fork)(void), void (*settle_fork)(void)) {
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
    if (!hz_load_rlx(&fork_hooked) && fork_hook(after_fork, settle_fork)) /* relaxed, both: hint */
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
