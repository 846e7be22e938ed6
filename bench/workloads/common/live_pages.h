/*
 * live_pages.h - how many system pages hold at least one live block.
 *
 * No allocator without a copying collector can keep less resident, so the count is what its RSS is compared with. The
 * set keeps a bit for each 4 KiB page and 72 bytes for each 2 MiB of addresses, in memory straight from the OS: it
 * neither disturbs the allocator under test nor shows in the peak RSS of a heap that is reasonably dense.
 */
#ifndef WORKLOADS_LIVE_PAGES_H
#define WORKLOADS_LIVE_PAGES_H

#include <stdint.h>

#include "block.h"

struct live_pages {
    struct live_region *regions; /* open addressing; an entry without pages is empty */
    uint64_t capacity, used;     /* entries, a power of two; entries with pages */
};

void live_pages_open(struct live_pages *set);

/* Adds the pages of a live block. */
void live_pages_add(struct live_pages *set, block_ticket block);

/* Closes the set; returns the size of its pages in KiB. */
uint64_t live_pages_close_kb(struct live_pages *set);

#endif /* WORKLOADS_LIVE_PAGES_H */
