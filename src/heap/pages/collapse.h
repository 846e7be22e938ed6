/*
 * collapse.h - finds units of 2 MiB that are full of small blocks but have small pages, and makes them huge pages. The
 * heap used such a unit before it was large and dense, or when the kernel was too slow to be asked.
 */
#ifndef HZ_HEAP_PAGES_COLLAPSE_H
#define HZ_HEAP_PAGES_COLLAPSE_H

#include "heap/threads/thread_block.h"

/* Looks at some segments, beginning where the last call ended, and collapses units in them for a few milliseconds. True
   if it has collapsed any. All memory of such a unit is in use, so the only memory that becomes resident is that of
   blocks that no thread has written yet. Does nothing above the soft limit, or within a minute after a fork, whose
   child may share the pages. Only chores.c calls this, holding no lock. */
bool hz_collapse(struct hz_thread_block *self);

#endif
