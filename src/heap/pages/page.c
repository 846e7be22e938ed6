/*
 * page.c - makes, fills, empties and retires pages.
 *
 * Blocks are carved lazily: a page's memory is touched when its blocks are used, not when they are handed out. Carving
 * starts at a block that differs from page to page and wraps around, so that the first blocks of many pages do not fall
 * into the same cache sets. Edge "page-publish": a page's description is written before its class, which walkers read
 * with acquire.
 */
#include "heap/pages/page.h"

#include "base/arena/attributes.h"
#include "base/arena/peak.h"
#include "base/arena/spread.h"
#include "base/os/anatomy.h"
#include "heap/pages/grid.h"
#include "heap/seal.h"
#include "way.h"

#include <string.h>

enum {
    DENSE_BLOCK_BYTES = 4096,
    FULL_FREE_SHARE = 4,         /* a page is full while less than 1/4 of its blocks are free */
    BLOCKS_MIN = 4,              /* a run should hold at least this many blocks, if they are not long */
    ODD_BLOCK_BYTES = 112 << 10, /* runs of blocks up to that have an odd number of pages, at most 7 */
    WASTE_SHARE_MAX = 16,        /* a run should leave at most 1/16 of itself unused */
    STEP_COUNT = 64,             /* blocks whose pages and bits are fetched before any of them is put */
    RECIPROCAL_SHIFT = 42, /* exact for offsets below 2^42 / block_bytes; runs are below 2^22, products below 2^60 */
};

/* counters: change when pages are made and retired */
static _Atomic(size_t) class_blocks[HZ_CLASS_COUNT];
static _Atomic(size_t) pages_bytes;
static _Atomic(size_t) pages_long_bytes;

static bool needs_recount; /* in a fork's child: a vanished thread may have changed a page, but not yet the totals */

HZ_ANATOMY(page, HZ_ANATOMY_FIELD(hz_page, size_class), HZ_ANATOMY_FIELD(hz_page, shard),
           HZ_ANATOMY_FIELD(hz_page, run_pages), HZ_ANATOMY_FIELD(hz_page, block_bytes),
           HZ_ANATOMY_FIELD(hz_page, capacity), HZ_ANATOMY_FIELD(hz_page, rotation),
           HZ_ANATOMY_FIELD(hz_page, free_count), HZ_ANATOMY_FIELD(hz_page, remote),
           HZ_ANATOMY_FIELD(hz_page, purged_units), HZ_ANATOMY_FIELD(hz_page, unit_log2),
           {"hz_page.free_bits", {.number = offsetof(struct hz_page, free_bits)}, sizeof(uint64_t)},
           HZ_ANATOMY_NUMBER(HZ_MID_CLASS_FIRST), HZ_ANATOMY_NUMBER(HZ_CLASS_COUNT), HZ_ANATOMY_NUMBER(HZ_SMALL_MAX),
           HZ_ANATOMY_NUMBER(HZ_CLASS_BYTES_MAX), HZ_ANATOMY_NUMBER(HZ_WAY_IS_QUEUES));

size_t hz_class_blocks(unsigned size_class) {
    return hz_load_rlx(&class_blocks[size_class]); /* relaxed: counter */
}

size_t hz_pages_bytes(void) {
    return hz_load_rlx(&pages_bytes); /* relaxed: counter */
}

size_t hz_pages_long_bytes(void) {
    return hz_load_rlx(&pages_long_bytes); /* relaxed: counter */
}

static uint8_t run_pages_of[HZ_CLASS_COUNT]; /* const after publish */

static struct hz_page *page_at(struct hz_segment *segment, unsigned page) {
    return (struct hz_page *)(void *)segment->meta[page].bytes;
}

struct hz_page *hz_page_of(const void *block) {
    struct hz_segment *segment = hz_segment_get(block);
    return page_at(segment, segment->run_first[hz_segment_page(block)]);
}

static bool has_long_blocks(size_t block_bytes) {
    return block_bytes > HZ_RUN_ABOVE_BYTES;
}

/* Counts a page that is made (sign 1) or retired (-1). */
static void run_count(const struct hz_page *page, int sign) {
    size_t bytes = (size_t)((ptrdiff_t)((size_t)hz_load_rlx(&page->run_pages) << HZ_PAGE_LOG2) * sign);
    hz_add_rlx(&pages_bytes, bytes); /* relaxed, all: counters, const */
    if (has_long_blocks(page->block_bytes))
        hz_add_rlx(&pages_long_bytes, bytes);
}

/* Runs of an even number of pages would put the blocks of many of them into few sets of the TLB. */
static unsigned run_pages_for(size_t block_bytes) {
    size_t least = has_long_blocks(block_bytes) ? 1 : BLOCKS_MIN;
    unsigned step = block_bytes <= ODD_BLOCK_BYTES ? 2 : 1;
    for (unsigned pages = 1; pages < HZ_RUN_PAGES_MAX; pages += step) {
        size_t bytes = (size_t)pages << HZ_PAGE_LOG2;
        if (bytes >= least * block_bytes && bytes % block_bytes <= bytes / WASTE_SHARE_MAX)
            return pages;
    }
    return HZ_RUN_PAGES_MAX;
}

