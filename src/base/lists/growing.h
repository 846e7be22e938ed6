/*
 * growing.h - a table that grows at its end and never moves: reserved address space, of which a beginning can be used.
 */
#ifndef HZ_BASE_LISTS_GROWING_H
#define HZ_BASE_LISTS_GROWING_H

#include "base/os/compiler.h"

struct hz_growing {
    char *start;           /* const after publish; on a multiple of 64 KiB */
    size_t reserved_bytes; /* const after publish */
    size_t open_bytes;     /* lock: the caller's */
};

/* Reserves `bytes`, rounded up to a multiple of 64 KiB. False when the OS refuses. */
bool hz_growing_make(struct hz_growing *table, size_t bytes);

/* Puts all of the table into core files. Until then only what was opened is in them. */
void hz_growing_show(struct hz_growing *table);

/* Gives the address space back. No other thread knows the table. */
void hz_growing_drop(struct hz_growing *table);

/* Makes the first `bytes` bytes usable; new ones are zero. False when the table is full, or when the OS refuses; a
   later call tries again. Under the lock of the table's owner. */
bool hz_growing_reach_locked(struct hz_growing *table, size_t bytes);

#endif
