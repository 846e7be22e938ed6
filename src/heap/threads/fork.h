/*
 * fork.h - what the child of a fork does before the program's own code runs in it. base/os/hooks.h says when.
 */
#ifndef HZ_HEAP_THREADS_FORK_H
#define HZ_HEAP_THREADS_FORK_H

/* Repairs what other threads were changing at the moment of the fork. For the child's only thread, which may be in
   the middle of any operation on the heap, and may hold locks. */
void hz_heap_after_fork(void);

/* Counts everything anew, completes what vanished threads had half done, and makes orphans of their thread blocks.
   For the child's only thread, outside the heap. */
void hz_heap_settle_fork(void);

#endif
