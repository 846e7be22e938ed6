/*
 * meta.h - memory for the allocator's own structures: zeroed, never given back, apart from user blocks.
 */
#ifndef HZ_BASE_META_H
#define HZ_BASE_META_H

#include "base/compiler.h"

/* `bytes` zeroed bytes at a cache line's start; NULL when the OS refuses. Any thread; takes the meta lock. */
void *hz_meta_alloc(size_t bytes);

/* Bytes mapped for metadata so far, the lazily touched tables not counted. */
size_t hz_meta_bytes(void);

/* In a fork's child: makes the lock usable again; at most one piece handed out during the fork is lost. */
void hz_meta_after_fork(void);

#endif
