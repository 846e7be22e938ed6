/*
 * quarantine.h - the guard build's table of freed blocks that wait before their memory is used again.
 *
 * A block that comes in takes a random place, and the block that was there leaves. So a freed address is used again
 * late and in no order that the program knows. Each place is one atomic word, so that any thread may come at any time,
 * and a fork's child loses at most the blocks that vanished threads had in their hands.
 */
#ifndef HZ_FRONT_QUARANTINE_H
#define HZ_FRONT_QUARANTINE_H

#include "base/os/compiler.h"

/* Puts a freed block of `bytes` bytes in. Returns the block that leaves, which is the caller's now; NULL if none does.
 */
void *hz_quarantine_put(void *block, size_t bytes);

/* Takes a block out, whichever; NULL when there is none. */
void *hz_quarantine_take(void);

/* The block that the calling thread put in last, taken out; NULL if it has left, or was never put in. */
void *hz_quarantine_take_newest(void);

/* Calls `visit` for each block that waits. For a moment at which no other thread runs. */
void hz_quarantine_walk(void *context, void (*visit)(void *context, const void *block));

#endif
