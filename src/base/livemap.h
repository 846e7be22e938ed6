/*
 * livemap.h - the check build's map of live blocks: a bit for each possible block start.
 *
 * Set when a block is handed to the program, cleared when it comes back; so a second free, a free of an interior
 * pointer and a free of a stranger are all found at once, on whatever thread. Compiled everywhere, used in the check
 * build only.
 */
#ifndef HZ_BASE_LIVEMAP_H
#define HZ_BASE_LIVEMAP_H

#include "base/compiler.h"

/* The block is handed out now. Without memory for the map the block is not watched. */
void hz_livemap_add(const void *block);

enum hz_livemap_answer {
    HZ_LIVEMAP_OK,       /* was live (or is not watched); is not any more */
    HZ_LIVEMAP_NOT_LIVE, /* in our memory, but not a live block's start */
    HZ_LIVEMAP_FOREIGN,  /* not in our memory */
};
enum hz_livemap_answer hz_livemap_remove(const void *block);

#endif
