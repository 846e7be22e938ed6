/*
 * fork.h - what the child of a fork does before the program's own code runs in it.
 */
#ifndef HZ_HEAP_FORK_H
#define HZ_HEAP_FORK_H

/* Repairs what other threads were changing at the moment of the fork. In the child, its only thread. */
void hz_heap_after_fork(void);

#endif
