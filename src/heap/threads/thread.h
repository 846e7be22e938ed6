/*
 * thread.h - threads attach to a thread block and give it up. All calls are for the calling thread.
 *
 * A thread attaches in its first slow path, and detaches in its exit hook. Destructors can run after that hook: for
 * each of their allocations the thread attaches and detaches again, and each of their frees puts the block into its
 * page.
 */
#ifndef HZ_HEAP_THREADS_THREAD_H
#define HZ_HEAP_THREADS_THREAD_H

#include "heap/threads/thread_block.h"

/* NULL when there is no memory. */
struct hz_thread_block *hz_thread_attach(void);

/* Flushes the thread block and gives it up. The thread is not attached any more. After a hz_thread_enter, a
   hz_hooks_leave follows. */
void hz_thread_detach(struct hz_thread_block *thread);

/* Whether the thread's end has begun: from then on the thread attaches for one operation at a time. */
bool hz_thread_is_ending(void);

/* Arms the exit hook unless it is armed. After a failure later slow paths call this function again. */
void hz_thread_arm(struct hz_thread_block *self);

/* At the beginning of a thread, before any destructor of thread-specific data can run: attaches it, and lets it be
   parked. A thread that attaches later must not be: it may be at its end already, where the exit hook is armed in vain,
   and the keeper would write the word of a thread that does not exist.
 */
void hz_thread_start(void);

/* In the process's first thread, while thread-local variables are still zeros. Until they get their start values, the
   thread is treated as one whose end has begun: nothing is kept for it, so nothing is lost when they do. */
void hz_thread_start_early(void);

#endif