static void list_add(struct hz_shard *shard, struct hz_page *page) {
    _Atomic(struct hz_page *) *head = &shard->classes[hz_load_rlx(&page->size_class)].partial; /* relaxed: const */
    page->previous = NULL;
    page->next = hz_load_rlx(head); /* relaxed, all: lock */
    if (page->next != NULL)
        page->next->previous = page;
    hz_store_rlx(head, page);
    page->list_state = HZ_PAGE_LISTED;
}

static void list_remove(struct hz_shard *shard, struct hz_page *page) {
    if (page->previous != NULL)
        page->previous->next = page->next;
    else /* relaxed, both: const, lock */
        hz_store_rlx(&shard->classes[hz_load_rlx(&page->size_class)].partial, page->next);
    if (page->next != NULL)
        page->next->previous = page->previous;
    page->list_state = HZ_PAGE_UNLISTED;
}

/* Counts blocks that came into the shard's pages (negative: left them). */
static void free_blocks_add(struct hz_shard *shard, unsigned size_class, uint32_t block_bytes, int64_t blocks) {
    struct hz_shard_class *home = &shard->classes[size_class];
    /* relaxed, all: lock */
    hz_store_rlx(&home->free_blocks, hz_load_rlx(&home->free_blocks) + (uint32_t)blocks);
    hz_store_rlx(&shard->free_bytes, hz_load_rlx(&shard->free_bytes) + (size_t)(blocks * block_bytes));
}

/* The page's bytes if they are dense (base/map/huge.h): the program touches nearly every system page of small blocks.
 */
static ptrdiff_t dense_bytes_of(const struct hz_page *page) {
    /* relaxed: lock */
    return page->block_bytes <= DENSE_BLOCK_BYTES ? (ptrdiff_t)hz_load_rlx(&page->run_pages) << HZ_PAGE_LOG2 : 0;
}

bool hz_page_is_full_of_small_locked(const struct hz_page *page) {
    /* relaxed, both: lock */
    return page->block_bytes <= DENSE_BLOCK_BYTES && hz_load_rlx(&page->purged_units) == 0 &&
           hz_load_rlx(&page->free_count) < page->capacity / FULL_FREE_SHARE;
}

/* Bytes of the units that belong to blocks: what is left over behind the last block is not free space. */
static size_t block_bytes_of(const struct hz_page *page, uint64_t units) {
    unsigned log2 = hz_page_unit_log2(page);
    size_t bytes = (size_t)page->capacity * page->block_bytes;
    uint64_t of_blocks = units & hz_units_touched(log2, 0, bytes);
    size_t last = (bytes - 1) >> log2;
    size_t behind = (of_blocks >> last & 1) != 0 ? ((last + 1) << log2) - bytes : 0;
    return ((size_t)__builtin_popcountll(of_blocks) << log2) - behind;
}

/* The same for all bytes of the units. */
static ptrdiff_t all_bytes_of(const struct hz_page *page, uint64_t units) {
    return (ptrdiff_t)((size_t)__builtin_popcountll(units) << hz_page_unit_log2(page));
}

static unsigned unit_log2_for(unsigned run_pages) {
    unsigned least = HZ_PAGE_LOG2 - 6 + (run_pages == 1 ? 0 : hz_log2(run_pages - 1) + 1);
    return (unsigned)hz_max(least, hz_log2(hz_os_page_bytes()));
}

size_t hz_page_hollow_bytes(const struct hz_page *page) {
    unsigned run_pages = (unsigned)hz_max(hz_load_rlx(&page->run_pages), 1); /* relaxed, both: figures */
    uint64_t units = hz_load_rlx(&page->purged_units);
    return units == 0 ? 0 : (size_t)__builtin_popcountll(units) << unit_log2_for(run_pages);
}

void hz_page_count_purged_locked(struct hz_shard *shard, const struct hz_page *page, uint64_t units, int sign) {
    size_t bytes = (size_t)((ptrdiff_t)block_bytes_of(page, units) * sign);
    hz_store_rlx(&shard->free_bytes, hz_load_rlx(&shard->free_bytes) - bytes); /* relaxed, all: lock */
    hz_store_rlx(&shard->purged_bytes, hz_load_rlx(&shard->purged_bytes) + bytes);
    hz_arena_count_hollow(all_bytes_of(page, units) * sign);
}

/* A page comes to the shard, or leaves it, with its free blocks. */
static void page_count(struct hz_shard *shard, const struct hz_page *page, int sign) {
    unsigned size_class = hz_load_rlx(&page->size_class); /* relaxed, both: lock */
    free_blocks_add(shard, size_class, page->block_bytes, (int64_t)sign * hz_load_rlx(&page->free_count));
    uint64_t purged = hz_load_rlx(&page->purged_units); /* relaxed: lock */
    if (purged != 0)
        hz_page_count_purged_locked(shard, page, purged, sign);
}

static void *block_at(const struct hz_page *page, uint32_t bit) {
    uint32_t index = bit + page->rotation;
    index -= index >= page->capacity ? page->capacity : 0;
    return page->start + (size_t)index * page->block_bytes;
}

/* The number of the block in whose memory the address lies, and how far behind its place. */
HZ_INLINE uint32_t block_index(const struct hz_page *page, const void *address, size_t *behind) {
    uint64_t offset = (uint64_t)((const char *)address - page->start);
    uint32_t index = (uint32_t)(offset * page->reciprocal >> RECIPROCAL_SHIFT);
    *behind = (size_t)(offset - (uint64_t)index * page->block_bytes);
    return index;
}

