/*
 * table.h - a large table of zeros (hz_os_map_zero) whose system pages become writable when they are first needed.
 */
#ifndef HZ_BASE_TABLE_H
#define HZ_BASE_TABLE_H

#include "base/compiler.h"

struct hz_table {
    char *start;
    uint64_t *opened; /* lock: the caller's; a bit for each 4 KiB */
};

/* Words of `opened` for a table of this many bytes. */
#define HZ_TABLE_WORDS(bytes) (((bytes) + (64 << 12) - 1) / (64 << 12))

/* Makes the system pages of [first, last] writable. Opens each page only once: a second time would lose its entries.
   False when the OS refuses; a later call tries again. Under the lock of the table's owner. */
bool hz_table_open_locked(const struct hz_table *table, const void *first, const void *last);

#endif
