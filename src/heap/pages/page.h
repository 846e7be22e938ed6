/*
 * page.h - pages: runs of arena pages cut into blocks of one class, and each shard's lists of pages with free blocks.
 *
 * A page's description lives in the meta of its run's first arena page. A bitmap beside it says which blocks are in the
 * page, so such a block holds nothing of ours, and a block that was never used is never touched.
 *
 * Invariants: capacity = live + free_count, where live counts blocks in transit too, so a page with free_count ==
 * capacity has all its blocks home. free_count = ones in free_bits. A page is on its shard's list <=> free_count > 0,
 * unless it is moving. Bits below word `first_word` are 0. A fork may copy a page between any two stores: the bits are
 * valid at each instant, and the child recounts free_count.
 *
 * All functions need the exclusive of the page's shard, unless they say "any thread" or "known".
 */
#ifndef HZ_HEAP_PAGES_PAGE_H
#define HZ_HEAP_PAGES_PAGE_H

#include "base/arena/arena.h"
#include "base/os/atomic.h"
#include "base/os/os.h"
#include "heap/pages/shard.h"

enum hz_page_list_state {
    HZ_PAGE_UNLISTED,
    HZ_PAGE_LISTED, /* on its shard's list of partial pages */
    HZ_PAGE_MOVING, /* between two shards (adopt.c): on no list, and not retired meanwhile */
};

struct hz_page {
    _Atomic(uint8_t) size_class; /* sync: page-publish; HZ_CLASS_NONE: not a page of ours */
    _Atomic(uint8_t) shard;      /* sync: page-move; changed only under the exclusive of the shard that it names */
    _Atomic(uint8_t) run_pages;  /* const after publish; atomic because walkers may meet a page that is made again */
    uint8_t list_state;          /* lock: enum hz_page_list_state */
    uint32_t block_bytes;        /* const after publish */
    uint32_t capacity;           /* const after publish */
    uint16_t rotation;           /* const after publish: the block that bit 0 stands for; the others follow in a ring */
    uint16_t first_word;         /* lock */
    _Atomic(uint32_t) free_count;  /* lock; atomic for statistics */
    _Atomic(uint32_t) looked_free; /* hint: free_count when a walk last looked at the page (page_purge.c) */
    uint64_t reciprocal;           /* const after publish: 2^RECIPROCAL_SHIFT / block_bytes, rounded up */
    char *start;                   /* const after publish */
    struct hz_page *next;          /* lock */
    struct hz_page *previous;      /* lock */
    /* lock; atomic for statistics: units without memory: purged or never touched, and not carved from since */
    _Atomic(uint64_t) purged_units;
    /* sync: page-remote; in lane pageq the blocks that were sent to the page itself (ways/queues), else 0 */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) _Atomic(uint64_t) remote;
    uint64_t plain_units;       /* lock: of the purged ones, those that were mapped anew */
    uint8_t unit_log2;          /* const after publish: hz_page_unit_log2 */
    uint32_t wrong_bits;        /* const after publish: hz_grid_wrong_bits; a zone's blocks begin at their places */
    struct hz_page *queue_next; /* owner: the sender that queues the page, later the taker of the queue */
    /* sync: page-move; the shard, if its number is HZ_SHARD_OF_ZONE. It stays when the page is retired */
    _Atomic(struct hz_shard *) zone;
    struct hz_page *zone_next; /* lock, both: the shard's zone_pages */
    struct hz_page *zone_previous;
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) uint64_t free_bits[]; /* lock */
};

_Static_assert(sizeof(struct hz_page) + HZ_PAGE_BYTES / HZ_GRANULE_BYTES / 8 <= HZ_PAGE_META_BYTES,
               "a page's description and its bits must fit into the arena's");

/* A page is purged in units: its units are the bits of one word. A unit is the OS's page, or more in a long run. */
HZ_INLINE unsigned hz_page_unit_log2(const struct hz_page *page) {
    return page->unit_log2;
}

/* The units of 2^unit_log2 bytes that `bytes` bytes (not 0) from `offset` on touch. */
HZ_INLINE uint64_t hz_units_touched(unsigned unit_log2, size_t offset, size_t bytes) {
    size_t first = offset >> unit_log2;
    return (UINT64_MAX >> (63 - (((offset + bytes - 1) >> unit_log2) - first))) << first;
}

/* The page that a block lies in. The block is known to be ours. Any thread. */
struct hz_page *hz_page_of(const void *block);

/* Whether a block of the class can begin at the address, which lies in a page of the class: at its place, or, above
   8 KiB, less than the class's grid behind it (base/arena/spread.h). Any thread, after hz_pages_init. Reads no page
   description, except for classes whose runs are longer than a page. */
bool hz_class_has_start(unsigned size_class, const void *address);

/* Prepares hz_class_has_start. Once, before the first page is made. */
void hz_pages_init(void);

/* Whether the invariants at the top of this file hold for a page of the shard that is not being changed. Asked by
   hz_assert after each change of state. */
bool hz_page_is_valid_locked(const struct hz_shard *shard, struct hz_page *page);