void hz_pages_init(void) {
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        run_pages_of[size_class] = (uint8_t)run_pages_for(hz_class_bytes(size_class));
        hz_grid_set(size_class, run_pages_of[size_class]);
    }
}

bool hz_class_has_start(unsigned size_class, const void *address) {
    if (!hz_class_may_have_start(size_class, address))
        return false;
    if (run_pages_of[size_class] == 1)
        return true;
    const struct hz_page *page = hz_page_of(address);
    size_t behind;
    return block_index(page, address, &behind) < page->capacity && (behind & page->wrong_bits) == 0;
}

/* The bit of a block. Ends the program if the address is not the start of a block. It takes any cache line of the grid,
   hz_class_has_start only those that are possible for the place. */
HZ_INLINE uint32_t block_bit(const struct hz_page *page, const void *block) {
    size_t behind;
    uint32_t index = block_index(page, block, &behind);
    bool is_wrong = HZ_UNLIKELY(behind != 0) && (behind & page->wrong_bits) != 0;
    if (HZ_UNLIKELY(is_wrong || index >= page->capacity))
        hz_misuse(HZ_TEXT_INTERIOR, block, HZ_FOUND_LATER);
    return index >= page->rotation ? index - page->rotation : index + page->capacity - page->rotation;
}

bool hz_page_has_block_locked(const struct hz_page *page, const void *block) {
    uint32_t bit = block_bit(page, block);
    return (page->free_bits[bit / 64] >> (bit % 64) & 1) != 0;
}

static uint32_t word_count(const struct hz_page *page) {
    return (page->capacity + 63) / 64;
}

bool hz_page_is_valid_locked(const struct hz_shard *shard, struct hz_page *page) {
    uint32_t free_count = hz_load_rlx(&page->free_count); /* relaxed, all: lock */
    uint32_t last_bits = page->capacity % 64;
    uint32_t ones = 0;
    bool is_valid = last_bits == 0 || page->free_bits[page->capacity / 64] >> last_bits == 0;
    for (uint32_t word = 0; word < word_count(page); word++) {
        is_valid &= word >= page->first_word || page->free_bits[word] == 0;
        ones += (uint32_t)__builtin_popcountll(page->free_bits[word]);
    }
    is_valid &= ones == free_count && free_count <= page->capacity;
    is_valid &= page->list_state == HZ_PAGE_MOVING || (page->list_state == HZ_PAGE_LISTED) == (free_count > 0);
    is_valid &= (page->plain_units & ~hz_load_rlx(&page->purged_units)) == 0;
    return is_valid && hz_page_is_of(page, shard);
}

bool hz_shard_is_valid_locked(struct hz_shard *shard) {
    enum { PAGES_LOOKED_AT = 8 };
    bool is_valid = true;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        struct hz_page *page = hz_load_rlx(&shard->classes[size_class].partial); /* relaxed, both: lock */
        is_valid &= page == NULL || page->previous == NULL;
        for (int left = PAGES_LOOKED_AT; page != NULL && left > 0; page = page->next, left--) {
            is_valid &= page->list_state == HZ_PAGE_LISTED && hz_load_rlx(&page->size_class) == size_class;
            is_valid &= (page->next == NULL || page->next->previous == page) && hz_page_is_valid_locked(shard, page);
        }
    }
    return is_valid;
}

/* Carves up to `want` blocks, lowest bits first. The lowest comes last in `out`, because a bin pops that one first. */
static uint32_t page_carve(struct hz_page *page, void **out, uint32_t want) {
    uint32_t free_count = hz_load_rlx(&page->free_count); /* relaxed: lock */
    uint32_t count = (uint32_t)hz_min(free_count, want);
    uint32_t word = page->first_word;
    for (uint32_t left = count; left > 0;) {
        uint64_t bits = page->free_bits[word];
        for (; bits != 0 && left > 0; bits &= bits - 1)
            out[--left] = block_at(page, word * 64 + (uint32_t)__builtin_ctzll(bits));
        page->free_bits[word] = bits; /* fork: the page lacks the blocks before any bin has them */
        word += bits == 0 && left > 0;
    }
    page->first_word = (uint16_t)word;
    hz_store_rlx(&page->free_count, free_count - count); /* relaxed: lock */
    return count;
}

/* Takes the free block with the lowest bit out of a page that has a free block. */
static void *page_take(struct hz_page *page) {
    uint32_t word = page->first_word;
    while (page->free_bits[word] == 0)
        word++;
    uint64_t bits = page->free_bits[word];
    page->free_bits[word] = bits & (bits - 1);
    page->first_word = (uint16_t)word;
    hz_store_rlx(&page->free_count, hz_load_rlx(&page->free_count) - 1); /* relaxed: lock */
    return block_at(page, word * 64 + (uint32_t)__builtin_ctzll(bits));
}

static uint64_t units_of(const struct hz_page *page, const void *block) {
    return hz_units_touched(hz_page_unit_log2(page), (size_t)((const char *)block - page->start), page->block_bytes);
}

/* Of the purged units, these no longer are. */
static void unpurge(struct hz_shard *shard, struct hz_page *page, uint64_t units) {
    hz_page_count_purged_locked(shard, page, units, -1);
    hz_store_rlx(&page->purged_units, hz_load_rlx(&page->purged_units) & ~units); /* relaxed, both: lock */
    page->plain_units &= ~units;
    hz_peak_note();
}

