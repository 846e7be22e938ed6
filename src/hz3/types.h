/*
 * types.h - the structures of hz3 and their invariants. Who changes a field is said beside it:
 * `owner` = the thread that has the thread block; `lock` = who holds the shard's exclusive; `sync: edge` = any thread.
 */
#ifndef HZ3_TYPES_H
#define HZ3_TYPES_H

#include "base/arena.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/mpsc.h"
#include "base/pagetag.h"
#include "base/thread.h"
#include "hz3/config.h"

/*
 * A bin: a stack of block pointers in the thread block's slots.
 * The slot below the first is always NULL, so "empty" is seen by looking at the block that would be handed out: top[-1]
 * == NULL. base <= top <= limit; the blocks are base[0] .. top[-1]; base = limit - capacity of the class. `top` is
 * atomic because statistics read it from other threads, and because a fork copies it: a block's slot is written before
 * top rises.
 */
struct hz3_bin {
    _Atomic(void **) top; /* owner */
    void **limit;         /* const after publish */
};

/* The page tag's `bin` is the byte offset in the bins, and (size + 15) & ~15 is it too for linear classes. */
_Static_assert(sizeof(struct hz3_bin) == HZ_GRANULE_BYTES, "a class's bin offset is its block size rounded to 16");
_Static_assert(HZ3_CLASS_COUNT * sizeof(struct hz3_bin) <= UINT16_MAX, "a bin offset must fit into a page tag");

/* Per-thread counters: written by the owner, read by statistics. */
struct hz3_counters {
    _Atomic(uint64_t) refill;       /* bins found empty */
    _Atomic(uint64_t) refill_depot; /* of these: served by the depot */
    _Atomic(uint64_t) refill_carry; /* leftovers of an earlier drain */
    _Atomic(uint64_t) refill_stash; /* drains of the stash */
    _Atomic(uint64_t) refill_transfer;
    _Atomic(uint64_t) refill_central;
    _Atomic(uint64_t) refill_page; /* served by pages */
    _Atomic(uint64_t) page_create;
    _Atomic(uint64_t) page_retire;
    _Atomic(uint64_t) flush;       /* bins found full */
    _Atomic(uint64_t) depot_push;  /* batches */
    _Atomic(uint64_t) home_blocks; /* blocks sent home, own ones included */
    _Atomic(uint64_t) stash_send;  /* lists */
    _Atomic(uint64_t) transfer_send;
    _Atomic(uint64_t) central_send;
    _Atomic(uint64_t) direct_home; /* lists put into their pages by the sender */
    _Atomic(uint64_t) remote_free; /* blocks that went through the remote buffer */
    _Atomic(uint64_t) large_alloc;
    _Atomic(uint64_t) large_free;
};

/* One writer: no read-modify-write is needed. */
HZ_INLINE void hz3_count(_Atomic(uint64_t) *counter, uint64_t by) {
    hz_store_rlx(counter, hz_load_rlx(counter) + by); /* relaxed: counter, written by its owner only */
}

enum {
    HZ3_SPARE_BATCHES = 4,
    HZ3_TRANSFER_SLOTS = HZ_CACHE_LINE_BYTES / sizeof(hz_list_word),
};

/* A thread block. The first members are the fast path's; all of it is the owner's unless said otherwise. */
struct hz3_thread {
    struct hz3_bin
        bins[HZ3_CLASS_COUNT]; /* bins[0] is empty and full for ever: tags that say "ask the slow path" lead there */
    const struct hz_pagetag
        *tags; /* const after publish: copies of hz_pagetags, so that free reads no shared variable */
    uintptr_t tag_mask;

    struct hz_thread registered;
    struct hz3_shard *shard; /* the shard this thread belongs to */
    bool exit_armed;         /* the exit hook will be called for it */
    uint32_t remote_count;
    uint32_t slow_count; /* slow-path visits, to look at the clock now and then */
    uint32_t spare_count;
    uint32_t spare[HZ3_SPARE_BATCHES]; /* empty depot batches kept for the next flush */
    void *remote[HZ3_REMOTE_COUNT];    /* the remote buffer: blocks of home classes that belong to other shards */
    struct hz3_counters counters;
    void *slots[];
};

