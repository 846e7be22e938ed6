/*
 * shard.h - shards: the owner identities that pages belong to, and their locks.
 *
 * A thread belongs to one shard; threads beyond the number of shards share. Every consumer of a shard holds its lock
 * `exclusive`: its own threads when they refill, a sender that puts blocks into its pages, a thread that purges or
 * adopts pages. So any thread can take a sleeping owner's memory home, and sharing needs no other rule. Senders to a
 * mailbox take no lock. takers.h has the variants of that rule (src/ways).
 */
#ifndef HZ_HEAP_PAGES_SHARD_H
#define HZ_HEAP_PAGES_SHARD_H

#include "base/lists/lock.h"
#include "heap/knobs.h"
#include "heap/sizeclass.h"
#include "heap/threads/thread_block.h"

struct hz_page;

/* A stack of batches (cache/batches.h). */
struct hz_stack {
    _Atomic(uint64_t) word; /* sync: depot-publish; top batch, number of blocks, tag */
    _Atomic(uint64_t) seen; /* hint: `word` as hz_stack_was_used last saw it */
    _Atomic(bool) is_idle;  /* hint: hz_depot_was_used saw no use of it */
};

/* What a shard has of one class. */
struct hz_shard_class {
    _Atomic(struct hz_page *) partial; /* lock: pages with free blocks, doubly linked; atomic for hints */
    struct hz_stack surplus;           /* a home class's stack in the depot */
    _Atomic(uint32_t) free_blocks;     /* lock: free blocks in the shard's pages; atomic for hints */
};

/* The number of every zone's shard, which no thread belongs to (zone.h). hz_shard_get does not know it. */
enum { HZ_SHARD_OF_ZONE = 255 };

_Static_assert((int)HZ_NUM_SHARDS <= (int)HZ_SHARD_OF_ZONE, "a zone's number is no other shard's");

enum { HZ_CLASS_WORDS = (HZ_CLASS_COUNT + 63) / 64 }; /* of a set of classes */

struct hz_shard {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_lock exclusive;
    /* lock, both; atomic for hints. `free_bytes`: of the free blocks in the shard's pages, less `purged_bytes`: the
       shard's slack. `purged_bytes`: of the pages' purged_units */
    _Atomic(size_t) free_bytes;
    _Atomic(size_t) purged_bytes;
    struct hz_page *zone_pages; /* lock: of a zone's shard (zone.h), all its pages */
    /* Every sender reads the next fields, so they are not on the lock's line. */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) _Atomic(uint32_t) threads; /* sync: shard-claim; threads that belong to it */
    uint32_t index;                                            /* const after publish */
    struct hz_shard_class classes[HZ_CLASS_COUNT];
};

/* The shard of that number; NULL when no thread ever had it. Shards are made in order. */
struct hz_shard *hz_shard_get(unsigned index);

/* For loops over all shards, from hz_shard_get(0) on: the one that was made next; NULL after the last. */
HZ_INLINE struct hz_shard *hz_shard_next(const struct hz_shard *shard) {
    return hz_shard_get(shard->index + 1);
}

/* The shard for a starting thread, among as many as HZ_SHARDS_PER_CPU allows for the CPUs that the process can use now:
   one without threads, else the one with the fewest. NULL when there is no memory for the first shard, or, if
   threads may not share (takers.h), for another one. */
struct hz_shard *hz_shard_claim(void);

/* From now on starting threads share at most `most` shards; 0: as many as the knobs allow, which is the most anyway.
   Threads that have a shard keep it. False, and nothing has changed, if each thread must have a shard of its own
   (HZ_TAKES_UNLOCKED). Any thread. */
bool hz_shard_limit_set(uint32_t most);

/* Gives up a claim, after hz_sent_leave. */
void hz_shard_release(struct hz_shard *shard);

enum hz_lock_purpose { HZ_TO_GET, HZ_TO_GIVE };

/* Takes a shard's exclusive. Counts whose shard it was and whether another thread held the lock, unless `self` is
   hz_thread_none. */
void hz_shard_lock(struct hz_thread_block *self, struct hz_shard *shard, enum hz_lock_purpose purpose);
void hz_shard_unlock(struct hz_shard *shard);

/* Takes the exclusive of the thread's shard, in order to get blocks of the class. If the lock's holder keeps it for a
   second, takes the exclusive of another shard, whose pages serve as well unless the class is a home class: a debugger
   may have stopped the holder, and call malloc in this thread. Returns the shard. `self` is attached. */
struct hz_shard *hz_shard_lock_to_get(struct hz_thread_block *self, unsigned size_class);

#endif
