/*
 * thread.h - the registry of thread blocks, the exit hook, the fork hook.
 *
 * A thread block is the engine's per-thread state; it begins with a struct hz_thread. Blocks are made once, put on a
 * list that only grows, and recycled: the state says whether a living thread has it. All lock-free, so fork may copy
 * the registry at any instant. Edge "thread-claim": what the former holder left in the block (release of the state) is
 * visible to the next (acquire by the claiming CAS).
 */
#ifndef HZ_BASE_THREAD_H
#define HZ_BASE_THREAD_H

#include "base/atomic.h"
#include "base/compiler.h"

enum hz_thread_state {
    HZ_THREAD_FREE = 0, /* nobody's; empty */
    HZ_THREAD_USED,     /* a living thread's */
    HZ_THREAD_ORPHAN,   /* of a thread that vanished in a fork: may still hold blocks */
};

struct hz_thread {
    _Atomic(uint32_t) state; /* sync: thread-claim */
    uint32_t number;         /* const after publish; 0, 1, 2, ... in the order they were made */
    struct hz_thread *next;  /* const after publish */
};

/* A block nobody has, claimed for the caller; NULL when there is none. Orphans first: what they hold comes along. */
struct hz_thread *hz_thread_claim(void);

/* Claims an orphan only; NULL when there is none. Cheap then. */
struct hz_thread *hz_thread_claim_orphan(void);

/* Adds a new block, claimed for the caller. */
void hz_thread_publish(struct hz_thread *thread);

/* Gives a claimed block up; it holds nothing any more. */
void hz_thread_release(struct hz_thread *thread);

/* For walks over all blocks: the newest; then ->next until NULL. */
struct hz_thread *hz_thread_first(void);

/* In a fork's child: every block that is not `self` (may be NULL) and was in use becomes an orphan. */
void hz_thread_after_fork(struct hz_thread *self);

/* Once per process: `on_exit` is called with the armed value when a thread ends, `after_fork` in the child of each
   fork. May allocate, so the calling thread must be able to. */
void hz_thread_hooks_install(void (*on_exit)(void *), void (*after_fork)(void));

/* Arms the exit hook of the calling thread; `value` not NULL. May allocate. False while there is no hook, or no memory
 * for it. */
bool hz_thread_exit_arm(void *value);

#endif