/* The units that `count` carved blocks touch are no longer purged. */
static HZ_NOINLINE void unpurge_carved(struct hz_shard *shard, struct hz_page *page, void *const *blocks,
                                       uint32_t count) {
    uint64_t purged = hz_load_rlx(&page->purged_units); /* relaxed: lock */
    uint64_t left = purged;
    for (uint32_t i = 0; i < count; i++)
        left &= ~units_of(page, blocks[i]);
    unpurge(shard, page, purged & ~left);
}

HZ_INLINE void bit_set(struct hz_page *page, uint32_t bit, void *block) {
    uint64_t mask = UINT64_C(1) << (bit % 64);
    uint64_t bits = page->free_bits[bit / 64];
    if (HZ_UNLIKELY((bits & mask) != 0))
        hz_misuse(HZ_TEXT_DOUBLE_FREE, block, HZ_FOUND_LATER);
    if (HZ_BLOCKS_SEALED && HZ_WAY_IS_DIRECT) {
        hz_seals_check(&block, 1, HZ_WRITTEN_ON_THE_WAY);
    } else if (HZ_BLOCKS_SEALED) { /* it was in a list */
        hz_seal_check_linked(block, HZ_WRITTEN_ON_THE_WAY);
        hz_seals_mend(&block, 1);
    }
    page->free_bits[bit / 64] = bits | mask;
    page->first_word = (uint16_t)hz_min(page->first_word, bit / 64);
}

/* `count` blocks have just been carved from a listed page: updates the shard's count, and the list. */
static void blocks_left(struct hz_shard *shard, struct hz_page *page, uint32_t count) {
    free_blocks_add(shard, hz_load_rlx(&page->size_class), page->block_bytes, -(int64_t)count); /* relaxed: lock */
    if (hz_load_rlx(&page->free_count) == 0)
        list_remove(shard, page);
    hz_assert(hz_page_is_valid_locked(shard, page));
}

uint32_t hz_pages_carve_locked(struct hz_shard *shard, unsigned size_class, void **out, uint32_t want,
                               uint64_t *fresh_units) {
    uint32_t got = 0;
    struct hz_page *page;
    while (got < want && (page = hz_load_rlx(&shard->classes[size_class].partial)) != NULL) { /* relaxed: lock */
        uint32_t carved = page_carve(page, out + got, want - got);
        if (HZ_BLOCKS_SEALED)
            hz_seals_check(out + got, carved, HZ_WRITTEN_IN_PAGE);
        uint64_t purged = hz_load_rlx(&page->purged_units); /* relaxed: lock */
        if (HZ_UNLIKELY(fresh_units != NULL))
            *fresh_units = purged & units_of(page, out[got + carved - 1]);
        if (HZ_UNLIKELY(purged != 0))
            unpurge_carved(shard, page, out + got, carved);
        blocks_left(shard, page, carved);
        got += carved;
    }
    return got;
}

void hz_page_block_zero(char *block, size_t size, uint64_t fresh_units) {
    const struct hz_page *page = hz_page_of(block);
    size_t unit_bytes = (size_t)1 << hz_page_unit_log2(page);
    size_t offset = (size_t)(block - page->start);
    size_t behind = offset + size;
    for (size_t next; offset < behind; offset = next) {
        next = hz_min((offset / unit_bytes + 1) * unit_bytes, behind);
        if ((fresh_units >> (offset / unit_bytes) & 1) == 0)
            memset(page->start + offset, 0, next - offset);
    }
}

void *hz_pages_take_locked(struct hz_shard *shard, unsigned size_class) {
    struct hz_page *page = hz_load_rlx(&shard->classes[size_class].partial); /* relaxed: lock */
    if (page == NULL)
        return NULL;
    void *block = page_take(page);
    if (HZ_BLOCKS_SEALED)
        hz_seals_check(&block, 1, HZ_WRITTEN_IN_PAGE);
    uint64_t purged = hz_load_rlx(&page->purged_units); /* relaxed: lock */
    if (purged != 0 && (purged & units_of(page, block)) != 0)
        unpurge_carved(shard, page, &block, 1);
    blocks_left(shard, page, 1);
    return block;
}

void *hz_pages_reserve_locked(struct hz_shard *shard, unsigned size_class, uint32_t want, uint32_t *count,
                              bool *is_first) {
    struct hz_page *page = hz_load_rlx(&shard->classes[size_class].partial); /* relaxed, all: lock */
    if (page == NULL)
        return NULL;
    uint32_t word = page->first_word;
    while (page->free_bits[word] == 0)
        word++;
    uint64_t bits = page->free_bits[word];
    unsigned first = (unsigned)__builtin_ctzll(bits);
    uint64_t after = ~(bits >> first);
    uint32_t run = after == 0 ? 64 : (uint32_t)__builtin_ctzll(after);
    char *start = block_at(page, word * 64 + first);
    size_t offset = (size_t)(start - page->start);
    uint32_t straight = page->capacity - (uint32_t)(offset / page->block_bytes); /* the rest begins at block 0 */
    uint32_t taken = (uint32_t)hz_min(hz_min(run, want), straight);
    page->free_bits[word] = bits & ~((UINT64_MAX >> (64 - taken)) << first);
    page->first_word = (uint16_t)word;
    hz_store_rlx(&page->free_count, hz_load_rlx(&page->free_count) - taken);
    for (uint32_t i = 0; HZ_BLOCKS_SEALED && i < taken; i++) {
        void *block = start + (size_t)i * page->block_bytes;
        hz_seals_check(&block, 1, HZ_WRITTEN_IN_PAGE);
    }
    uint64_t units = hz_load_rlx(&page->purged_units) & /* relaxed: lock */
                     hz_units_touched(hz_page_unit_log2(page), offset, (size_t)taken * page->block_bytes);
    if (units != 0)
        unpurge(shard, page, units);
    blocks_left(shard, page, taken);
    *count = taken;
    *is_first = hz_load_rlx(&page->free_count) + taken == page->capacity;
    return start;
}

