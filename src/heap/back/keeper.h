/*
 * keeper.h - the keeper: a thread that gives memory back while the program's threads sleep or do other work.
 */
#ifndef HZ_HEAP_BACK_KEEPER_H
#define HZ_HEAP_BACK_KEEPER_H

#include "base/os/atomic.h"
#include "base/os/compiler.h"

/* hint; a second thread has attached, and no keeper has been started for it yet, or it is time to try again */
extern HZ_HIDDEN _Atomic(bool) hz_keeper_is_wanted;

/* sync: keeper; not 0 while the keeper waits slowly because little happens */
extern HZ_HIDDEN _Atomic(uint32_t) hz_keeper_is_slow;

/* Starts the keeper, a thread that blocks all signals, unless it runs already, was forbidden, or could not be started a
   moment ago. Outside the heap, or where malloc can be called again: the start of a thread allocates and takes the C
   library's locks. So not in free, which the C library calls under such a lock. */
void hz_keeper_start(void);

/* The same for a slow path of malloc: two instructions if no keeper is wanted. */
HZ_INLINE void hz_keeper_start_if_wanted(void) {
    if (HZ_UNLIKELY(hz_load_rlx(&hz_keeper_is_wanted))) /* relaxed: hint */
        hz_keeper_start();
}

/* Whether the keeper runs, or is about to, so that slow paths can leave the work that is not urgent to it. Hint; any
   thread. */
bool hz_keeper_runs(void);

/* For a slow path that does much: the keeper looks soon. */
void hz_keeper_hurry_up(void);
HZ_INLINE void hz_keeper_hurry(void) {
    if (HZ_UNLIKELY(hz_load_rlx(&hz_keeper_is_slow) != 0)) /* relaxed: hint */
        hz_keeper_hurry_up();
}

/* For a slow path, now and then: a start that has failed is tried again. */
void hz_keeper_look_again(uint64_t now_ms);

/* Whether the keeper can take back what another thread uses without a lock (zone.h), or could if it ran. Hint; any
   thread. */
bool hz_keeper_may_relieve(void);

/* Whether a keeper runs or may start. Hint; any thread. */
bool hz_keeper_is_possible(void);

/* While the process has one thread: reads what the keeper would read (surroundings.h), unless that is known or a keeper
   is not possible. In a process with more threads nothing happens. */
void hz_keeper_read_alone(void);

/* Whether a thread with this function is the keeper. */
bool hz_keeper_is(void *(*start)(void *));

/* The calling thread is the process's first one: when it ends, in whatever way, the keeper ends too, and no other
   starts, so that the process ends with the program's last thread. Without this call the keeper ends when no thread is
   attached. */
void hz_keeper_follow_first(void);

/* In the exit hook of a thread: if it is the first one, ends the keeper and waits for its end. */
void hz_keeper_thread_ends(void);

/* HAKOZUNA_BACKGROUND=0: no keeper. HAKOZUNA_BACKGROUND=1: the keeper may call membarrier even under a filter of system
   calls. Before a second thread attaches. */
void hz_keeper_forbid(void);
void hz_keeper_trust_filter(void);

/* Ends the keeper and waits for its end; no other starts until hz_keeper_allow. Any thread, outside malloc and free.
   Both return false if the process can have no keeper (forbidden, confined, first thread ended). */
bool hz_keeper_stop(void);
bool hz_keeper_allow(void);

/* The program is about to restrict its system calls. Ends the keeper, whose calls a sandbox may not allow, and waits
   for its end. No other keeper starts. Any thread, outside malloc and free. */
void hz_keeper_confine(void);

/* Whether the calling thread belongs to this process, and not to a child of vfork, which must leave the keeper alone.
   Mends a fork's child. Under a filter it asks for the thread's number only. */
bool hz_keeper_is_of_this_process(void);

/* Ends the keeper and waits for its end, because the program must have one thread, gives up rights, or has no room for
   another. True if there was a keeper. Only then the caller calls hz_keeper_resume, which starts another one: at once
   with `soon`, otherwise after a pause. Any thread, outside malloc and free. */
bool hz_keeper_suspend(void);
void hz_keeper_resume(bool soon);

/* In a fork's child, which has no keeper until it starts a thread. */
void hz_keeper_after_fork(void);

/* For people: "runs", or what it cannot do, or "none", why, and what can be done. Two texts, the second one possibly
   empty. */
struct hz_keeper_words {
    bool runs;
    const char *state;
    const char *advice;
};
struct hz_keeper_words hz_keeper_describe(void);

#endif
