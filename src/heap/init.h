/*
 * init.h - makes the process-wide tables, once, and divides among the CPUs what is divided among them.
 */
#ifndef HZ_HEAP_INIT_H
#define HZ_HEAP_INIT_H

#include "base/compiler.h"

/* Page tags and arena. False when there is no memory; a later call tries again. Any thread. */
bool hz_init(void);

/* Looks, at most once a second, at the CPUs that the process can use, and divides the depot anew. Threads that start
   find as many shards as there are CPUs (pages/shard.h). Any thread. */
void hz_init_follow_cpus(void);

/* In a fork's child: makes the lock usable again. */
void hz_init_after_fork(void);

#endif