void hz_pages_unreserve_locked(struct hz_shard *shard, char *start, uint32_t count) {
    struct hz_page *page = hz_page_of(start);
    uint32_t bit = block_bit(page, start);
    page->free_bits[bit / 64] |= (UINT64_MAX >> (64 - count)) << (bit % 64);
    page->first_word = (uint16_t)hz_min(page->first_word, bit / 64);
    hz_store_rlx(&page->free_count, hz_load_rlx(&page->free_count) + count); /* relaxed, all: lock; hint */
    hz_store_rlx(&page->looked_free, 0);
    free_blocks_add(shard, hz_load_rlx(&page->size_class), page->block_bytes, count);
    if (page->list_state == HZ_PAGE_UNLISTED)
        list_add(shard, page);
    hz_assert(hz_page_is_valid_locked(shard, page));
}

static bool shard_is_zone(const struct hz_shard *shard) {
    return shard->index == HZ_SHARD_OF_ZONE;
}

static void zone_add(struct hz_shard *shard, struct hz_page *page) {
    page->zone_previous = NULL;
    page->zone_next = shard->zone_pages;
    if (page->zone_next != NULL)
        page->zone_next->zone_previous = page;
    shard->zone_pages = page;
}

static void zone_remove(struct hz_shard *shard, struct hz_page *page) {
    if (page->zone_previous != NULL)
        page->zone_previous->zone_next = page->zone_next;
    else
        shard->zone_pages = page->zone_next;
    if (page->zone_next != NULL)
        page->zone_next->zone_previous = page->zone_previous;
}

/* Says whose a new page is. A walker may still have met the page's former self, so it must find the zone once it finds
   the number. */
static void home_set(struct hz_page *page, struct hz_shard *shard) {
    if (shard_is_zone(shard))
        hz_store_rlx(&page->zone, shard);              /* relaxed: published by the number */
    hz_store_rel(&page->shard, (uint8_t)shard->index); /* sync: page-move, partner hz_page_shard */
}

/* The units of a new page that lie in arena pages without memory. */
static uint64_t untouched_units(const struct hz_run *run, const struct hz_page *page) {
    unsigned log2 = hz_page_unit_log2(page);
    uint64_t units = 0;
    for (unsigned index = 0; index < run->pages; index++)
        if ((run->dirty_mask >> (run->first + index) & 1) == 0)
            units |= hz_units_touched(log2, (size_t)index << HZ_PAGE_LOG2, HZ_PAGE_BYTES);
    return units;
}

/* Makes all blocks free. Writes each word once, so that a fork's copy never has a bit without a block. */
static void bits_fill(struct hz_page *page) {
    for (uint32_t word = 0; word < page->capacity / 64; word++)
        page->free_bits[word] = UINT64_MAX;
    if (page->capacity % 64 != 0)
        page->free_bits[page->capacity / 64] = (UINT64_C(1) << (page->capacity % 64)) - 1;
}

/* Of long blocks only the arena pages in which one begins name the bin: the free of an address in another one takes the
   slow path, which finds that no block begins there. */
static void tags_set(const struct hz_page *page, unsigned size_class, unsigned bin, unsigned owner) {
    bool is_long = has_long_blocks(page->block_bytes);
    hz_pagetag_set(page->start, hz_load_rlx(&page->run_pages), is_long ? 0 : bin, size_class,
                   owner); /* relaxed: lock */
    for (uint32_t block = 0; is_long && block < page->capacity; block++)
        hz_pagetag_bin_set(page->start + (size_t)block * page->block_bytes, bin);
}

