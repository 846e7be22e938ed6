/*
 * direct_cache.h - direct blocks that were freed a moment ago, so that the next block of about that size needs no lock,
 * no claim and no new directory entry.
 *
 * A block in the cache keeps its directory entry, its units and its memory; no address leads to it, and it counts as
 * resting. The cache knows the number of its entry and its length. It has a few slots for each CPU (or for a few CPUs,
 * if there are many), and a slot is one word, which one atomic operation fills or empties. A block that nobody has
 * taken between two looks leaves. Edge "direct-cache": who takes a block sees it as the thread that put it in left it.
 */
#ifndef HZ_BASE_MAP_DIRECT_CACHE_H
#define HZ_BASE_MAP_DIRECT_CACHE_H

#include "base/os/compiler.h"

enum { HZ_DIRECT_NONE = 0 }; /* else 1 + number of a directory entry, of a block that is the caller's now */

/* Takes a block that has as many units as one of `bytes` (at most HZ_REGION_BLOCK_BYTES_MAX), and is not much longer.
   Any thread. */
uint32_t hz_direct_cache_take(size_t bytes);

/* Puts the block of entry `index` in, which is `bytes` long. Returns the block that had to make room. Any thread. */
uint32_t hz_direct_cache_put(uint32_t index, size_t bytes);

/* Old: takes a block that was there at the last look, too. Call it until there is none; then the look has ended. Looks
   are at least `interval_ms` apart; in between it finds none. Any: takes whichever it finds first. Any thread. */
uint32_t hz_direct_cache_take_old(uint32_t interval_ms);
uint32_t hz_direct_cache_take_any(void);

/* Bytes of all blocks in the cache, and of their units. Any thread. */
size_t hz_direct_cache_bytes(void);
size_t hz_direct_cache_unit_bytes(void);

/* In a fork's child, while it has one thread: counts the blocks anew. */
void hz_direct_cache_recount_after_fork(void);

#endif
