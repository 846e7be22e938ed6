/*
 * pagetag.c - maps and writes the table of page tags.
 */
#include "base/map/pagetag.h"

#include "base/lists/table.h"
#include "base/os/check.h"
#include "base/os/os.h"

enum {
    SMALL_PAGES_LOG2_MIN = 14, /* 1 GiB of addresses without sharing, 64 KiB of table */
    SMALL_PAGES_LOG2_MAX = 26,
    HUGE_PAGE_BYTES = 2 << 20,
};

static struct hz_pagetag no_tag; /* before initialisation no address is ours */

struct hz_pagetag_table hz_pagetags = {.tags = &no_tag, .mask = 0, .flat = false};

static bool tags_map(unsigned pages_log2, bool flat) {
    size_t bytes = ((size_t)1 << pages_log2) * sizeof(struct hz_pagetag);
    struct hz_pagetag *tags = hz_os_map_zero(bytes, flat ? HUGE_PAGE_BYTES : hz_os_page_bytes());
    if (tags == NULL)
        return false;
    /* NULL needs one small page; mlockall reads the rest of a flat table */
    size_t small_bytes = flat ? HUGE_PAGE_BYTES : bytes;
    hz_os_sparse(tags, small_bytes);
    if (flat)
        hz_os_huge((char *)tags + small_bytes, bytes - small_bytes);
    hz_os_name(tags, bytes, HZ_NAME_TABLES);
    hz_pagetags.tags = tags;
    hz_pagetags.mask = ((uintptr_t)1 << pages_log2) - 1;
    hz_pagetags.flat = flat;
    return true;
}

/* Kernels for arm64 give 36, 39, 42, 47 or 48 bits, those for riscv64 38 or 47. */
static unsigned address_bits(void) {
    static const unsigned char smaller[] = {42, 39};
    unsigned bits = HZ_ADDRESS_BITS;
    for (unsigned i = 0; HZ_ADDRESS_BITS_VARY && i < HZ_ARRAY_LENGTH(smaller); i++) {
        if (hz_os_has_address((uintptr_t)1 << smaller[i]))
            break;
        bits = smaller[i];
    }
    return bits;
}

/* Pages that have tags, beside the lowest ones. Hints; written under the arena's lock */
static _Atomic(uintptr_t) covered_first;
static _Atomic(uintptr_t) covered_end = UINTPTR_MAX;

bool hz_pagetag_init(void) {
    size_t limit = hz_os_address_space_reach();
    if (limit == SIZE_MAX && tags_map(address_bits() - HZ_PAGE_LOG2, true)) {
        hz_store_rlx(&covered_end, hz_pagetags.mask + 1); /* relaxed: hint */
        return true;
    }
    /* the table covers at least four times the limit, so the few mappings within the limit seldom share an entry */
    unsigned pages_log2 = SMALL_PAGES_LOG2_MIN;
    while (pages_log2 < SMALL_PAGES_LOG2_MAX && ((size_t)HZ_PAGE_BYTES << pages_log2) / 4 < limit)
        pages_log2++;
    return tags_map(pages_log2, false);
}

void hz_pagetag_shrink(uintptr_t first, uintptr_t after) {
    uintptr_t lowest_end = HUGE_PAGE_BYTES / sizeof(struct hz_pagetag);
    uintptr_t first_page = hz_max(first >> HZ_PAGE_LOG2, lowest_end);
    uintptr_t end_page = hz_min(after >> HZ_PAGE_LOG2, hz_pagetags.mask + 1);
    hz_store_rlx(&covered_first, first_page); /* relaxed, both: hint */
    hz_store_rlx(&covered_end, end_page);
    hz_os_unmap_within(&hz_pagetags.tags[lowest_end], &hz_pagetags.tags[first_page]);
    hz_os_unmap_within(&hz_pagetags.tags[end_page], &hz_pagetags.tags[hz_pagetags.mask + 1]);
}

bool hz_pagetag_covers(const void *address, size_t bytes) {
    uintptr_t first = (uintptr_t)address >> HZ_PAGE_LOG2;
    /* relaxed, both: hint */
    return first >= hz_load_rlx(&covered_first) && first + (bytes >> HZ_PAGE_LOG2) < hz_load_rlx(&covered_end);
}

bool hz_pagetag_open(const void *address, size_t bytes) {
    static uint64_t opened[HZ_TABLE_WORDS(sizeof(struct hz_pagetag) << (HZ_ADDRESS_BITS - HZ_PAGE_LOG2))];
    const struct hz_table table = {.start = (char *)hz_pagetags.tags, .opened = opened};
    return hz_table_open_locked(&table, hz_pagetag_of(address), hz_pagetag_of((const char *)address + bytes - 1));
}

void hz_pagetag_set(const void *address, size_t pages, unsigned bin, unsigned size_class, unsigned owner) {
    struct hz_pagetag *tag = hz_pagetag_of(address);
    for (size_t i = 0; i < pages; i++) {
        hz_assert(hz_load_rlx(&tag[i].size_class) == 0);
        /* sync: tag-publish, partners hz_pagetag_class, hz_pagetag_owner, hz_heap_free */
        hz_store_rlx(&tag[i].owner, (uint8_t)owner);
        hz_store_rlx(&tag[i].size_class, (uint8_t)size_class);
        hz_store_rlx(&tag[i].bin, (uint16_t)(hz_pagetags.flat ? bin : 0));
    }
}

void hz_pagetag_bin_set(const void *address, unsigned bin) {
    /* sync: tag-publish, partners as in hz_pagetag_set */
    hz_store_rlx(&hz_pagetag_of(address)->bin, (uint16_t)(hz_pagetags.flat ? bin : 0));
}

void hz_pagetag_clear(const void *address, size_t pages) {
    struct hz_pagetag *tag = hz_pagetag_of(address);
    for (size_t i = 0; i < pages; i++) {
        hz_store_rlx(&tag[i].bin, 0); /* sync: tag-publish, partners as in hz_pagetag_set */
        hz_store_rlx(&tag[i].size_class, 0);
        hz_store_rlx(&tag[i].owner, 0);
    }
}

void hz_pagetag_owner_set(const void *address, size_t pages, unsigned owner) {
    struct hz_pagetag *tag = hz_pagetag_of(address);
    for (size_t i = 0; i < pages; i++)
        hz_store_rel(&tag[i].owner, (uint8_t)owner); /* sync: tag-publish, partner hz_pagetag_owner */
}
