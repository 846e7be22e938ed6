/*
 * init.h - makes the process-wide tables, once, and adapts the depot and the number of shards to the CPUs.
 */
#ifndef HZ_HEAP_THREADS_INIT_H
#define HZ_HEAP_THREADS_INIT_H

#include "base/os/compiler.h"

/* Page tags and arena. False when there is no memory; a later call tries again. Any thread. */
bool hz_init(void);

/* Looks, at most once a second, at the CPUs that the process can use, and divides the depot anew. Threads that start
   later get shards according to these CPUs (pages/shard.h). Any thread. */
void hz_init_follow_cpus(bool asks);

/* In a fork's child: makes the lock usable again. */
void hz_init_after_fork(void);

#endif
