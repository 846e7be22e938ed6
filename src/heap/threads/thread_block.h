/*
 * thread_block.h - what the heap keeps for each thread. Behind a thread block lie the slots of its bins.
 *
 * Only its owner, the thread that is attached to it, reads and writes a thread block, except where a field says
 * otherwise. A thread that is not attached has hz_thread_none: all its bins are zeros, which malloc reads as empty and
 * free as full, so both fall into their slow paths and no fast path checks whether the thread is attached.
 */
#ifndef HZ_HEAP_THREADS_THREAD_BLOCK_H
#define HZ_HEAP_THREADS_THREAD_BLOCK_H

#include "base/lists/lock.h"
#include "base/lists/registry.h"
#include "base/map/pagetag.h"
#include "base/process/os_life.h"
#include "heap/cache/bin.h"
#include "heap/counters.h"

enum {
    HZ_SPARE_BATCHES = 8,
    HZ_SPARE_KINDS = 2,
};

/* Empty batches that the thread keeps for its next flush (cache/batches.c). */
struct hz_spares {
    uint32_t count;
    uint32_t batches[HZ_SPARE_BATCHES];
};

enum { HZ_OWNER_NONE = 255 }; /* no shard that has threads has this index */

struct hz_shard;
struct hz_thread_block;

/* How the keeper takes blocks out of the bins of a thread that does not use them (park.h). */
struct hz_parking {
    /* lock: hz_registered.lock, here and below; atomic for fork. The thread's hz_self_word; NULL: it cannot be parked
     */
    _Atomic(_Atomic(struct hz_thread_block *) *) self_word;
    _Atomic(bool) parked; /* lock; atomic for hints */
    /* lock; blocks may have been taken out of the bins (hz_bin_take_old), or sampling has begun or ended: there is
       something to do when the thread resumes */
    bool has_holes;
    _Atomic(bool) is_full;   /* lock; atomic for hints. It was parked to settle, and nobody has emptied its bins */
    _Atomic(bool) is_on_cpu; /* hint, owner: the thread frees into the bins of its CPU (cpu_bins.h) */
    uint64_t tops_seen;      /* keeper: digest of the bins' tops at the last round */
    uint64_t unused_at_ms;   /* keeper: when the tops were last seen to have moved */
    struct hz_life life;     /* lock; while self_word is not NULL */
    /* lock while the thread is parked, then owner; hz_slot_*. For each bin, a block that was taken and may come back */
    void *gone[HZ_BINS];
};

/* How allocations of one small size are counted while allocations are sampled. */
struct hz_counting {
    uint16_t bin; /* offset of the class's bin */
    uint16_t weight;
};

/* Which allocations of a thread are sampled, for the sampling guard or for the heap profile (cache/sampler.h). */
struct hz_sampling {
    _Atomic(bool) is_on; /* owner; hint for park.c */
    bool is_by_bytes;    /* true for the heap profile: an allocation's weight is the bytes of its class. Else it is 1 */
    uint64_t random;
    uint64_t countdown; /* sum of the weights of the allocations before the next chosen one, or a little more */
    /* const after publish; by the size in granules, 0 for size 0. Behind the first arrays of slots, since few programs
       are sampled */
    struct hz_counting *of;
};

enum { HZ_COUNTINGS = HZ_SMALL_MAX / HZ_GRANULE_BYTES + 1 };

