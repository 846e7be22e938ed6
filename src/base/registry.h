/*
 * registry.h - all thread blocks of the process, whether a thread has them or not.
 *
 * A thread block is the layer above's state of one thread; a struct hz_registered inside it makes it known here. Blocks
 * are made once, put on a list that only grows, and recycled. The state says whether a living thread has the block. All
 * of it is lock-free, so a fork may copy the registry at any instant. Edge "thread-claim": the next thread that claims
 * a block (acquire, by the claiming CAS) sees what the former one left in it (release, of the state). Edge
 * "thread-publish": a walker sees the registered fields of each block on the list.
 */
#ifndef HZ_BASE_REGISTRY_H
#define HZ_BASE_REGISTRY_H

#include "base/atomic.h"
#include "base/compiler.h"

enum hz_thread_state {
    HZ_THREAD_FREE = 0, /* no thread has it; empty */
    HZ_THREAD_USED,     /* a living thread has it */
    HZ_THREAD_ORPHAN,   /* its thread vanished in a fork; it may still hold blocks */
};

struct hz_registered {
    _Atomic(uint32_t) state;    /* sync: thread-claim; enum hz_thread_state */
    uint32_t number;            /* const after publish; 0, 1, 2, ... in the order of making */
    struct hz_registered *next; /* const after publish */
};

/* Claims a block that no thread has; NULL when there is none. Prefers an orphan, and what it holds comes along. */
struct hz_registered *hz_registry_claim(void);

/* Claims an orphan only; NULL when there is none, which is cheap. */
struct hz_registered *hz_registry_claim_orphan(void);

/* Adds a new block, claimed for the caller. */
void hz_registry_add(struct hz_registered *block);

/* Gives up a claimed block that holds nothing any more. */
void hz_registry_release(struct hz_registered *block);

/* For walks over all blocks: the newest, then ->next until NULL. */
struct hz_registered *hz_registry_first(void);

/* In a fork's child: every block in use that is not `self` (which may be NULL) becomes an orphan. */
void hz_registry_after_fork(struct hz_registered *self);

#endif
