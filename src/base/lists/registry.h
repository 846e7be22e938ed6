/*
 * registry.h - all thread blocks of the process, whether a thread has them or not.
 *
 * A thread block is what the layer above keeps for one thread; a struct hz_registered makes it known here. Thread
 * blocks are made once, added to a list that only grows, and recycled. The state says whether a living thread has the
 * thread block. The registry is lock-free, so a fork can copy it at any instant. A struct hz_registered lies apart from
 * its thread block, so that all memory of a block that no thread has can go back. The block is hollow then, and reads
 * as zeros; walks may come upon it at any time.
 *
 * Edge "thread-claim": the next thread that claims a thread block (acquire, in the claiming CAS) sees how the former
 * thread left it (release, of the state). Edge "thread-publish": a walk sees the registered fields of each thread block
 * on the list. Edge "thread-fill": a walk that sees a thread block as not hollow sees how it was filled.
 */
#ifndef HZ_BASE_LISTS_REGISTRY_H
#define HZ_BASE_LISTS_REGISTRY_H

#include "base/lists/lock.h"
#include "base/os/atomic.h"
#include "base/os/compiler.h"

enum hz_thread_state {
    HZ_THREAD_FREE = 0, /* no thread has it, and it is empty */
    HZ_THREAD_USED,     /* a living thread has it */
    HZ_THREAD_ORPHAN,   /* its thread vanished in a fork, or by the system call exit; it may hold blocks */
};

struct hz_registered {
    _Atomic(uint32_t) state;    /* sync: thread-claim; enum hz_thread_state */
    uint32_t number;            /* const after publish; 0, 1, 2, ... in the order of making */
    struct hz_registered *next; /* const after publish */
    void *block;                /* const after publish: the thread block */
    struct hz_lock lock;        /* a leaf; guards what the layer above says */
    _Atomic(bool) is_hollow;    /* sync: thread-fill; the block's memory was given back. Only the holder changes it */
    bool is_locked;             /* holder; a purge was refused since a thread last had the block */
    /* figure: what the thread says about itself in statistics, in the layer above's terms. 0 until it says something,
       and from the moment at which it gives up the thread block */
    _Atomic(uint64_t) label;
};

/* Claims a thread block that no thread has; NULL when there is none. Prefers an orphan, whose blocks the caller gets.
 */
struct hz_registered *hz_registry_claim(void);

/* Claims an orphan only; NULL when there is none, which is cheap to find out. */
struct hz_registered *hz_registry_claim_orphan(void);

/* Claims this thread block if no thread has it. */
bool hz_registry_claim_this(struct hz_registered *block);

/* Adds a new thread block, already claimed for the caller. `block` is set. */
void hz_registry_add(struct hz_registered *registered);

/* Gives up a claimed thread block. The caller has emptied it. */
void hz_registry_release(struct hz_registered *block);

/* Marks a thread block whose thread has vanished. The thread that claims it gets what blocks it still holds. */
void hz_registry_orphan(struct hz_registered *block);

/* For walks over all thread blocks: the newest one; `next` leads to the others, and ends with NULL. */
struct hz_registered *hz_registry_first(void);

/* The number of thread blocks in use, the keeper's too. Hint; any thread. */
size_t hz_registry_used(void);

/* In a fork's child: every thread block in use except `self`, which may be NULL, becomes an orphan. */
void hz_registry_after_fork(struct hz_registered *self);

#endif
