/*
 * park.h - how the keeper (or a purge) takes the blocks out of another thread's bins, at no cost to the fast paths.
 *
 * The fast paths read `hz_self_word` once and then use the bins of the thread block that it names. To park a thread the
 * keeper stores hz_thread_none into the thread's own word, and has all running threads pass a memory barrier. From then
 * on each operation that the thread begins finds empty bins and falls into its slow path, where it waits
 * for its parking lock and takes its thread block back (it resumes). Only an operation that it began before the barrier
 * can still touch the bins:
 *   - a slow path raises `busy` before it reads the word again. The keeper reads `busy` after the barrier. One of them
 *     sees the other: the slow path gives way, or the keeper gives up;
 *   - a pop of a mid block sets `popping` in the same way (hz_malloc_medium);
 *   - a pop of a small block, or any push, may be anywhere between its first and its last access, and stay there for
 *     long, if a signal handler interrupted it and sleeps. It touches one bin. A pop returns the newest block, so
 *     the keeper leaves that one in each bin of a small class. It also reads the slot below the top, and stores what it
 *     read into `newest`. A push only stores: the block into `newest`, and the former newest block into the slot at the
 *     top. So from bins of other classes the keeper takes every block. Of each bin it notes the one block that such an
 *     operation may bring back: the second newest of a small class, the newest of any other (hz_bin_take_old). There is
 *     one such operation at most, since a handler that interrupts malloc must not call malloc (signal-safety(7)).
 *
 * Edge "park": the keeper's store of the word and its barrier, against `busy` or `popping`, and the next load of the
 * word.
 */
#ifndef HZ_HEAP_THREADS_PARK_H
#define HZ_HEAP_THREADS_PARK_H

#include "base/os/hooks.h"
#include "base/process/os_life.h"
#include "heap/threads/thread_block.h"

extern HZ_HIDDEN _Atomic(uint32_t) hz_keeper_sleeps; /* sync: park; not 0 while the keeper waits to be woken */
extern HZ_HIDDEN struct hz_life hz_first_life;       /* of the process's first thread; its end wakes the keeper too */

/* The thread's block, parked or not; NULL when it has none. */
extern HZ_HIDDEN HZ_TLS struct hz_thread_block *hz_thread_mine;

/* sync: park; 1 after work that no bin shows and no round of the keeper has seen */
extern HZ_HIDDEN _Atomic(uint32_t) hz_keeper_missed;

struct hz_thread_block *hz_thread_resume(void);
void hz_keeper_wake(void);

/* Begins a slow path: returns the thread's block, which is not parked before the matching hz_thread_leave, or
   hz_thread_none if the thread is not attached. Slow paths may be nested. */
HZ_INLINE struct hz_thread_block *hz_thread_enter(void) {
    hz_hooks_enter();
    struct hz_thread_block *self = hz_self();
    if (HZ_LIKELY(hz_is_attached(self))) {
        hz_store_rlx(&self->busy, hz_load_rlx(&self->busy) + 1); /* relaxed: owner. sync: park, partner hz_park */
        hz_signal_fence();
        if (HZ_UNLIKELY(hz_load_rlx(&hz_keeper_sleeps) != 0)) /* sync: park, partner keeper_sleep */
            hz_keeper_wake();
        if (HZ_LIKELY(hz_self() == self))
            return self;
        hz_store_rel(&self->busy, hz_load_rlx(&self->busy) - 1); /* relaxed: owner */
    }
    return hz_thread_resume();
}

/* Ends a slow path. */
HZ_INLINE void hz_thread_leave(struct hz_thread_block *self) {
    if (hz_is_attached(self))
        hz_store_rel(&self->busy, hz_load_rlx(&self->busy) - 1); /* relaxed: owner. sync: park, partner hz_park */
    hz_hooks_leave();
}

/* After work that no bin shows, in zones or by a thread that is not attached: either the keeper sees the note before it
   sleeps, or the thread sees that it sleeps. Before hz_thread_leave, if the thread has entered. */
HZ_INLINE void hz_keeper_note_work(void) {
    if (hz_load_rlx(&hz_keeper_missed) == 0) /* relaxed: hint; a round that forgets it has not begun */
        hz_store_rel(&hz_keeper_missed, 1);  /* sync: park, partners hz_keeper_forget_work, keeper_sleep */
    hz_signal_fence();
    if (HZ_UNLIKELY(hz_load_rlx(&hz_keeper_sleeps) != 0)) /* sync: park, partner keeper_sleep */
        hz_keeper_wake();
}

/* Before the keeper's round, which then sees all work that was noted. */
HZ_INLINE void hz_keeper_forget_work(void) {
    (void)hz_xchg_acq(&hz_keeper_missed, 0); /* sync: park, partner hz_keeper_note_work */
}

/* Whether the calling thread is in a slow path, in which it may hold a lock. Also from a signal handler. */
HZ_INLINE bool hz_thread_is_busy(void) {
    struct hz_thread_block *self = hz_thread_mine;
    return self != NULL && hz_load_rlx(&self->busy) != 0; /* relaxed: owner */
}

/* Makes a recycled thread block usable, before its new owner attaches. */
void hz_park_reset(struct hz_thread_block *self);

/* From now on the thread can be parked: its exit hook will detach it. Close: no longer. Owner. */
void hz_park_open(struct hz_thread_block *self);
void hz_park_close(struct hz_thread_block *self);

/* The calling thread begins parked: it resumes when it allocates, or when it has freed some blocks (free.c). */
void hz_park_begin(struct hz_thread_block *self);

/* Parks another thread unless it is in a slow path or pops a mid block; true if it is parked. Writes into the thread's
   own memory, so it first asks whether the thread lives. If the thread ends by the system call exit after
   that question, and another one unmaps its memory before the write, the write faults. Any thread, after
   hz_os_barrier_prepare.
 */
bool hz_park(struct hz_thread_block *thread);

/* After sampling has begun or ended: lets another thread settle (hz_sampler_settle) before its next allocation. If it
   has not yet, parks it, and leaves its bins full. False if it has to be tried again, since the thread is in a slow
   path or pops a mid block, and also for a thread that cannot be parked. As hz_park. */
bool hz_park_to_settle(struct hz_thread_block *thread);

/* Whether a thread was parked by hz_park_to_settle, sleeps since then, and nobody has emptied its bins; true once. For
   the keeper. */
bool hz_park_take_full(struct hz_thread_block *thread);

/* Whether the thread has ended without its exit hook. If so it cannot be parked from now on, and true is returned
   once. Any other thread. */
bool hz_park_is_lost(struct hz_thread_block *thread);

/* Sends home what is in the bins of a parked thread, but for one block of each small class. Stops when the thread
   resumes. Any thread, holding no lock. */
void hz_park_empty(struct hz_thread_block *self, struct hz_thread_block *thread);

enum { HZ_PARK_STEP = 256 }; /* 2 KiB of a program's stack, which can be small */

/* Takes blocks out of a bin of a parked thread for hz_park_empty, and returns their number: below HZ_PARK_STEP if
   nothing is left to take, 0 once the thread has resumed. `index`: a class or HZ_REMOTE_BIN. out: HZ_PARK_STEP
   pointers. */
uint32_t hz_park_take(struct hz_thread_block *thread, unsigned index, void **out);

/* In a fork's child: hz_park_after_fork repairs the thread blocks' locks. hz_park_settle_fork, while the child's thread
   is outside the heap, marks vanished threads as threads that cannot be parked. */
void hz_park_after_fork(void);
void hz_park_settle_fork(void);

#endif
