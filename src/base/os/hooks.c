/*
 * hooks.c - a key with a destructor for the ends of threads; for forks, pthread_atfork and a page that a child's kernel
 * zeroes. See hooks.h.
 */
#include "base/os/hooks.h"

#include "base/os/os.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>

typedef void fork_function(void);

static _Atomic(uint64_t) exit_key; /* sync: hooks; the key for the ends of threads, plus 1; 0 until there is one */
static _Atomic(bool) fork_hooked;  /* hint: some thread has hooked fork */
static _Atomic(fork_function *) tell_after_fork;  /* const after the first store: all threads store the same */
static _Atomic(fork_function *) tell_settle_fork; /* const after the first store */
static _Atomic(uint64_t) forked_at_ms;            /* hint; 0: never */
static _Atomic(bool) is_cloned;                   /* hint: no fork's handler has run in this process */
static HZ_TLS bool installing;                    /* owner */

struct hz_hooks_page hz_hooks_page;
static _Atomic(bool) page_is_used; /* sync: hooks; set after the page's state, so that 0 then means a copy */

HZ_TLS struct hz_hooks_thread hz_hooks_thread;

enum { GATE_FORKLESS = 1, GATE_FORK = 2, GATE_MS = 1000 };
#define GATE_WAITS (UINT32_C(1) << 31) /* a thread may sleep */

/* sync: hooks; GATE_FORKLESS while a thread forbids forks, plus GATE_FORK for each fork under way. One word, so of two
 * threads at least one sees the other. */
static _Atomic(uint32_t) fork_gate;

/* ---- fork ---------------------------------------------------------------------------------------- */

/* Before the first thread attaches, nobody is to be told: there is nothing to mend. */
static void tell(_Atomic(fork_function *) *whom) {
    fork_function *function = hz_load_rlx(whom); /* relaxed: a child is told of what its only thread sees */
    if (function != NULL)
        function();
}

void hz_hooks_settle(void) {
    hz_hooks_thread.is_due = false;
    tell(&tell_settle_fork);
}

void hz_hooks_callback_begin(struct hz_hooks_callback *call) {
    call->error = errno;
    call->inside = hz_hooks_thread.inside;
    if (call->inside == 1)
        hz_hooks_thread.inside = 0;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call->cancel_state); /* cannot fail */
}

void hz_hooks_callback_end(const struct hz_hooks_callback *call) {
    (void)pthread_setcancelstate(call->cancel_state, NULL); /* cannot fail */
    hz_hooks_thread.inside = call->inside;
    errno = call->error;
}

/* Waits until the gate has none of the bits, or until GATE_MS have passed. Returns what it has. */
static uint32_t gate_await(uint32_t bits) {
    uint64_t until = hz_os_now_ms() + GATE_MS;
    uint32_t seen = hz_load_acq(&fork_gate); /* sync: hooks, partner hz_hooks_forkless_end */
    for (uint64_t now; (seen & bits) != 0 && (now = hz_os_now_ms()) < until;) {
        (void)hz_or_rlx(&fork_gate, GATE_WAITS); /* relaxed: no data is behind it */
        hz_os_wait_ms(&fork_gate, seen | GATE_WAITS, (uint32_t)(until - now));
        seen = hz_load_acq(&fork_gate); /* sync: hooks, partner hz_hooks_forkless_end */
    }
    return seen;
}

/* No system call if nobody waits: a filter can forbid it. */
static void gate_wake(uint32_t before) {
    if ((before & GATE_WAITS) == 0)
        return;
    (void)hz_and_rlx(&fork_gate, ~GATE_WAITS); /* relaxed: who waits on sets it again */
    hz_os_wake(&fork_gate, INT_MAX);
}

/* Not in a fork handler: it would wait for its own fork. */
void hz_hooks_forkless_begin(void) {
    uint32_t seen;
    while (hz_hooks_thread.forking == 0 && !hz_hooks_thread.is_forkless &&
           ((seen = gate_await(~GATE_WAITS)) & ~GATE_WAITS) == 0)
        hz_hooks_thread.is_forkless = hz_cas_strong_acq_rlx(&fork_gate, &seen, seen | GATE_FORKLESS); /* cas */
}

void hz_hooks_forkless_end(void) {
    if (!hz_hooks_thread.is_forkless)
        return;
    hz_hooks_thread.is_forkless = false;
    gate_wake(hz_and_rel(&fork_gate, ~(uint32_t)GATE_FORKLESS)); /* sync: hooks, partner gate_await */
}

/* Several threads may begin to use the page at the same time. */
static void page_use(void) {
    uint32_t none = 0;
    if (hz_cas_strong_acq_rlx(&hz_hooks_page.state, &none, HZ_HOOKS_CALM)) /* cas */
        hz_os_wipe_in_child(&hz_hooks_page, hz_round_up(sizeof(hz_hooks_page), hz_os_page_bytes()));
    hz_store_rel(&page_is_used, true); /* sync: hooks, partner hz_hooks_look */
}