struct hz_thread_block {
    struct hz_cache cache;
    /* const after publish: copies of hz_pagetags, so that free reads no shared variable */
    const struct hz_pagetag *tags;
    uintptr_t tag_mask;
    uint8_t owner;          /* index of the thread's shard */
    uint8_t owner_expected; /* equals owner, or is HZ_OWNER_NONE (hz_free_offset, tick.c) */
    bool exit_armed;        /* the exit hook will be called for the thread */
    bool is_new;            /* the thread has not used its bins yet (park.c, free.c) */
    bool ticks_soon;        /* its last tick has left something to do (tick.c) */
    bool is_keeper;         /* it sends no blocks to mailboxes (keeper.c, lists/sent.c) */
    /* malloc's bin by its offset, for small sizes in granules, 0 for size 0; and the largest sizes for which it takes
       mid blocks from their bins: mid_max as they are, spread_max after a look at their starts. While
       allocations are sampled: the empty bin, and 0 (cache/sampler.h) */
    uint16_t bin_of[HZ_SMALL_MAX / HZ_GRANULE_BYTES + 1];
    size_t mid_max;
    size_t spread_max;
    struct hz_sampling sampling;
    struct hz_shard *shard;             /* the shard that the thread belongs to */
    uint32_t searched_at;               /* `visits` at the last search for an old bin that found none (cache/room.c) */
    ptrdiff_t room_bytes;               /* of all classes' bins, beyond that of new bins (cache/room.c), */
    ptrdiff_t long_room_bytes;          /* and of those of long blocks */
    uint32_t visits;                    /* slow-path visits (cache/room.c) */
    uint16_t visited[HZ_CLASS_COUNT];   /* for each bin, the low bits of `visits` at the last one */
    uint8_t visit_gaps[HZ_CLASS_COUNT]; /* for each bin, visits from one to the next, smoothed */
    uint32_t frees_watched;             /* frees that were all looked at; ends at HZ_FREES_WATCHED (cache/inspect.h) */
    uint32_t batches_inspected;         /* batches that have left the bins for the depot (cache/inspect.c) */
    uint32_t slow_count;                /* slow-path visits by weight since the last tick (tick.c) */
    uint32_t zone_frees;                /* frees of zones' blocks since they last made a visit (tick.c) */
    uint64_t idle_at_ms;                /* when the last look for idle bins began (cache/room.c) */
    uint32_t idle_next;                 /* bin at which the look goes on; 0: none goes on */
    uint16_t idle_tops[HZ_BINS];        /* each bin's top at the look before, in slots */
    struct hz_spares spares[HZ_SPARE_KINDS];
    _Atomic(uint32_t) busy;    /* sync: park; slow paths that the thread is in, one inside the other */
    _Atomic(uint32_t) popping; /* sync: park; 1 while the thread pops a mid block (hz_malloc_medium) */
    /* const, but NULL while the block is hollow: for walks, which may find it so */
    _Atomic(struct hz_registered *) registered;
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_parking parking; /* other threads read it: on lines of its own */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_counters counters;
};

_Static_assert(offsetof(struct hz_thread_block, cache) == 0, "a bin's offset is counted from the thread block's start");

extern HZ_HIDDEN struct hz_thread_block hz_thread_none;

/* sync: park; the thread's block, or hz_thread_none while it is not attached or is parked (park.h). Never NULL */
extern HZ_HIDDEN HZ_TLS _Atomic(struct hz_thread_block *) hz_self_word;

/* What the fast paths use. Slow paths call hz_thread_enter. */
HZ_INLINE struct hz_thread_block *hz_self(void) {
    return hz_load_rlx(&hz_self_word); /* sync: park, partner hz_park */
}

/* Whether allocations are sampled, for the sampling guard or for the heap profile. */
bool hz_sampling_is_on(void);

/* Finds the places of the slots. Once, before the first thread block is made. */
void hz_thread_blocks_init(void);

/* Bytes of a thread block with its slots. */
size_t hz_thread_block_bytes(void);

/* Lets malloc's fast paths find the bins of all sizes: as they are while nothing is sampled. Owner. */
void hz_thread_block_aim(struct hz_thread_block *thread);

/* Gives back the memory of all thread blocks that no thread has: they become hollow. Returns the bytes. Any thread. */
size_t hz_thread_blocks_purge(void);

/* A new thread block, claimed for the caller; NULL when there is no memory. Call hz_pagetag_init before. */
struct hz_thread_block *hz_thread_block_make(void);

/* The thread block that the caller has claimed. Fills it if it is hollow. */
struct hz_thread_block *hz_thread_block_get(struct hz_registered *registered);

/* What the counters of thread blocks were that have become hollow, added up. */
extern HZ_HIDDEN struct hz_counters hz_thread_blocks_ended;

HZ_INLINE bool hz_is_attached(const struct hz_thread_block *thread) {
    return thread != &hz_thread_none;
}

/* A thread's label for statistics: the number of its shard, and the kernel's number of the thread, 0 if it is not
   known. Without a label are the keeper's thread block, and one that is claimed for a moment, to give back what it
   holds. */
HZ_INLINE uint64_t hz_thread_label_make(unsigned shard, uint32_t thread_id) {
    return (uint64_t)thread_id << 32 | (shard + 1);
}

HZ_INLINE unsigned hz_thread_label_shard(uint64_t label) {
    return (uint32_t)label - 1;
}

HZ_INLINE uint32_t hz_thread_label_id(uint64_t label) {
    return (uint32_t)(label >> 32);
}

/* For walks. The block can be hollow. */
HZ_INLINE struct hz_thread_block *hz_thread_block_from(struct hz_registered *registered) {
    return (struct hz_thread_block *)registered->block;
}

/* NULL if the block is hollow, so never for its owner. Any thread. */
HZ_INLINE struct hz_registered *hz_thread_registered(const struct hz_thread_block *thread) {
    return hz_load_rlx(&thread->registered); /* relaxed: a constant, or NULL */
}

#endif
