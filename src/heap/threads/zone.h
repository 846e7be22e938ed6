/*
 * zone.h - heaps of the program's own: what mimalloc calls a first-class heap. hakozuna.h has the public side.
 *
 * A zone is a shard that no thread belongs to. Its pages serve nobody else, and nobody adopts them. Their tags name bin
 * 0 and the owner HZ_SHARD_OF_ZONE, so each free of a zone's block takes the slow path, and the block goes straight
 * into its page, under the zone's lock, whichever thread frees it. No block of a zone ever rests in a bin, a mailbox or
 * the depot. So the zone knows at each instant which of its blocks are live, and can give back all its memory at once.
 *
 * For each class up to HZ_ZONE_BLOCK_MAX a zone has a cursor: a few neighbouring blocks that have left their page, and
 * are handed out from the first to the last. What the cursor has not handed out yet is its reserve. One thread at a
 * time is the zone's user: it takes blocks from the cursors without the lock (hz_zone_pop). Other threads take theirs
 * from the pages. A zone that has no user lends its cursors to whoever holds the lock. The user changes only under the
 * lock. To take the cursors from a user that does not come by, a thread stores NULL into `user`, has all running
 * threads pass a barrier, and looks at the user's `popping`, as it does for a bin (park.h, edge "park"). In between,
 * `left_by` names the former user, which may become the user again; nobody else may touch the cursors.
 *
 * Large blocks of a zone are large blocks like any other (base/arena/large.h) that the zone has on a list; the tag of
 * their first page has the zone's owner. The memory of a zone itself is never given back, but used for the next zone,
 * so that a thread which still looks at one of its pages (page_purge.c) finds a lock there.
 *
 * Any thread may call these functions on any zone or block that nobody is destroying; holding no lock.
 */
#ifndef HZ_HEAP_THREADS_ZONE_H
#define HZ_HEAP_THREADS_ZONE_H

#include "base/map/pagetag.h"
#include "heap/pages/shard.h"

enum {
    HZ_ZONE_BLOCK_LOG2_MAX = 13, /* classes up to this size have cursors */
    HZ_ZONE_BLOCK_MAX = 1 << HZ_ZONE_BLOCK_LOG2_MAX,
    HZ_ZONE_CURSORS = HZ_MID_CLASS_FIRST + (HZ_ZONE_BLOCK_LOG2_MAX - HZ_SMALL_LOG2_MAX) * HZ_STEPS_PER_DOUBLING,
    HZ_ZONE_STRIDE = 4,                              /* cursors that are reset in one step */
    HZ_ZONE_WANT_MAX = HZ_PAGE_BYTES - HZ_SMALL_MAX, /* most bytes that a cursor takes at once */
};

/* Blocks of one class side by side. Offsets are bytes from `start`. */
struct hz_zone_cursor {
    char *start;            /* user; of the first block */
    _Atomic(uint16_t) next; /* user; offset of the next block to hand out; atomic for frees and figures */
    _Atomic(uint16_t) end;  /* user; offset behind the last block, 0: no blocks; atomic for figures */
    uint16_t bytes;         /* user; of a block */
    uint16_t want;          /* user; bytes that the cursor takes the next time, 0: the least */
};

_Static_assert((int)HZ_ZONE_WANT_MAX <= (int)UINT16_MAX && (int)HZ_ZONE_BLOCK_MAX <= (int)HZ_ZONE_WANT_MAX,
               "a cursor's offsets fit, and so does a block");

struct zone_large;

/* "user": written by the thread `user`, or, while user and left_by are NULL, under the lock. */
struct hz_zone {
    _Atomic(struct hz_thread_block *) user;    /* sync: park; the thread that takes blocks without the lock, or NULL */
    _Atomic(struct hz_thread_block *) left_by; /* lock; atomic for fork; the user that a thread is relieving */
    _Atomic(bool) has_reserves;                /* hint: a cursor may have blocks */
    bool is_mixed;                             /* lock: a bit of `mixed` is set */
    /* lock: classes whose pages may lack other blocks than the cursor's, or have some of the cursor's back */
    uint64_t mixed[HZ_CLASS_WORDS];
    _Atomic(uint32_t) makes;    /* lock: how often the zone was made; atomic for looks */
    uint32_t strangers;         /* lock: blocks that other threads than the user took */
    uint32_t strangers_most;    /* lock: at so many the next one becomes the user */
    uint64_t seen;              /* lock: zones_look_lock; digest of the cursors at the last look */
    struct hz_zone *next_made;  /* const after publish */
    struct hz_zone *next_spare; /* lock: spare_zones_lock */
    struct zone_large *large;   /* lock: the large blocks. A fork may copy it at any instant: `next` is always whole */
    struct zone_large *unused;  /* lock: for the next direct blocks */
    uint8_t class_of[HZ_SMALL_MAX / HZ_GRANULE_BYTES + 1]; /* const after publish: by the size in granules */
    struct hz_zone_cursor cursors[(HZ_ZONE_CURSORS + HZ_ZONE_STRIDE - 1) / HZ_ZONE_STRIDE * HZ_ZONE_STRIDE];
    struct hz_shard shard;
};

