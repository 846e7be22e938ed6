/*
 * init.h - makes the process-wide tables, once.
 */
#ifndef HZ_HEAP_INIT_H
#define HZ_HEAP_INIT_H

#include "base/compiler.h"

/* Page tags, arena, depot. False when there is no memory; a later call tries again. Any thread. */
bool hz_init(void);

/* In a fork's child: makes the lock usable again. */
void hz_init_after_fork(void);

#endif
