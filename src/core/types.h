/*
 * types.h - the structures of both engines and their invariants. Who changes a field is said beside it:
 * `owner` = the thread that has the thread block; `lock` = who holds the shard's exclusive; `sync: edge` = any thread.
 */
#ifndef HZ_CORE_TYPES_H
#define HZ_CORE_TYPES_H

#include "base/arena.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/mpsc.h"
#include "base/pagetag.h"
#include "base/thread.h"
#include "core/knobs.h"
#include "mailbox.h" /* struct hz_mailbox: how the engine sends blocks home */

/*
 * A bin: a stack of block pointers, the newest in the bin itself, the older ones in the thread block's slots, which are
 * named by their offset in the thread block: so all that a free needs of a bin is in 16 bytes. base <= top <= limit; it
 * has top - base blocks: `newest`, and below it base[1] .. top[-1]. base[0] is always NULL, so the block below the last
 * one is "none", and an empty bin has newest == NULL. The limit is a slot too, for flushes; limit - base is the bin's
 * room, which may grow to its capacity (room.c). `top` is atomic because statistics read it from other threads. A fork
 * may copy a bin between two stores: such a copy lacks a block, and has none twice, nor one that the program has. It
 * may be empty and have a newest all the same; that is mended in the child (hz_thread_bins_after_fork).
 */
struct hz_bin {
    void *newest;          /* owner; hz_slot_* */
    _Atomic(uint32_t) top; /* owner */
    uint32_t limit;        /* owner; changes while the bin is full or empty */
};

enum {
    HZ_REMOTE_BIN = HZ_CLASS_COUNT, /* the remote buffer: blocks of home classes that belong to other shards */
    HZ_BINS,
};

/* A bin is named by its byte offset in the bins, in page tags and in the table of sizes. */
_Static_assert(sizeof(struct hz_bin) == 16, "four bins to a cache line");
_Static_assert(HZ_CLASS_COUNT * sizeof(struct hz_bin) <= UINT16_MAX, "a bin offset must fit into a page tag");

/* Per-thread counters: written by the owner, read by statistics. What each counts is in the .def files. */
struct hz_counters {
#define COUNTER(group, field, name, kind, text) _Atomic(uint64_t) field;
#include "core/counters.def"
#include "engine_counters.def"
#undef COUNTER
    /* blocks that left mid bins by flushes, less those that refills brought; modulo 2^64. With hits and what the bins
       hold it tells how many were freed, which free need not count. */
    _Atomic(uint64_t) mid_moved;
};

/* One writer: no read-modify-write is needed. */
HZ_INLINE void hz_count(_Atomic(uint64_t) *counter, uint64_t by) {
    hz_store_rlx(counter, hz_load_rlx(counter) + by); /* relaxed: counter, written by its owner only */
}

enum {
    HZ_SPARE_BATCHES = 8,
    HZ_SPARE_KINDS = 2,
    HZ_GROUPS = 256,               /* slots of the table that groups blocks by owner and class */
    HZ_HOME_COUNT = HZ_GROUPS / 2, /* blocks grouped at once: the table is never more than half full */
};

_Static_assert(HZ_GROUPS <= 256, "a slot's number must fit into a byte");

/* Blocks of one owner and class on their way home; valid if `epoch` is the table's. */
struct hz_group {
    uint32_t epoch;
    uint8_t owner;
    uint8_t size_class;
    struct hz_list list;
};

/* A hash table with linear probing, cleared by counting the epoch up. Used inside one call of hz_home_send only. */
struct hz_groups {
    uint32_t epoch;
    struct hz_group slots[HZ_GROUPS];
};

/* Empty depot batches kept for the next flush. */
struct hz_spares {
    uint32_t count;
    uint32_t batches[HZ_SPARE_BATCHES];
};

/* A thread block; behind it are the slots of its bins. The first members are the fast path's; all of it is the owner's
   unless said otherwise. */
struct hz_thread_block {
    struct hz_bin bins[HZ_BINS]; /* bins[0] is empty and full for ever: tags that say "ask the slow path" lead there */
    const struct hz_pagetag
        *tags; /* const after publish: copies of hz_pagetags, so that free reads no shared variable */
    uintptr_t tag_mask;
    uint8_t owner;   /* the shard's index */
    bool exit_armed; /* the exit hook will be called for it */
    /* const after publish: the bin's offset by the size in granules; 0 for none */
    uint16_t bin_of[HZ_SMALL_MAX / HZ_GRANULE_BYTES + 1];
    struct hz_shard *shard;  /* the shard this thread belongs to */
    uint32_t bases[HZ_BINS]; /* const after publish: where each bin's slots begin */
    uint8_t streak_class;    /* the class that came to a slow path last, */
    uint8_t streak;          /* and how often in a row since it last grew */
    uint32_t slow_count;     /* slow-path visits, to look at the clock now and then */
    struct hz_spares spares[HZ_SPARE_KINDS];
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES)
    struct hz_thread registered; /* others walk the registry: not on the owner's lines */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_counters counters;
    struct hz_groups groups;
};