/* The calling thread tells the layer above. It has set HZ_HOOKS_MENDING, or is the only thread. */
static void child_tell(void) {
    struct hz_hooks_thread *thread = &hz_hooks_thread;
    thread->is_mending = true;
    thread->id = hz_os_thread_id();
    thread->is_forkless = false;
    hz_store_rlx(&fork_gate, GATE_FORK * thread->forking); /* relaxed: one thread */
    tell(&tell_after_fork);
    if (thread->inside == 0)
        hz_hooks_settle();
    else
        thread->is_due = true;
    thread->is_mending = false;
    bool can_be_awaited = hz_load_rlx(&hz_hooks_page.state) == HZ_HOOKS_MENDING; /* relaxed: this thread's */
    hz_store_rel(&hz_hooks_page.state,
                 HZ_HOOKS_CALM + HZ_HOOKS_FORK * thread->forking); /* sync: hooks, partner await */
    if (can_be_awaited)
        hz_os_wake(&hz_hooks_page.state, INT_MAX);
}

/* Waits while another thread mends the child. A child of clone(2) can have several threads before one comes here. */
static void await(void) {
    while (hz_load_acq(&hz_hooks_page.state) == HZ_HOOKS_MENDING) /* sync: hooks, partner child_tell */
        hz_os_wait(&hz_hooks_page.state, HZ_HOOKS_MENDING);
}

/* Either the page was wiped, or some thread is within fork, or in a handler that fork calls. If it is this thread, and
   its kernel id has changed, this is the child, and the handler is one that runs before ours. */
void hz_hooks_look(void) {
    struct hz_hooks_thread *thread = &hz_hooks_thread;
    uint32_t none = 0;
    if (!hz_load_acq(&page_is_used)) { /* sync: hooks, partner page_use */
        page_use();
        return;
    }
    if (thread->is_mending)
        return;
    if (hz_cas_strong_acq_rlx(&hz_hooks_page.state, &none, HZ_HOOKS_MENDING)) { /* cas: picks the thread that mends */
        thread->is_told = thread->forking != 0;
        hz_store_rlx(&is_cloned, thread->forking == 0); /* relaxed: hint */
        child_tell();
    } else if (none == HZ_HOOKS_MENDING) {
        await();
    } else if (thread->forking != 0 && hz_os_thread_id() != thread->id) {
        thread->is_told = true;
        child_tell();
    }
}

static void before_fork(void) {
    hz_hooks_before_wait(); /* a child of clone(2) may come here first */
    hz_hooks_thread.id = hz_os_thread_id();
    hz_hooks_thread.forking++;
    hz_add_rlx(&hz_hooks_page.state, HZ_HOOKS_FORK); /* relaxed: hint. This thread's handlers see it */
    hz_store_rlx(&forked_at_ms, hz_os_now_ms());     /* relaxed: hint */
    hz_add_rlx(&fork_gate, GATE_FORK);               /* relaxed: no data is behind it */
    if (!hz_hooks_thread.is_forkless)                /* a signal handler would wait for its own thread */
        (void)gate_await(GATE_FORKLESS);
}

bool hz_hooks_is_cloned(void) {
    return hz_load_rlx(&is_cloned); /* relaxed: hint */
}

uint64_t hz_hooks_forked_at_ms(void) {
    return hz_load_rlx(&forked_at_ms); /* relaxed: hint */
}

static void after_fork_in_parent(void) {
    hz_hooks_thread.forking--;
    hz_sub_rlx(&hz_hooks_page.state, HZ_HOOKS_FORK); /* relaxed, both: as in before_fork */
    gate_wake(hz_sub_rlx(&fork_gate, GATE_FORK));
}

/* is_told can be true although the page is zero: in the child of a child that a handler has made by clone(2). */
static void after_fork_in_child(void) {
    struct hz_hooks_thread *thread = &hz_hooks_thread;
    bool is_told = thread->is_told && hz_load_rlx(&hz_hooks_page.state) != 0; /* relaxed, both: one thread */
    thread->forking--;
    thread->is_told = false;
    if (is_told) {
        hz_sub_rlx(&hz_hooks_page.state, HZ_HOOKS_FORK);
        hz_sub_rlx(&fork_gate, GATE_FORK);
    } else {
        hz_store_rlx(&is_cloned, false); /* relaxed: hint */
        child_tell();
    }
}

/* ---- installation ---------------------------------------------------------------------------------- */

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
    hz_store_rlx(&tell_after_fork, after_fork); /* relaxed, both: a child is told of what its only thread sees */
    hz_store_rlx(&tell_settle_fork, settle_fork);
    /* relaxed: hint. sync: hooks, partner hz_hooks_arm_exit. The thread that loses the race deletes its key */
    if (hz_load_rlx(&exit_key) == 0 && pthread_key_create(&key, on_exit) == 0 &&
        !hz_cas_strong_ar_acq(&exit_key, &none, (uint64_t)key + 1))
        pthread_key_delete(key);
    /* when there is no memory, or no key left, the next thread tries again */
    if (!hz_load_rlx(&fork_hooked) && /* relaxed, both: hint */
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0)
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
