/*
 * malloc.h - the slow paths of allocation. NULL and ENOMEM when there is no memory. Any thread, holding no lock.
 */
#ifndef HZ_HEAP_MALLOC_H
#define HZ_HEAP_MALLOC_H

#include "heap/seal.h"
#include "heap/threads/thread_block.h"

/* For a size up to HZ_CLASS_BYTES_MAX whose bin is empty, or a thread that is not attached. */
HZ_NOINLINE void *hz_malloc_slow(size_t size);

/* For a size above HZ_SMALL_MAX. */
HZ_NOINLINE void *hz_malloc_medium(size_t size);

/* A block of a size above HZ_RUN_ABOVE_BYTES that is of no class, zeroed on request. */
void *hz_malloc_run(size_t size, bool zeroed);

/* A zeroed block of a size above HZ_RUN_ABOVE_BYTES: above 512 KiB a run of pages, whose slack is small and of which
   the arena knows which pages are zero. A block carved from a page is zeroed only where the page had memory. */
HZ_NOINLINE void *hz_calloc_long(size_t size);

/* Aligned to a power of two above HZ_GRANULE_BYTES. */
void *hz_malloc_aligned(size_t alignment, size_t size);

/* Makes a zone (zone.h); takes a block from it, at a multiple of `alignment`, any power of two, for which hz_zone_pop
   has no block, zeroed on request; ends the zone. */
struct hz_zone;
struct hz_zone *hz_malloc_zone_make(void);
void *hz_malloc_in_zone(struct hz_zone *zone, size_t alignment, size_t size, bool zeroed);
void hz_malloc_zone_drop(struct hz_zone *zone);

/* Fills the empty bin of a class and takes one block. */
void *hz_malloc_refill(struct hz_thread_block *self, unsigned size_class);

/* The block that the program gets, with its seal broken. NULL is allowed. */
HZ_INLINE void *hz_malloc_unseal(void *block) {
    return HZ_BLOCKS_SEALED ? hz_seal_break(block) : block;
}

#endif
