/*
 * orphan.h - thread blocks whose threads have vanished: in a fork's child, or by the system call exit without the exit
 * hook.
 */
#ifndef HZ_HEAP_THREADS_ORPHAN_H
#define HZ_HEAP_THREADS_ORPHAN_H

#include "heap/threads/thread_block.h"

/* Claims one orphan and sends home what it holds. False when there is none, which is cheap to find out. */
bool hz_orphan_reclaim(struct hz_thread_block *self);

/* If the thread has ended without its exit hook, makes an orphan of its thread block. If it ended inside the heap, its
   thread block is lost, with the blocks that it holds. Any thread but that one, holding no lock. */
void hz_orphan_bury(struct hz_thread_block *self, struct hz_thread_block *thread);

/* The same for all threads. */
void hz_orphans_bury(struct hz_thread_block *self);

#endif
