/*
 * livemap.h - the map of live blocks, for builds that check: a bit for each possible block start.
 *
 * A block's bit is set when the program gets the block, and cleared when the block comes back. So the very call that
 * frees a block twice, an interior pointer or a foreign pointer is found, on any thread. Compiled in every build, used
 * by the check and the guard build, and with HZ_LIST_FAILFAST=1. Any thread, lock-free. A second bit says whether a
 * free block is sealed (heap/seal.h).
 *
 * Edge "livemap-publish": a thread that finds a segment's map sees its zeroed bits.
 */
#ifndef HZ_BASE_WATCH_LIVEMAP_H
#define HZ_BASE_WATCH_LIVEMAP_H

#include "base/os/compiler.h"

/* The program gets the block. If there is no memory for a map, the segment is not watched. */
void hz_livemap_add(const void *block);

enum hz_livemap_answer {
    HZ_LIVEMAP_OK,       /* was live until this call, or is not watched */
    HZ_LIVEMAP_NOT_LIVE, /* in our memory, but not a live block's start */
    HZ_LIVEMAP_FOREIGN,  /* not in our memory */
};

/* The program gives the block back. Any pointer. */
enum hz_livemap_answer hz_livemap_remove(const void *block);

/* The same question about a block that the program keeps. */
enum hz_livemap_answer hz_livemap_find(const void *block);

/* No block that begins in these bytes of a segment is live any more. */
void hz_livemap_forget(const void *start, size_t bytes);

/* Notes that a block of the arena is sealed. Without memory for a map the block does not count as sealed. */
void hz_livemap_seal(const void *block);
bool hz_livemap_is_sealed(const void *block);

/* From now on no block that begins in these bytes of a segment is sealed. */
void hz_livemap_unseal(const void *start, size_t bytes);

#endif
