/*
 * large.h - blocks above the size classes: runs of pages up to 2 MiB, direct mappings above.
 *
 * No header: the page tag of the first page says HZ_CLASS_LARGE, the segment knows the length. Usable size is whole
 * pages. Freed runs stay with the arena until it purges them, so a steady state makes no system calls.
 */
#ifndef HZ_BASE_LARGE_H
#define HZ_BASE_LARGE_H

#include "base/compiler.h"

enum {
    HZ_LARGE_ABOVE_LOG2 = 16,
    HZ_LARGE_ABOVE_BYTES = 1 << HZ_LARGE_ABOVE_LOG2, /* larger blocks are "large"; up to here size classes serve */
};

/* At least `size` bytes (> 0) at a multiple of `alignment` (a power of two); zeroed when asked. NULL when the OS
 * refuses. errno untouched. */
void *hz_large_alloc(size_t size, size_t alignment, bool zeroed);

/* `block` has the tag HZ_CLASS_LARGE. */
void hz_large_free(void *block);
size_t hz_large_usable(const void *block);

/* Resizes without copying if that is possible: in place, or by moving the pages of a direct mapping. NULL when not
 * (block untouched). `size` > 0. */
void *hz_large_resize(void *block, size_t size);

/* What hz_large_usable would say for a block of `size`; 0 when size is too big for any. */
size_t hz_large_good_size(size_t size);

#endif