bool hz_page_create_locked(struct hz_shard *shard, unsigned size_class) {
    size_t block_bytes = hz_class_bytes(size_class);
    struct hz_run run;
    if (!hz_arena_run_alloc(run_pages_of[size_class], 1, &run))
        return false;
    struct hz_page *page = page_at(run.segment, run.first);
    char *start = hz_segment_page_address(run.segment, run.first);
    home_set(page, shard);
    hz_store_rlx(&page->run_pages, (uint8_t)run.pages); /* relaxed, all: published by the class */
    page->block_bytes = (uint32_t)block_bytes;
    page->capacity = (uint32_t)(((size_t)run.pages << HZ_PAGE_LOG2) / block_bytes);
    page->reciprocal = ((UINT64_C(1) << RECIPROCAL_SHIFT) + block_bytes - 1) / block_bytes;
    /* any odd stride over pages and classes will do. In a zone the first block is an early one: a cursor's run ends at
       the page's end */
    uint32_t rotations = shard_is_zone(shard) ? (page->capacity + 3) / 4 : page->capacity;
    page->rotation = (uint16_t)(((uint32_t)((uintptr_t)start >> HZ_PAGE_LOG2) * 7 + size_class * 5) % rotations);
    page->start = start;
    page->list_state = HZ_PAGE_UNLISTED;
    page->first_word = 0;
    hz_store_rlx(&page->looked_free, 0);
    page->unit_log2 = (uint8_t)unit_log2_for(run.pages);
    page->wrong_bits = hz_grid_wrong_bits(shard_is_zone(shard) ? HZ_CLASS_NONE : size_class);
    hz_store_rlx(&page->purged_units, untouched_units(&run, page)); /* relaxed: as above */
    page->plain_units = 0;
    bits_fill(page);
    hz_assert(hz_load_rlx(&page->remote) == 0); /* relaxed: lock */
    hz_store_rlx(&page->free_count, page->capacity);
    hz_add_rlx(&class_blocks[size_class], page->capacity); /* relaxed, both: counter */
    run_count(page, 1);
    hz_huge_count_dense(dense_bytes_of(page));
    /* a zone's blocks never rest in bins: each free takes the slow path */
    unsigned bin = shard_is_zone(shard) ? 0 : (unsigned)hz_bin_offset(size_class);
    tags_set(page, size_class, bin, shard->index); /* sync: tag-publish, partner hz_heap_free */
    /* sync: page-publish, partner hz_pages_walk_segment. The tags come first: a fork's child relinks each page that has
     * a class, and must be able to free its blocks */
    hz_store_rel(&page->size_class, (uint8_t)size_class);
    page_count(shard, page, 1);
    list_add(shard, page);
    if (shard_is_zone(shard))
        zone_add(shard, page);
    hz_assert(hz_page_is_valid_locked(shard, page));
    return true;
}

void hz_page_retire_locked(struct hz_shard *shard, struct hz_page *page) {
    unsigned size_class = hz_load_rlx(&page->size_class); /* relaxed: lock */
    hz_assert(hz_page_is_valid_locked(shard, page));      /* a zone ends with its live blocks */
    hz_assert(shard_is_zone(shard) || hz_load_rlx(&page->free_count) == page->capacity);
    if (page->list_state == HZ_PAGE_LISTED)
        list_remove(shard, page);
    if (shard_is_zone(shard))
        zone_remove(shard, page);
    page_count(shard, page, -1);
    /* sync: page-publish, partner hz_pages_walk_segment. The class goes first, so that a fork's child never relinks a
     * page that is half gone */
    hz_store_rel(&page->size_class, HZ_CLASS_NONE);
    hz_signal_fence();
    hz_sub_rlx(&class_blocks[size_class], page->capacity); /* relaxed, all: counter, lock */
    run_count(page, -1);
    hz_huge_count_dense(-dense_bytes_of(page));
    if (HZ_BLOCKS_SEALED)
        hz_seals_forget(page->start, (size_t)hz_load_rlx(&page->run_pages) << HZ_PAGE_LOG2);
    hz_pagetag_clear(page->start, hz_load_rlx(&page->run_pages));
    hz_arena_run_free(hz_segment_get(page->start), hz_segment_page(page->start));
}

void hz_page_empty_locked(struct hz_shard *shard, struct hz_page *page) {
    uint32_t out = page->capacity - hz_load_rlx(&page->free_count); /* relaxed, all: lock */
    if (HZ_BLOCKS_SEALED)
        hz_seals_forget(page->start, (size_t)hz_load_rlx(&page->run_pages) << HZ_PAGE_LOG2);
    if (HZ_UNLIKELY(hz_attributes_are_set())) /* if that is refused, they stay */
        (void)hz_attributes_end(page->start, (size_t)hz_load_rlx(&page->run_pages) << HZ_PAGE_LOG2);
    bits_fill(page);
    page->first_word = 0;
    hz_store_rlx(&page->free_count, page->capacity);
    hz_store_rlx(&page->looked_free, 0); /* the second purging walk from now retires it (page_purge.c) */
    free_blocks_add(shard, hz_load_rlx(&page->size_class), page->block_bytes, out);
    if (page->list_state == HZ_PAGE_UNLISTED)
        list_add(shard, page);
    hz_assert(hz_page_is_valid_locked(shard, page));
}

static bool all_home(struct hz_page *page) {
    return hz_load_rlx(&page->free_count) == page->capacity; /* relaxed: lock */
}

/* Retires a listed page whose blocks are all home, unless it is the only one on its list: otherwise a class that needs
   one page now and then would make and retire it again and again. That of long blocks is retired in any case: other
   classes may need the memory. */
static uint32_t retire_if_spare(struct hz_shard *shard, struct hz_page *page) {
    bool is_only = page->next == NULL && page->previous == NULL;
    if (!all_home(page) || (is_only && !has_long_blocks(page->block_bytes)))
        return 0;
    hz_page_retire_locked(shard, page);
    return 1;
}

/* Blocks that follow each other in a step and lie in one arena page. */
struct stretch {
    struct hz_page *page;
    uint32_t first, bit; /* number of the first block in the step, and its bit in the page */
};

