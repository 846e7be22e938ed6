/*
 * pagetag.h - what belongs to whom: one word per 64 KiB page of address space.
 *
 * Owns one flat table, indexed by (address / page) & mask. In the usual mode it covers the whole user address space (8
 * GiB of address space for 47 bits) and the mask only keeps garbage pointers inside the table. It is mapped read-only
 * and zero; the piece for an address is made writable when the arena gets memory there, so it counts neither for strict
 * overcommit nor for RLIMIT_DATA. Where address space is limited (RLIMIT_AS) the table is small, different addresses
 * share an entry, and `bin` stays 0 everywhere, so that every free takes the slow path, which asks the segment
 * directory whether the address is ours. Decided once, at start.
 *
 * Invariants: a page's tag is 0 unless it is inside a run that is handed out. Only the first page of a large block has
 * a tag. Edge "tag-publish": a tag is written before the first block of its page leaves the thread that made the page,
 * and cleared after the last came back; whoever passes a block on publishes the tag with it. Hence relaxed loads and
 * stores.
 */
#ifndef HZ_BASE_PAGETAG_H
#define HZ_BASE_PAGETAG_H

#include "base/atomic.h"
#include "base/compiler.h"

enum {
    HZ_PAGE_LOG2 = 16,
    HZ_PAGE_BYTES = 1 << HZ_PAGE_LOG2,
};

/* What a tag's class means besides the size classes of the layer above. */
enum {
    HZ_CLASS_NONE = 0,    /* not ours */
    HZ_CLASS_LARGE = 255, /* a large block: a run of pages or a direct mapping */
};

struct hz_pagetag {
    _Atomic(uint16_t) bin;       /* for the fast path: byte offset of the bin; 0 = ask the slow path */
    _Atomic(uint8_t) size_class; /* a size class, HZ_CLASS_LARGE or HZ_CLASS_NONE */
    _Atomic(uint8_t) owner;      /* number of the owner */
};

struct hz_pagetag_table {
    struct hz_pagetag *tags; /* const after publish; before that, one zero tag */
    uintptr_t mask;          /* const after publish */
    bool flat;               /* const after publish: one entry per page of the address space */
};

extern HZ_HIDDEN struct hz_pagetag_table hz_pagetags;

HZ_INLINE struct hz_pagetag *hz_pagetag_of(const void *address) {
    return &hz_pagetags.tags[((uintptr_t)address >> HZ_PAGE_LOG2) & hz_pagetags.mask];
}

HZ_INLINE unsigned hz_pagetag_class(const void *address) {
    return hz_load_rlx(&hz_pagetag_of(address)->size_class); /* sync: tag-publish, by whoever passed the block on */
}

HZ_INLINE unsigned hz_pagetag_owner(const void *address) {
    /* sync: tag-publish, partner hz_pagetag_owner_set: whoever sees an owner finds its shard */
    return hz_load_acq(&hz_pagetag_of(address)->owner);
}

/* Maps the table. Once, under the init lock. False when there is no memory for the smallest. */
bool hz_pagetag_init(void);

/* Makes the table's entries for [address, address + bytes) writable. False when the OS refuses. Under the arena lock.
 */
bool hz_pagetag_open(const void *address, size_t bytes);

/* Tags / untags `pages` pages from `address` on. The caller owns the pages. `bin` is dropped in the small-table mode.
 */
void hz_pagetag_set(const void *address, size_t pages, unsigned bin, unsigned size_class, unsigned owner);
void hz_pagetag_clear(const void *address, size_t pages);

/* Gives tagged pages another owner. Readers may see the old one for a while. */
void hz_pagetag_owner_set(const void *address, size_t pages, unsigned owner);

#endif
