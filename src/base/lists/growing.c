/*
 * growing.c - see growing.h.
 */
#include "base/lists/growing.h"

#include "base/os/atomic.h"
#include "base/os/os.h"

enum { STEP_BYTES = 64 << 10 };

/* Whole steps are reserved: the last step must not open the pages of a mapping that lies behind the table. */
bool hz_growing_make(struct hz_growing *table, size_t bytes) {
    size_t reserved = hz_round_up(bytes, STEP_BYTES);
    *table = (struct hz_growing){.start = hz_os_reserve(reserved, STEP_BYTES), .reserved_bytes = reserved};
    if (table->start == NULL)
        return false;
    hz_os_hide(table->start, reserved);
    hz_os_name(table->start, reserved, HZ_NAME_PROFILE);
    return true;
}

void hz_growing_show(struct hz_growing *table) {
    if (table->start != NULL)
        hz_os_show(table->start, table->reserved_bytes);
}

void hz_growing_drop(struct hz_growing *table) {
    if (table->start != NULL)
        (void)hz_os_unmap(table->start, table->reserved_bytes); /* if refused, address space is lost */
    *table = (struct hz_growing){0};
}

bool hz_growing_reach_locked(struct hz_growing *table, size_t bytes) {
    if (bytes <= table->open_bytes)
        return true;
    if (bytes > table->reserved_bytes)
        return false;
    size_t wanted = hz_round_up(bytes, STEP_BYTES);
    if (!hz_os_commit(table->start + table->open_bytes, wanted - table->open_bytes))
        return false;
    hz_os_show(table->start + table->open_bytes, wanted - table->open_bytes);
    hz_signal_fence(); /* fork: a child whose copy lacks the new end opens it again; it has no entries yet */
    table->open_bytes = wanted;
    return true;
}
