/*
 * orphan.h - thread blocks that a fork leaves in the child without their threads.
 */
#ifndef HZ_HEAP_ORPHAN_H
#define HZ_HEAP_ORPHAN_H

#include "heap/thread_block.h"

/* Claims one orphan and sends home what it holds. False when there is none, which is cheap to find out. */
bool hz_orphan_reclaim(struct hz_thread_block *self);

#endif
