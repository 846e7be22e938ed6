/*
 * pagetag.h - page tags: one word per 64 KiB page of address space says what the page is for, and whose it is.
 *
 * Owns one table, indexed by (address / page) & mask. Usually it is flat: it covers the whole user address space (8 GiB
 * of address space for 47 bits, 32 MiB for the 39 bits that some kernels for arm64 give), and the mask only keeps
 * garbage pointers inside the table. It is mapped read-only and zero. The part for an address becomes writable when the
 * arena gets memory there, so the table counts neither for strict overcommit nor for RLIMIT_DATA. Where address space
 * is limited (RLIMIT_AS) the table is small, and different addresses share an entry. `bin` is 0 everywhere then, so
 * that every free takes the slow path, which asks the segment directory whether the address is ours. The choice is made
 * once, at start. A flat table can lose parts later (hz_pagetag_shrink), but no part for addresses that are ours.
 *
 * Invariants: a page's tag is 0 unless the page is handed out. Of a large block only the first page has a tag.
 * Edge "tag-publish": a tag is written before the first block of its page leaves the thread that made the page, and
 * cleared after the last block has come back. A thread that passes a block on publishes the tag with it, so relaxed
 * loads and stores are enough. While blocks are out, only the tag's owner can change (hz_pagetag_owner_set).
 */
#ifndef HZ_BASE_MAP_PAGETAG_H
#define HZ_BASE_MAP_PAGETAG_H

#include "base/os/atomic.h"
#include "base/os/compiler.h"

enum {
    HZ_PAGE_LOG2 = 16,
    HZ_PAGE_BYTES = 1 << HZ_PAGE_LOG2,
};

/* Values of a tag's class beside the size classes of the layer above. */
enum {
    HZ_CLASS_NONE = 0,    /* not ours */
    HZ_CLASS_LARGE = 255, /* a large block: a run of pages or a direct mapping */
};

struct hz_pagetag {
    _Atomic(uint16_t) bin;       /* for the fast path of the layer above; 0 = take the slow path */
    _Atomic(uint8_t) size_class; /* a size class, HZ_CLASS_LARGE or HZ_CLASS_NONE */
    _Atomic(uint8_t) owner;      /* number of the owner in the layer above; a hint */
};

struct hz_pagetag_table {
    struct hz_pagetag *tags; /* const after publish; one zero tag before that */
    uintptr_t mask;          /* const after publish */
    bool flat;               /* const after publish: every page of the address space has its own entry */
};

extern HZ_HIDDEN struct hz_pagetag_table hz_pagetags;

HZ_INLINE struct hz_pagetag *hz_pagetag_of(const void *address) {
    return &hz_pagetags.tags[((uintptr_t)address >> HZ_PAGE_LOG2) & hz_pagetags.mask];
}

HZ_INLINE unsigned hz_pagetag_class(const void *address) {
    /* sync: tag-publish, partner hz_pagetag_set, through the thread that passed the block on */
    return hz_load_rlx(&hz_pagetag_of(address)->size_class);
}

HZ_INLINE unsigned hz_pagetag_owner(const void *address) {
    /* sync: tag-publish, partner hz_pagetag_owner_set. A thread that reads an owner also sees what was published about
     * that owner before */
    return hz_load_acq(&hz_pagetag_of(address)->owner);
}

/* Address space that the table takes. */
HZ_INLINE size_t hz_pagetag_bytes(void) {
    return (hz_pagetags.mask + 1) * sizeof(struct hz_pagetag);
}

/* Whether the address is higher than all that are ours. Then the tag found for it is that of another address. */
HZ_INLINE bool hz_pagetag_is_beyond(const void *address) {
    return (uintptr_t)address >> HZ_PAGE_LOG2 > hz_pagetags.mask && hz_pagetags.flat;
}

/* Maps the table, flat if possible. Once, under a lock of rank HZ_RANK_INIT. False when the OS refuses the small table
   too. */
bool hz_pagetag_init(void);

/* Makes the entries for [address, address + bytes) writable. False when the OS refuses. Under the arena lock. */
bool hz_pagetag_open(const void *address, size_t bytes);

/* Unmaps the parts of a flat table for addresses outside [first, after), because they count against a limit of the
   address space that was set late. The part for the lowest addresses stays. From then on a free of a foreign pointer
   can end the program without our message. Under the arena lock. */
void hz_pagetag_shrink(uintptr_t first, uintptr_t after);

/* Whether the table has tags for these addresses. Under the arena lock, or for addresses that may not be ours: then a
   hz_pagetag_shrink that runs meanwhile can be missed. */
bool hz_pagetag_covers(const void *address, size_t bytes);

/* Sets or clears the tags of `pages` pages from `address` on. The caller owns the pages. A small table drops `bin`. */
void hz_pagetag_set(const void *address, size_t pages, unsigned bin, unsigned size_class, unsigned owner);
void hz_pagetag_clear(const void *address, size_t pages);

/* Sets the bin of the tagged page in which the address lies. The caller owns the page. */
void hz_pagetag_bin_set(const void *address, unsigned bin);

/* Gives tagged pages another owner. Other threads can read the old owner for a while. */
void hz_pagetag_owner_set(const void *address, size_t pages, unsigned owner);

#endif
