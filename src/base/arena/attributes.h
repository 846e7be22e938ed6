/*
 * attributes.h - what the program has told the kernel about the memory of its blocks, and the end of that.
 *
 * The marks are in the segments (altered.h, and `is_altered` of a direct block). A page with a marked block gets tags
 * without a bin, so that each free of its blocks takes the slow path, which looks for marks. A block that begins or
 * ends within a system page shares it with its neighbours: what was told about such a page stays until all of its
 * blocks are free, as in the C library's heap.
 */
#ifndef HZ_BASE_ARENA_ATTRIBUTES_H
#define HZ_BASE_ARENA_ATTRIBUTES_H

#include "base/os/atomic.h"
#include "base/os/compiler.h"

extern HZ_HIDDEN _Atomic(bool) hz_attributes_any;

/* Whether the program has ever told the kernel anything about our memory. */
HZ_INLINE bool hz_attributes_are_set(void) {
    return hz_load_rlx(&hz_attributes_any); /* relaxed: the program orders the call before the block's free */
}

/* The program is about to tell the kernel something about [address, address + bytes), which may be any memory. Takes no
   lock; also in a signal handler, and before anything is initialised. */
void hz_attributes_note(const void *address, size_t bytes);

/* Makes the system pages that lie within [block, block + bytes) plain memory again: a block of a size class, or a run
   of arena pages. The caller holds it. False if the kernel refuses, and some of it is not accessible. */
bool hz_attributes_end(const void *block, size_t bytes);

#endif