/* What a shard has of one class. Each group of fields has its own line: senders write the first three, the consumer the
 * last. */
struct hz3_shard_class {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_mpsc stash;                               /* sync: stash-publish */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) _Atomic(hz_list_word) transfer[HZ3_TRANSFER_SLOTS]; /* sync: transfer-publish */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_mpsc central;                             /* sync: central-publish */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) _Atomic(hz_list_word) carry; /* lock: leftovers of a drain; atomic for statistics */
    struct hz3_page *partial;                                    /* lock: pages with blocks to give, doubly linked */
};

/* A shard: the pages of an owner identity. `exclusive` serialises every consumer of it. */
struct hz3_shard {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_lock exclusive;
    /* read by every sender: not on the lock's line */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) _Atomic(uint32_t) threads; /* sync: shard-claim; threads that belong to it */
    uint32_t index;                                            /* const after publish */
    _Atomic(uint64_t)
        sent[(HZ3_CLASS_COUNT + 63) / 64]; /* hint: classes that something was sent to since they were drained */
    struct hz3_shard_class classes[HZ3_CLASS_COUNT];
};

/*
 * A page: a run of 1..HZ_RUN_PAGES_MAX arena pages, cut into blocks of one class. Lives in the meta of the run's first
 * page. Which blocks are free is a bitmap beside it: a free block holds nothing of ours, and one that was never used is
 * never touched. capacity = live + free_count, where live counts blocks in transit too: a page with free_count ==
 * capacity has all its blocks home. free_count = ones in free_bits. On the shard's list <=> free_count > 0. Bits below
 * word `first_word` are 0. A fork may copy it between any two stores: the bits are valid in each instant, free_count is
 * recounted then.
 */
struct hz3_page {
    _Atomic(uint8_t) size_class; /* HZ_CLASS_NONE: not a page of ours; sync: page-publish */
    _Atomic(uint8_t) shard; /* const after publish; atomic, as are the next two, because walkers may meet a page that is
                               made again */
    _Atomic(uint8_t) run_pages;   /* const after publish */
    bool listed;                  /* lock */
    uint32_t block_bytes;         /* const after publish */
    uint32_t capacity;            /* const after publish */
    uint32_t rotation;            /* const after publish: bit 0 stands for this block, and so on, round the end */
    _Atomic(uint32_t) free_count; /* lock; atomic for statistics */
    uint32_t first_word;          /* lock */
    uint64_t reciprocal;          /* const after publish: 2^RECIPROCAL_SHIFT / block_bytes, rounded up */
    char *start;                  /* const after publish */
    struct hz3_page *next;        /* lock */
    struct hz3_page *previous;    /* lock */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) uint64_t free_bits[]; /* lock */
};

_Static_assert(sizeof(struct hz3_page) + HZ_PAGE_BYTES / HZ_GRANULE_BYTES / 8 <= HZ_PAGE_META_BYTES,
               "a page's description and its bits must fit into the arena's");

_Static_assert(offsetof(struct hz3_thread, bins) == 0, "a bin's offset is counted from the thread block's start");

extern HZ_HIDDEN HZ_TLS struct hz3_thread *hz3_self; /* never NULL: hz3_thread_none until attached */
extern HZ_HIDDEN struct hz3_thread hz3_thread_none;

/* Bytes of a thread block, its slots included. */
size_t hz3_thread_bytes(void);

HZ_INLINE void **hz3_bin_base(const struct hz3_bin *bin, unsigned size_class) {
    return bin->limit - hz3_bin_capacity(size_class);
}

HZ_INLINE bool hz3_is_attached(const struct hz3_thread *thread) {
    return thread != &hz3_thread_none;
}

#endif