/* In a large heap, page descriptions are in no cache when blocks go home in random order. So a step prefetches every
   description, then every word of bits: finding a word needs the description. A page of another shard becomes NULL.
   Returns the number of stretches; a sentinel follows. */
static uint32_t stretches_find(struct stretch *all, const struct hz_shard *shard, void *const *blocks, uint32_t count) {
    uintptr_t number = UINTPTR_MAX;
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        if ((uintptr_t)blocks[i] >> HZ_PAGE_LOG2 != number) {
            number = (uintptr_t)blocks[i] >> HZ_PAGE_LOG2;
            all[found].page = hz_page_of(blocks[i]);
            all[found].first = i;
            HZ_PREFETCH_WRITE(all[found++].page);
        }
    all[found].first = count;
    for (struct stretch *each = all; each < all + found; each++) {
        each->page = hz_page_is_of(each->page, shard) ? each->page : NULL;
        if (HZ_UNLIKELY(each->page == NULL))
            continue;
        each->bit = block_bit(each->page, blocks[each->first]);
        HZ_PREFETCH_WRITE(&each->page->free_bits[each->bit / 64]);
    }
    return found;
}

/* Blocks of one class that are in the shard's pages, but not yet in its counts. */
struct uncounted {
    uint32_t blocks, block_bytes;
    unsigned size_class;
};

static void uncounted_add(struct hz_shard *shard, struct uncounted *uncounted) {
    free_blocks_add(shard, uncounted->size_class, uncounted->block_bytes, uncounted->blocks);
    uncounted->blocks = 0;
}

/* Puts `count` blocks into their page; `bit` is the first block's. Returns the pages retired by that. */
HZ_INLINE uint32_t stretch_put(struct hz_shard *shard, struct hz_page *page, uint32_t bit, void *const *blocks,
                               uint32_t count, struct uncounted *uncounted) {
    uint32_t free_count = hz_load_rlx(&page->free_count) + count; /* relaxed, all: lock; hint */
    bit_set(page, bit, blocks[0]);
    for (uint32_t i = 1; i < count; i++)
        bit_set(page, block_bit(page, blocks[i]), blocks[i]);
    hz_store_rlx(&page->free_count, free_count);
    hz_store_rlx(&page->looked_free, 0); /* there may be more to purge, even if the count is as it was */
    if (HZ_UNLIKELY(page->list_state == HZ_PAGE_MOVING))
        return 0; /* counted when it arrives */
    if (HZ_UNLIKELY(page->block_bytes != uncounted->block_bytes)) {
        uncounted_add(shard, uncounted);
        uncounted->block_bytes = page->block_bytes;
        uncounted->size_class = hz_load_rlx(&page->size_class);
    }
    uncounted->blocks += count;
    if (HZ_UNLIKELY(page->list_state == HZ_PAGE_UNLISTED))
        list_add(shard, page);
    hz_assert(hz_page_is_valid_locked(shard, page));
    if (HZ_LIKELY(free_count != page->capacity))
        return 0;
    uncounted_add(shard, uncounted);
    return retire_if_spare(shard, page);
}

uint32_t hz_page_put_locked(struct hz_shard *shard, void *block) {
    struct hz_page *page = hz_page_of(block);
    struct uncounted uncounted = {0};
    hz_assert(hz_page_is_of(page, shard));
    uint32_t retired = stretch_put(shard, page, block_bit(page, block), &block, 1, &uncounted);
    uncounted_add(shard, &uncounted);
    return retired;
}

uint32_t hz_pages_put_locked(struct hz_shard *shard, void **blocks, uint32_t count, uint32_t *retired) {
    struct stretch all[STEP_COUNT + 1];
    struct uncounted uncounted = {0};
    uint32_t strays = 0;
    if (count == 1 && hz_page_is_of(hz_page_of(blocks[0]), shard)) {
        *retired += hz_page_put_locked(shard, blocks[0]);
        return 0;
    }
    for (uint32_t done = 0; done < count; done += STEP_COUNT) {
        void **step = blocks + done;
        uint32_t found = stretches_find(all, shard, step, (uint32_t)hz_min(count - done, STEP_COUNT));
        for (struct stretch *each = all; each < all + found; each++) {
            uint32_t length = each[1].first - each->first;
            if (HZ_LIKELY(each->page != NULL && hz_page_is_of(each->page, shard))) {    /* still the shard's */
                if (HZ_UNLIKELY(hz_load_rlx(&each->page->size_class) == HZ_CLASS_NONE)) /* relaxed: lock; retired? */
                    hz_misuse(HZ_TEXT_DOUBLE_FREE, step[each->first], HZ_FOUND_LATER);
                *retired += stretch_put(shard, each->page, each->bit, step + each->first, length, &uncounted);
            } else
                for (uint32_t i = 0; i < length; i++)
                    blocks[strays++] = step[each->first + i];
        }
    }
    uncounted_add(shard, &uncounted);
    return strays;
}

/* Edge "page-move": a thread that finds the page to be this shard's sees all that was done to it under the lock of its
   former shard. */
bool hz_page_is_of(struct hz_page *page, const struct hz_shard *shard) {
    return hz_load_acq(&page->shard) == shard->index && /* sync: page-move, partner hz_page_depart_locked */
           (shard->index != HZ_SHARD_OF_ZONE || hz_load_rlx(&page->zone) == shard); /* relaxed: written before it */
}

