/*
 * table.c - see table.h.
 */
#include "base/lists/table.h"

#include "base/os/atomic.h"
#include "base/os/os.h"

bool hz_table_map(void **table, size_t bytes, bool is_written) {
    if (*table != NULL)
        return true;
    size_t rounded = hz_round_up(bytes, hz_os_page_bytes());
    *table = is_written ? hz_os_map(rounded, hz_os_page_bytes(), true) : hz_os_map_zero(rounded, hz_os_page_bytes());
    if (*table == NULL)
        return false;
    hz_os_sparse(*table, rounded);
    if (is_written)
        hz_os_hide(*table, rounded);
    hz_os_name(*table, rounded, HZ_NAME_TABLES);
    return true;
}

bool hz_table_open_locked(const struct hz_table *table, const void *first, const void *last) {
    size_t os_page = hz_os_page_bytes();
    size_t after = (size_t)((const char *)last - table->start) / os_page;
    for (size_t page = (size_t)((const char *)first - table->start) / os_page; page <= after; page++) {
        uint64_t bit = UINT64_C(1) << page % 64;
        if ((table->opened[page / 64] & bit) != 0)
            continue;
        char *address = table->start + page * os_page;
        if (!hz_os_commit(address, os_page))
            return false;
        hz_os_sparse(address, os_page);
        hz_signal_fence(); /* fork: a child whose copy lacks the bit opens the page again; it has no entries yet */
        table->opened[page / 64] |= bit;
    }
    return true;
}
