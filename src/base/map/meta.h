/*
 * meta.h - memory for the allocator's own structures: zeroed, never given back, and apart from the program's blocks.
 */
#ifndef HZ_BASE_MAP_META_H
#define HZ_BASE_MAP_META_H

#include "base/os/compiler.h"

/* `bytes` zeroed bytes that start on a cache line; NULL when the OS refuses. Any thread; takes the meta lock. */
void *hz_meta_alloc(size_t bytes);

/* Gives accessible, zeroed memory that starts on a cache line, for hz_meta_alloc. What was left of its chunk is lost.
   Any thread; takes the meta lock. */
void hz_meta_give(void *memory, size_t bytes);

/* Bytes mapped for metadata so far, not counting page tags and segment directory, which are touched lazily. */
size_t hz_meta_bytes(void);

/* In a fork's child: makes the lock usable again. At most one chunk is lost. */
void hz_meta_after_fork(void);

#endif