/* Whether each of the shard's lists of partial pages has pages of its class and shard, linked both ways; looks at the
   first 8 pages of each list. */
bool hz_shard_is_valid_locked(struct hz_shard *shard);

/* Whether the page has blocks of up to 4 KiB, all of its units were carved from and not purged since, and fewer than a
   quarter of its blocks are free. No part of such a page is likely to go back soon. */
bool hz_page_is_full_of_small_locked(const struct hz_page *page);

/* Whether the block is in its page. */
bool hz_page_has_block_locked(const struct hz_page *page, const void *block);

/* The shard that the page names, which can change until its exclusive is held: ask hz_page_is_of then. The page is, or
   was, one with a class. Any thread. */
struct hz_shard *hz_page_shard(struct hz_page *page);

/* Whether the page belongs to the shard. Under the shard's exclusive the answer stays true until the release. */
bool hz_page_is_of(struct hz_page *page, const struct hz_shard *shard);

/* Carves up to `want` free blocks out of the shard's partial pages; makes no new page. *fresh_units, unless it is NULL:
   the page's units that the last block touches and that had no memory before. */
uint32_t hz_pages_carve_locked(struct hz_shard *shard, unsigned size_class, void **out, uint32_t want,
                               uint64_t *fresh_units);

/* Zeroes the first `size` bytes of a block, except in the units `fresh_units` of its page. */
void hz_page_block_zero(char *block, size_t size, uint64_t fresh_units);

/* Carves one free block out of the shard's partial pages; NULL when there is none. */
void *hz_pages_take_locked(struct hz_shard *shard, unsigned size_class);

/* Takes up to `want` free blocks (at most 64) that lie side by side out of the shard's partial pages, and returns the
   first one; NULL when there is none. `is_first`: the page's other blocks are all free. */
void *hz_pages_reserve_locked(struct hz_shard *shard, unsigned size_class, uint32_t want, uint32_t *count,
                              bool *is_first);

/* Puts back the last blocks of those that one call of hz_pages_reserve_locked has taken. Retires no page. */
void hz_pages_unreserve_locked(struct hz_shard *shard, char *start, uint32_t count);

/* Makes a page and lists it; false when there is no memory. */
bool hz_page_create_locked(struct hz_shard *shard, unsigned size_class);

/* Puts one block of the shard into its page. Returns the number of pages retired by that (0 or 1). */
uint32_t hz_page_put_locked(struct hz_shard *shard, void *block);

/* Puts blocks into their pages, and adds the number of pages retired to *retired. Moves the blocks that belong to other
   shards to the front of the array, and returns their number. Is fastest when blocks of the same page are next to each
   other. */
uint32_t hz_pages_put_locked(struct hz_shard *shard, void **blocks, uint32_t count, uint32_t *retired);

/* A page with free blocks moves from one shard to another. It departs under the exclusive of the shard it leaves, and
   later arrives under the exclusive of the other. In between it is neither listed nor retired. Arrival lists the page
   if it has free blocks, or retires it if all its blocks have come home. Returns the pages retired (0 or 1). */
void hz_page_depart_locked(struct hz_shard *from, struct hz_page *page, struct hz_shard *to);
uint32_t hz_page_arrive_locked(struct hz_shard *to, struct hz_page *page);

/* Retires a page of the shard whose blocks are all home. */
void hz_page_retire_locked(struct hz_shard *shard, struct hz_page *page);

/* Makes all blocks of the page free, as if all had come home. The page stays with the shard and is listed. */
void hz_page_empty_locked(struct hz_shard *shard, struct hz_page *page);

/* Retires every page of the shard and class whose blocks are all home. Returns their number. */
uint32_t hz_pages_retire_all_locked(struct hz_shard *shard, unsigned size_class);

/* In a fork's child: rebuilds, from the pages themselves, the lists of a shard whose lock a vanished thread held. Pages
   that are moving stay so: their mover may be the child's own thread. */
void hz_pages_relink_locked(struct hz_shard *shard);

/* In a fork's child, while its thread is outside the heap and no page is moving: if lists were rebuilt, counts
   the totals over all pages anew. */
void hz_pages_recount_after_fork(void);

/* Bytes of the page that hold no memory. Any thread; exact under the page's lock. */
size_t hz_page_hollow_bytes(const struct hz_page *page);

/* Counts units of the page that were purged (sign 1) or are used again (sign -1). */
void hz_page_count_purged_locked(struct hz_shard *shard, const struct hz_page *page, uint64_t units, int sign);

/* Blocks of the class in all pages of all shards, free or not, and bytes of all pages. Any thread. */
size_t hz_class_blocks(unsigned size_class);
size_t hz_pages_bytes(void);
size_t hz_pages_long_bytes(void); /* of those with long blocks */

/* Calls `visit` for each page of any shard, or for those in the arena's segment `index`. Any thread; pages may come and
   go meanwhile. */
void hz_pages_walk(void (*visit)(void *context, struct hz_page *page), void *context);
void hz_pages_walk_segment(uint32_t index, void (*visit)(void *context, struct hz_page *page), void *context);

#endif