/* What a shard has of one class. Senders write the mailbox, which has lines of its own; the consumer the rest. */
struct hz_shard_class {
    struct hz_mailbox mail;
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) _Atomic(hz_list_word) carry; /* lock: leftovers of a drain; atomic for statistics */
    _Atomic(struct hz_page *) partial; /* lock: pages with blocks to give, doubly linked; atomic for hints */
};

/* A shard: the pages of an owner identity. `exclusive` serialises every consumer of it. */
struct hz_shard {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_lock exclusive;
    /* read by every sender: not on the lock's line */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) _Atomic(uint32_t) threads; /* sync: shard-claim; threads that belong to it */
    uint32_t index;                                            /* const after publish */
    _Atomic(uint64_t)
        sent[(HZ_CLASS_COUNT + 63) / 64]; /* hint: classes that something was sent to since they were drained */
    struct hz_shard_class classes[HZ_CLASS_COUNT];
};

enum hz_page_list_state {
    HZ_PAGE_UNLISTED,
    HZ_PAGE_LISTED, /* on its shard's list of partial pages */
    HZ_PAGE_MOVING, /* between two shards (adopt.c): neither listed nor retired meanwhile */
};

/*
 * A page: a run of 1..HZ_RUN_PAGES_MAX arena pages, cut into blocks of one class. Lives in the meta of the run's first
 * page. Which blocks are free is a bitmap beside it: a free block holds nothing of ours, and one that was never used is
 * never touched. capacity = live + free_count, where live counts blocks in transit too: a page with free_count ==
 * capacity has all its blocks home. free_count = ones in free_bits. On the shard's list <=> free_count > 0, unless it
 * is moving. Bits below word `first_word` are 0. A fork may copy it between any two stores: the bits are valid in each
 * instant, free_count is recounted then.
 */
struct hz_page {
    _Atomic(uint8_t) size_class;  /* HZ_CLASS_NONE: not a page of ours; sync: page-publish */
    _Atomic(uint8_t) shard;       /* sync: page-move; changed under the exclusive of the shard it names only */
    _Atomic(uint8_t) run_pages;   /* const after publish; atomic because walkers may meet a page that is made again */
    uint8_t list_state;           /* lock: enum hz_page_list_state */
    uint32_t block_bytes;         /* const after publish */
    uint32_t capacity;            /* const after publish */
    uint32_t rotation;            /* const after publish: bit 0 stands for this block, and so on, round the end */
    _Atomic(uint32_t) free_count; /* lock; atomic for statistics */
    uint32_t first_word;          /* lock */
    uint64_t reciprocal;          /* const after publish: 2^RECIPROCAL_SHIFT / block_bytes, rounded up */
    char *start;                  /* const after publish */
    struct hz_page *next;         /* lock */
    struct hz_page *previous;     /* lock */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_mpsc remote; /* sync: page-remote; blocks sent to the page itself */
    struct hz_page *queue_next;                            /* who made `remote` long enough, then who took the queue */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) uint64_t free_bits[];  /* lock */
};

_Static_assert(sizeof(struct hz_page) + HZ_PAGE_BYTES / HZ_GRANULE_BYTES / 8 <= HZ_PAGE_META_BYTES,
               "a page's description and its bits must fit into the arena's");

_Static_assert(offsetof(struct hz_thread_block, bins) == 0, "a bin's offset is counted from the thread block's start");

extern HZ_HIDDEN HZ_TLS struct hz_thread_block *hz_self; /* never NULL: hz_thread_none until attached */
extern HZ_HIDDEN struct hz_thread_block hz_thread_none;

/* Bytes of a thread block, its slots included. */
size_t hz_thread_bytes(void);

/* By an offset in the bins: classes, and tags, name their bins so. */
HZ_INLINE struct hz_bin *hz_bin_at(struct hz_thread_block *self, size_t offset) {
    return (struct hz_bin *)(void *)((char *)self + offset); /* the bins come first in the thread block */
}

