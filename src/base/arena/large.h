/*
 * large.h - blocks of no size class: runs of pages up to 2 MiB, direct blocks above that.
 *
 * A large block has no header: the tag of its first page says HZ_CLASS_LARGE, and the segment knows its length, which
 * is a multiple of 64 KiB for a run, and of the system's page size for a direct block. The block begins up to 64 KiB
 * behind the start of that memory (spread.h); what can be used is less by so much. The arena keeps freed runs until it
 * purges them, so a steady state makes no system calls. Any thread can call these functions on a block that it holds.
 */
#ifndef HZ_BASE_ARENA_LARGE_H
#define HZ_BASE_ARENA_LARGE_H

#include "base/os/compiler.h"

/* At least `size` bytes (> 0) at a multiple of `alignment` (a power of two), all zero if `zeroed`. NULL when the OS
   refuses. Does not change errno. */
void *hz_large_alloc(size_t size, size_t alignment, bool zeroed);

/* `block` has the tag HZ_CLASS_LARGE. */
void hz_large_free(void *block);
size_t hz_large_bytes(const void *block); /* from the start of its memory */
size_t hz_large_usable(const void *block);

/* Whether a block can begin at the address, which has that tag. */
bool hz_large_may_begin(const void *address);

/* Resizes without copying: in place, or, with `may_move`, by moving the pages of a direct block. When that is not
   possible: NULL, and the block is unchanged. `size` > 0. */
void *hz_large_resize(void *block, size_t size, bool may_move);

/* Bytes of a block that is allocated with `size`; 0 when no block can be that large. */
size_t hz_large_bytes_for(size_t size);

/* Large blocks that are handed out, by size: [n] are those of more than 2^(n-1) and at most 2^n bytes. */
enum { HZ_LARGE_SIZES = 49 };
struct hz_large_figures {
    size_t blocks[HZ_LARGE_SIZES];
    size_t bytes[HZ_LARGE_SIZES]; /* hz_large_bytes */
    size_t direct_count;          /* those of them that are direct blocks */
    size_t direct_bytes;
    size_t alone_count; /* those of the direct blocks that are mappings of their own */
    size_t alone_bytes;
};

/* One walk over the directory gives all of these, so they agree whatever other threads do. */
void hz_large_figures_get(struct hz_large_figures *figures);

#endif