/* The page's description may be purged between the two loads (hz_trim_meta). Then the shard's number is 0 by now. */
struct hz_shard *hz_page_shard(struct hz_page *page) {
    for (;;) {
        unsigned index = hz_load_acq(&page->shard); /* sync: page-move, partners hz_page_depart_locked, home_set */
        if (index != HZ_SHARD_OF_ZONE)
            return hz_shard_get(index);
        struct hz_shard *zone = hz_load_rlx(&page->zone); /* relaxed: written before the number */
        if (HZ_LIKELY(zone != NULL))
            return zone;
    }
}

void hz_page_depart_locked(struct hz_shard *from, struct hz_page *page, struct hz_shard *to) {
    hz_assert(hz_page_is_valid_locked(from, page) && page->list_state == HZ_PAGE_LISTED);
    list_remove(from, page);
    page_count(from, page, -1);
    page->list_state = HZ_PAGE_MOVING;
    /* sync: page-move, partner hz_page_is_of. MOVING is set before the new owner is published; otherwise the page would
     * count as on the new owner's list */
    hz_store_rel(&page->shard, (uint8_t)to->index);
    hz_pagetag_owner_set(page->start, hz_load_rlx(&page->run_pages), to->index); /* relaxed: lock */
}

uint32_t hz_page_arrive_locked(struct hz_shard *to, struct hz_page *page) {
    page->list_state = HZ_PAGE_UNLISTED;
    page_count(to, page, 1);
    if (hz_load_rlx(&page->free_count) == 0) /* relaxed: lock */
        return 0;
    list_add(to, page);
    hz_assert(hz_page_is_valid_locked(to, page));
    return retire_if_spare(to, page);
}

uint32_t hz_pages_retire_all_locked(struct hz_shard *shard, unsigned size_class) {
    uint32_t retired = 0;
    struct hz_page *page = hz_load_rlx(&shard->classes[size_class].partial); /* relaxed: lock */
    hz_assert(hz_shard_is_valid_locked(shard));
    for (struct hz_page *next; page != NULL; page = next) {
        next = page->next;
        if (all_home(page)) {
            hz_page_retire_locked(shard, page);
            retired++;
        }
    }
    return retired;
}

void hz_pages_walk_segment(uint32_t index, void (*visit)(void *context, struct hz_page *page), void *context) {
    struct hz_segment *segment = hz_arena_segment(index);
    /* relaxed: hz_arena_segment has acquired it */
    if (segment == NULL || hz_load_rlx(&segment->kind) != HZ_SEGMENT_PAGED)
        return;
    for (unsigned page = 0; page < HZ_SEGMENT_PAGES; page++)
        /* sync: page-publish, partners hz_page_create_locked, hz_page_retire_locked */
        if (hz_load_acq(&page_at(segment, page)->size_class) != HZ_CLASS_NONE)
            visit(context, page_at(segment, page));
}

void hz_pages_walk(void (*visit)(void *context, struct hz_page *page), void *context) {
    uint32_t count = hz_arena_segment_count();
    for (uint32_t index = 0; index < count; index++)
        hz_pages_walk_segment(index, visit, context);
}

static void relink(void *context, struct hz_page *page) {
    struct hz_shard *shard = context;
    if (!hz_page_is_of(page, shard))
        return;
    uint32_t count = 0;
    for (uint32_t word = 0; word < word_count(page); word++)
        count += (uint32_t)__builtin_popcountll(page->free_bits[word]);
    hz_store_rlx(&page->free_count, count); /* relaxed: one thread */
    page->first_word = 0;
    if (shard_is_zone(shard))
        zone_add(shard, page);
    if (page->list_state == HZ_PAGE_MOVING) /* its mover, or hz_adopt_settle_fork, lists it */
        return;
    page->list_state = HZ_PAGE_UNLISTED;
    page_count(shard, page, 1);
    if (count > 0)
        list_add(shard, page);
}

void hz_pages_relink_locked(struct hz_shard *shard) {
    hz_store_rlx(&shard->free_bytes, 0); /* relaxed, all: one thread */
    hz_store_rlx(&shard->purged_bytes, 0);
    shard->zone_pages = NULL;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        hz_store_rlx(&shard->classes[size_class].free_blocks, 0);
        hz_store_rlx(&shard->classes[size_class].partial, NULL);
    }
    hz_pages_walk(relink, shard);
    needs_recount = true;
}

static void totals_add(void *hollow, struct hz_page *page) {
    /* relaxed, all: one thread */
    hz_add_rlx(&class_blocks[hz_load_rlx(&page->size_class)], page->capacity);
    run_count(page, 1);
    hz_huge_count_dense(dense_bytes_of(page));
    *(ptrdiff_t *)hollow += (ptrdiff_t)hz_page_hollow_bytes(page);
}

void hz_pages_recount_after_fork(void) {
    if (!needs_recount)
        return;
    needs_recount = false;
    ptrdiff_t hollow = 0;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        hz_store_rlx(&class_blocks[size_class], 0); /* relaxed, both: one thread */
    hz_store_rlx(&pages_bytes, 0);
    hz_store_rlx(&pages_long_bytes, 0);
    hz_huge_dense_set(0);
    hz_pages_walk(totals_add, &hollow);
    hz_arena_count_hollow(hollow - (ptrdiff_t)hz_arena_hollow_bytes());
}
