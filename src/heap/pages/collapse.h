/*
 * collapse.h - makes huge pages of units of 2 MiB that are full of small blocks, but have small pages: those that a
 * heap used before it was large and dense, or while the kernel was too slow to be asked. The keeper calls it.
 */
#ifndef HZ_HEAP_PAGES_COLLAPSE_H
#define HZ_HEAP_PAGES_COLLAPSE_H

#include "heap/thread_block.h"

/* Looks at some segments, on from where the last call ended, and collapses units in them for a few milliseconds. True
   if it has collapsed any. The units' memory is resident before: all that can come are blocks that no thread has
   written yet. Not above the soft limit, nor within a minute after a fork, since the child may share the pages. One
   thread at a time, holding no lock. */
bool hz_collapse(struct hz_thread_block *self);

#endif
