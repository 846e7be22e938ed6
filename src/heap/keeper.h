/*
 * keeper.h - the keeper: a thread that gives memory back while the program's threads sleep or do other work.
 */
#ifndef HZ_HEAP_KEEPER_H
#define HZ_HEAP_KEEPER_H

#include "base/atomic.h"
#include "base/compiler.h"

/* Starts the keeper, a thread that blocks all signals, unless it runs already. False when there is no keeper yet: slow
   paths do its work as far as they can. Call it outside malloc and free, since a thread's start allocates and takes the
   C library's locks. */
bool hz_keeper_start(void);

/* Whether the keeper runs, or is about to, so that slow paths can leave the work that is not urgent to it. Hint; any
 * thread. */
bool hz_keeper_runs(void);

/* Whether a thread with this function is the keeper. */
bool hz_keeper_is(void *(*start)(void *));

/* For the process's first thread, which has an exit hook that will call hz_keeper_thread_ends: from now on a keeper may
   start. */
void hz_keeper_allow(void);

/* A thread ends. If it is the process's first thread and others go on, the keeper ends too, and no other starts, so
   that the process ends with the program's last thread. */
void hz_keeper_thread_ends(void);

/* The program is about to restrict its system calls. Ends the keeper, whose calls a sandbox may not allow, and waits
   for its end. No other keeper starts. Any thread, outside malloc and free. */
void hz_keeper_confine(void);

/* In a fork's child, which has no keeper until it starts a thread. `allowed`: as after hz_keeper_allow. */
void hz_keeper_after_fork(bool allowed);

#endif
