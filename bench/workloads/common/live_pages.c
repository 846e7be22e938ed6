/*
 * live_pages.c - see live_pages.h.
 */
#include "live_pages.h"

#include "machine.h"

enum {
    PAGE_LOG2 = 12,
    REGION_LOG2 = 21,
    PAGES_IN_REGION = 1 << (REGION_LOG2 - PAGE_LOG2),
    WORDS = PAGES_IN_REGION / 64
};
enum { CAPACITY_START = 64 };

struct live_region {
    uint64_t number; /* address >> REGION_LOG2 */
    uint64_t bits[WORDS];
};

static bool is_empty(const struct live_region *region) {
    for (unsigned i = 0; i < WORDS; i++) {
        if (region->bits[i] != 0) {
            return false;
        }
    }
    return true;
}

/* The region's entry, or the empty entry that it would take. */
static struct live_region *find(const struct live_pages *set, uint64_t number) {
    uint64_t at = block_key(number) >> 32;
    for (;; at++) {
        struct live_region *region = &set->regions[at & (set->capacity - 1)];
        if (region->number == number || is_empty(region)) {
            return region;
        }
    }
}

static void grow(struct live_pages *set) {
    struct live_pages old = *set;
    set->capacity *= 2;
    set->regions = machine_map(set->capacity, sizeof *set->regions);
    for (uint64_t i = 0; i < old.capacity; i++) {
        if (!is_empty(&old.regions[i])) {
            *find(set, old.regions[i].number) = old.regions[i];
        }
    }
    machine_unmap(old.regions, old.capacity, sizeof *old.regions);
}

void live_pages_open(struct live_pages *set) {
    *set = (struct live_pages){.capacity = CAPACITY_START};
    set->regions = machine_map(set->capacity, sizeof *set->regions);
}

static void add_page(struct live_pages *set, uint64_t page) {
    struct live_region *region = find(set, page >> (REGION_LOG2 - PAGE_LOG2));
    if (is_empty(region)) {
        if (++set->used > set->capacity / 2) {
            grow(set);
            region = find(set, page >> (REGION_LOG2 - PAGE_LOG2));
        }
        region->number = page >> (REGION_LOG2 - PAGE_LOG2);
    }
    region->bits[page % PAGES_IN_REGION / 64] |= UINT64_C(1) << page % 64;
}

void live_pages_add(struct live_pages *set, block_ticket block) {
    uint64_t first = block & BLOCK_ADDRESS_MASK;
    uint64_t last = first + block_bytes(block) - 1;
    for (uint64_t page = first >> PAGE_LOG2; page <= last >> PAGE_LOG2; page++) {
        add_page(set, page);
    }
}

uint64_t live_pages_close_kb(struct live_pages *set) {
    uint64_t pages = 0;
    for (uint64_t i = 0; i < set->capacity; i++) {
        for (unsigned word = 0; word < WORDS; word++) {
            pages += (uint64_t)__builtin_popcountll(set->regions[i].bits[word]);
        }
    }
    machine_unmap(set->regions, set->capacity, sizeof *set->regions);
    return pages << PAGE_LOG2 >> 10;
}