/* NULL when there is no memory. Call hz_init before. */
struct hz_zone *hz_zone_make(void);

/* Frees all blocks of the zone, and gives the zone up. No other thread uses either meanwhile. */
void hz_zone_drop(struct hz_zone *zone);

/* The next block of the class's cursor; NULL when it has none, or the calling thread is not the zone's user. */
HZ_INLINE void *hz_zone_pop(struct hz_zone *zone, unsigned size_class) {
    struct hz_thread_block *self = hz_self();
    if (HZ_UNLIKELY(hz_load_rlx(&zone->user) != self)) /* relaxed, all: owner */
        return NULL;
    hz_store_rlx(&self->popping, 1); /* sync: park, partner user_is_gone_locked */
    hz_signal_fence();
    char *block = NULL;
    struct hz_zone_cursor *cur = &zone->cursors[size_class];
    HZ_HIDE_VALUE(cur);                                /* otherwise compilers compute the address of each field */
    if (HZ_LIKELY(hz_load_rlx(&zone->user) == self)) { /* otherwise it is being relieved */
        unsigned next = hz_load_rlx(&cur->next);
        if (HZ_LIKELY(next < hz_load_rlx(&cur->end))) {
            hz_store_rlx(&cur->next, (uint16_t)(next + cur->bytes));
            block = cur->start + next;
        }
    }
    hz_store_rel(&self->popping, 0); /* sync: park, partner user_is_gone_locked */
    return block;
}

/* The class of a size up to HZ_SMALL_MAX. */
HZ_INLINE unsigned hz_zone_small_class(const struct hz_zone *zone, size_t size) {
    return zone->class_of[(size + HZ_GRANULE_BYTES - 1) / HZ_GRANULE_BYTES];
}

/* The class of a block of a zone; HZ_CLASS_NONE: it is a large one. `alignment`: a power of two. */
HZ_INLINE unsigned hz_zone_class(size_t alignment, size_t size) {
    if (size > HZ_RUN_ABOVE_BYTES)
        return HZ_CLASS_NONE;
    return HZ_LIKELY(alignment <= HZ_GRANULE_BYTES) ? hz_class_of(size) : hz_class_of_aligned(size, alignment);
}

/* One block of what is left in the class's cursor, of a zone without a user; NULL when nothing is left, or another
   thread is the user. The calling thread becomes the user if `may_use`. */
void *hz_zone_claim(struct hz_zone *zone, struct hz_thread_block *self, bool may_use, unsigned size_class);

/* A block of the zone at a multiple of `alignment`, a power of two; all of its `size` bytes are zero if `zeroed`. NULL
   when the arena has no memory: does not purge, and leaves errno alone. `self` is the calling thread's, and can be
   hz_thread_none. `may_use`: the thread may become the zone's user. */
void *hz_zone_alloc(struct hz_zone *zone, struct hz_thread_block *self, bool may_use, size_t alignment, size_t size,
                    bool zeroed);

/* Whether a block, which is known to be live and ours, is of a zone. */
HZ_INLINE bool hz_zone_has(const void *block) {
    return HZ_UNLIKELY(hz_pagetag_owner(block) == HZ_SHARD_OF_ZONE);
}

/* The zone of a block that has one. */
struct hz_zone *hz_zone_of_block(const void *block);

/* Frees a block of any zone. Ends the program if the address is not the start of a live block. */
void hz_zone_put(void *block);

/* As hz_large_resize, for a large block of a zone. */
void *hz_zone_large_resize(void *block, size_t size, bool may_move);

struct hz_zone_figures {
    size_t live_blocks;
    size_t live_bytes;
    size_t free_bytes; /* in pages that hold blocks */
    size_t held_bytes; /* pages and large blocks */
};

void hz_zone_figures_get(struct hz_zone *zone, struct hz_zone_figures *figures);

/* Adds the reserves of all zones to the counts of blocks by class. */
void hz_zones_count_reserves(size_t *blocks);

/* Calls `visit` for each block that a cursor has not handed out; and for the memory of each zone. For a moment at which
   no other thread is in the heap or takes a zone's block. */
void hz_zones_walk(void (*visit)(void *context, const void *block), void *context);
void hz_zones_memory_walk(void (*visit)(void *context, const void *memory, size_t bytes), void *context);

/* Puts the reserves of zones whose cursors have not moved since the last look into their pages, which then age like
   others. hz_zones_look looks at all zones; it is true if cursors have moved, so that the next look will find more to
   do. hz_zones_look_begin and hz_zones_look_step do the same in steps; a step is true if zones are left.
   hz_zones_settle takes the reserves of all zones at once. `self` is the calling thread's. Only reserves of users that
   are just taking a block stay, and those of other threads if hz_os_barrier fails. */
bool hz_zones_look(struct hz_thread_block *self);
void hz_zones_look_begin(void);
bool hz_zones_look_step(struct hz_thread_block *self);
void hz_zones_settle(struct hz_thread_block *self);

/* In a fork's child: makes the zones usable again. A block that a vanished thread was allocating or freeing may be lost
   until its zone is dropped; a large one, for ever. `self` is the only thread's, or NULL. */
void hz_zones_after_fork(const struct hz_thread_block *self);

#endif
