/*
 * table.h - a large table of zeros whose system pages become writable when they are first needed.
 */
#ifndef HZ_BASE_LISTS_TABLE_H
#define HZ_BASE_LISTS_TABLE_H

#include "base/os/compiler.h"

struct hz_table {
    char *start;
    uint64_t *opened; /* lock: the caller's; a bit for each 4 KiB */
};

/* Words of `opened` for a table of this many bytes. */
#define HZ_TABLE_WORDS(bytes) (((bytes) + (64 << 12) - 1) / (64 << 12))

/* Maps a table of zeros, unless *table has one already: a retry after a failure keeps what it got. It costs what is
   touched of it, and core files do not have it. `is_written`: it can be written; else hz_table_open_locked makes parts
   writable. False when the OS refuses. */
bool hz_table_map(void **table, size_t bytes, bool is_written);

/* Makes the system pages of [first, last] writable. Opens each page only once: a second time would lose its entries.
   False when the OS refuses; a later call tries again. Under the lock of the table's owner. */
bool hz_table_open_locked(const struct hz_table *table, const void *first, const void *last);

#endif