HZ_INLINE size_t hz_bin_offset(unsigned size_class) {
    return size_class * sizeof(struct hz_bin);
}

HZ_INLINE void **hz_slot_at(struct hz_thread_block *thread, uint32_t offset) {
    return (void **)(void *)((char *)thread + offset);
}

/* Blocks that a bin can hold at most. `index`: a class, or HZ_REMOTE_BIN; so for all that follow. */
HZ_INLINE uint32_t hz_bin_slots(unsigned index) {
    return index == HZ_REMOTE_BIN ? HZ_REMOTE_COUNT : hz_bin_capacity(index);
}

/* Where the first slot is, the one that is always NULL. */
HZ_INLINE void **hz_bin_base(struct hz_thread_block *thread, unsigned index) {
    return hz_slot_at(thread, thread->bases[index]);
}

/* How many blocks a bin has; for other threads a figure. */
HZ_INLINE uint32_t hz_bin_held(struct hz_thread_block *thread, unsigned index) {
    /* relaxed: owner, or figure */
    return (uint32_t)(hz_slot_at(thread, hz_load_rlx(&thread->bins[index].top)) - hz_bin_base(thread, index));
}

/* How many blocks a bin may hold now. Owner. */
HZ_INLINE uint32_t hz_bin_room(const struct hz_thread_block *self, unsigned index) {
    return (self->bins[index].limit - self->bases[index]) / (uint32_t)sizeof(void *);
}

/* `room`: what the bin holds at least, its slots at most. */
HZ_INLINE void hz_bin_room_set(struct hz_thread_block *self, unsigned index, uint32_t room) {
    self->bins[index].limit = self->bases[index] + room * (uint32_t)sizeof(void *);
}

/* The newest block; NULL when there is none. */
HZ_INLINE void *hz_bin_pop(struct hz_thread_block *self, struct hz_bin *bin) {
    void *block = hz_slot_load_rlx(&bin->newest); /* relaxed, all: owner */
    if (HZ_UNLIKELY(block == NULL))
        return NULL;
    void *older = hz_slot_load_rlx(hz_slot_at(self, hz_load_rlx(&bin->top)) - 1);
    hz_owner_add_rel(&bin->top, -(int)sizeof(void *));
    hz_signal_fence(); /* fork: a copy must not have `older` twice */
    hz_slot_store_rlx(&bin->newest, older);
    hz_signal_fence(); /* ... nor the block that the caller has now */
    return block;
}

/* `top`: the bin's, which is below its limit. */
HZ_INLINE void hz_bin_push(struct hz_thread_block *self, struct hz_bin *bin, uint32_t top, void *block) {
    hz_signal_fence(); /* fork: the caller is done with the block */
    hz_slot_store_rlx(hz_slot_at(self, top), hz_slot_load_rlx(&bin->newest)); /* relaxed, all: owner */
    hz_slot_store_rlx(&bin->newest, block);
    /* release: a fork's copy must not have the top without the block */
    hz_owner_add_rel(&bin->top, (int)sizeof(void *));
}

/* Takes all of a bin out; they are base[1] .. base[count], the oldest first, until the bin is used again. What a fork
   copies from now on has an empty bin. */
HZ_INLINE uint32_t hz_bin_empty(struct hz_thread_block *self, unsigned index) {
    struct hz_bin *bin = &self->bins[index];
    uint32_t count = hz_bin_held(self, index);
    if (count == 0)
        return 0;
    hz_slot_store_rlx(hz_bin_base(self, index) + count, hz_slot_load_rlx(&bin->newest)); /* relaxed, all: owner */
    hz_store_rel(&bin->top, hz_load_rlx(&bin->top) - count * (uint32_t)sizeof(void *));
    hz_signal_fence();
    hz_slot_store_rlx(&bin->newest, NULL);
    return count;
}

/* An empty bin has base[1] .. base[count] from now on. */
HZ_INLINE void hz_bin_fill(struct hz_thread_block *self, unsigned index, uint32_t count) {
    struct hz_bin *bin = &self->bins[index];
    hz_assert(hz_bin_held(self, index) == 0 && count <= hz_bin_room(self, index));
    hz_slot_store_rlx(&bin->newest, count > 0 ? hz_bin_base(self, index)[count] : NULL); /* relaxed, all: owner */
    /* release: as in hz_bin_push */
    hz_store_rel(&bin->top, hz_load_rlx(&bin->top) + count * (uint32_t)sizeof(void *));
}

HZ_INLINE bool hz_is_attached(const struct hz_thread_block *thread) {
    return thread != &hz_thread_none;
}

#endif
