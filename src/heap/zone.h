/*
 * zone.h - heaps of the program's own: what mimalloc calls a first-class heap. hakozuna.h has the public side.
 *
 * A zone is a shard that no thread belongs to. Its pages serve nobody else, and nobody adopts them. Their tags name bin
 * 0 and the owner HZ_SHARD_OF_ZONE, so each free of a zone's block takes the slow path, and the block goes straight
 * into its page, under the zone's lock, whichever thread frees it. No block of a zone ever rests in a bin, a mailbox or
 * the depot. So the zone knows at each instant which of its blocks are live, and can give back all its memory at once.
 *
 * Large blocks of a zone are large blocks like any other (base/large.h) that the zone has on a list; the tag of their
 * first page has the zone's owner. The memory of a zone itself is never given back, but used for the next zone, so that
 * a thread which still looks at one of its pages (page_purge.c) finds a lock there.
 *
 * Any thread may call these functions on any zone or block that nobody is destroying; holding no lock.
 */
#ifndef HZ_HEAP_ZONE_H
#define HZ_HEAP_ZONE_H

#include "base/pagetag.h"
#include "heap/pages/shard.h"

struct hz_zone;

/* NULL when there is no memory. Call hz_init before. */
struct hz_zone *hz_zone_make(void);

/* Frees all blocks of the zone, and gives the zone up. No other thread uses either meanwhile. */
void hz_zone_drop(struct hz_zone *zone);

/* A block of the zone at a multiple of `alignment`, a power of two; all of its `size` bytes are zero if `zeroed`. NULL
   when the arena has no memory: does not purge, and leaves errno alone. */
void *hz_zone_alloc(struct hz_zone *zone, size_t alignment, size_t size, bool zeroed);

/* Whether a block, which is known to be live and ours, is of a zone. */
HZ_INLINE bool hz_zone_has(const void *block) {
    return HZ_UNLIKELY(hz_pagetag_owner(block) == HZ_SHARD_OF_ZONE);
}

/* The zone of a block that has one. */
struct hz_zone *hz_zone_of_block(const void *block);

/* Frees a block of any zone. Ends the program if the address is not the start of a live block. */
void hz_zone_put(void *block);

/* As hz_large_resize, for a large block of a zone. */
void *hz_zone_large_resize(void *block, size_t size, bool may_move);

struct hz_zone_figures {
    size_t live_blocks;
    size_t live_bytes;
    size_t free_bytes; /* in pages that hold blocks */
    size_t held_bytes; /* pages and large blocks */
};

void hz_zone_figures_get(struct hz_zone *zone, struct hz_zone_figures *figures);

/* In a fork's child: makes the zones usable again. A block that a vanished thread was allocating or freeing may be lost
   until its zone is dropped; a large one, for ever. */
void hz_zones_after_fork(void);

#endif
