/*
 * thread.h - threads attach to a thread block and give it up. All calls are for the calling thread.
 *
 * A thread attaches in its first slow path, and detaches in its exit hook. What it does after that hook, in destructors
 * that run later, is served one operation at a time: it attaches, does it, and detaches.
 */
#ifndef HZ_HEAP_THREAD_H
#define HZ_HEAP_THREAD_H

#include "heap/thread_block.h"

/* NULL when there is no memory. */
struct hz_thread_block *hz_thread_attach(void);

/* Flushes and gives up the block. The thread is unattached then. */
void hz_thread_detach(struct hz_thread_block *thread);

/* Whether the thread's end has begun: from then on it attaches for one operation at a time. */
bool hz_thread_is_ending(void);

/* Arms the exit hook unless it is armed. Slow paths call it again and again as long as it fails. */
void hz_thread_arm(struct hz_thread_block *self);

/* At load time: attaches the thread, which installs the hooks before the program installs its own. */
void hz_thread_start(void);

#endif
