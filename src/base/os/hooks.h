/*
 * hooks.h - tells the layer above when a thread ends and when the process has forked. That layer's thread code calls
 * it.
 *
 * hooks.c calls the layer above twice in a fork's child. It calls `after_fork` at once, so that no lock stays held by a
 * thread that the child does not have. It calls `settle_fork` when the child's thread is outside the layer above: a
 * signal handler can interrupt that layer and fork, and what the thread was changing must not be counted or rebuilt
 * before the thread has finished. The second call nearly always follows the first directly. The thread says when it is
 * inside (hz_hooks_enter, hz_hooks_leave). While it is inside, the child can start no thread.
 *
 * fork calls handlers in the order of their registration, so a handler of the program that was registered before ours
 * runs in the child before ours. And a child that was made by clone(2) or _Fork runs no handlers at all. So the hooks
 * have a page that the kernel zeroes in every child that gets a copy of the memory (MADV_WIPEONFORK): the first
 * hz_hooks_enter in such a child finds the zeros and makes the calls. A child that shares the memory, as vfork's does,
 * keeps the page. Kernels before 4.14 do not zero it; there only fork's handlers tell.
 *
 * Edge "hooks": a thread that finds the exit hook's key sees it as glibc has made it. A thread that sees the page in
 * use sees that it is not zero any more, unless the kernel has zeroed it. A thread that sees a mended child sees all of
 * it. A fork's child sees all that was done before hz_hooks_forkless_end.
 */
#ifndef HZ_BASE_OS_HOOKS_H
#define HZ_BASE_OS_HOOKS_H

#include "base/os/atomic.h"

enum { HZ_HOOKS_CALM = 1, HZ_HOOKS_FORK = 2, HZ_HOOKS_MENDING = 1 << 30 };

struct hz_hooks_page {
    /* sync: hooks. HZ_HOOKS_CALM, and HZ_HOOKS_FORK for each call of fork that is under way; 0: not used yet, or this
       is a child with a copy of the memory that has not been mended; HZ_HOOKS_MENDING: a thread mends it now */
    HZ_ALIGNED(HZ_OS_PAGE_BYTES_MAX) _Atomic(uint32_t) state;
};

extern HZ_HIDDEN struct hz_hooks_page hz_hooks_page;

/* Of one thread. A fork copies it. */
struct hz_hooks_thread {
    uint32_t inside;  /* owner; calls of hz_hooks_enter that hz_hooks_leave has not matched yet */
    uint32_t forking; /* owner; calls of fork that are under way: a signal handler can interrupt one, and fork */
    uint32_t id;      /* owner; while `forking`: the thread's kernel id when it last looked */
    bool is_told;     /* owner; in this child `after_fork` was called before our fork handler, which is still to run */
    bool is_due;      /* owner; `settle_fork` is to be called when the thread is outside */
    bool is_mending;  /* owner; the thread calls the layer above, to mend a child */
    bool is_forkless; /* owner; no fork can begin until hz_hooks_forkless_end */
};

extern HZ_HIDDEN HZ_TLS struct hz_hooks_thread hz_hooks_thread;

/* Installs the hooks unless the process has them already. When a thread ends, `on_exit` gets the value that the thread
   armed. In each fork's child `after_fork` is called at once, and `settle_fork` when the thread is outside. Can
   allocate: a thread that is about to attach may come back attached. */
void hz_hooks_install(void (*on_exit)(void *), void (*after_fork)(void), void (*settle_fork)(void));

/* Arms the exit hook of the calling thread. `value` is not NULL. Can allocate. False when there is no hook, or no
   memory to arm it. */
bool hz_hooks_arm_exit(void *value);

/* When the process last forked, by hz_os_now_ms; 0: never. A child starts with the time of the fork that made it. Any
   thread. */
uint64_t hz_hooks_forked_at_ms(void);

/* Whether the process is a child with a copy of the memory that ran no handlers of fork, so that the C library may not
   know that it is one. Hint; any thread. */
bool hz_hooks_is_cloned(void);

/* Out of line, for the two functions below. */
void hz_hooks_look(void);
void hz_hooks_settle(void);

/* For a thread that would wait for another one while it is inside: in a child with a copy of the memory there is no
   other. Calls `after_fork` if this is such a child, and nobody has yet. */
HZ_INLINE void hz_hooks_before_wait(void) {
    if (hz_load_rlx(&hz_hooks_page.state) != HZ_HOOKS_CALM) /* relaxed: hint. A child sees what the kernel zeroed */
        hz_hooks_look();
}

/* The thread enters the layer above. Calls nest. */
HZ_INLINE void hz_hooks_enter(void) {
    if (HZ_UNLIKELY(hz_load_rlx(&hz_hooks_page.state) != HZ_HOOKS_CALM)) /* relaxed: as in hz_hooks_before_wait */
        hz_hooks_look();
    hz_hooks_thread.inside++;
    hz_signal_fence(); /* fork: inside before anything changes */
}

HZ_INLINE void hz_hooks_leave(void) {
    hz_signal_fence();
    if (--hz_hooks_thread.inside == 0 && HZ_UNLIKELY(hz_hooks_thread.is_due))
        hz_hooks_settle();
}

/* What hz_hooks_callback_begin changes, for hz_hooks_callback_end. */
struct hz_hooks_callback {
    uint32_t inside;
    int cancel_state;
    int error; /* errno */
};

/* Between these two no fork begins: for a call that holds a lock of the C library which stays locked in a fork's child.
 * Forks and these calls wait for each other, at most a second: then the promise is void, since either thread may hold
 * what the other needs. Does nothing in a fork handler. Calls do not nest. Any thread. */
void hz_hooks_forkless_begin(void);
void hz_hooks_forkless_end(void);

/* The library calls a function of the program between these two. It may fork, and start threads in the child: the
   thread counts as outside, unless a signal handler has interrupted the layer above. It cannot be cancelled, since
   malloc and free are no cancellation points. What it does to errno is taken back, since a malloc that succeeds does
   not change it. */
void hz_hooks_callback_begin(struct hz_hooks_callback *call);
void hz_hooks_callback_end(const struct hz_hooks_callback *call);

#endif
