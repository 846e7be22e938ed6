/*
 * figures.h - what the heap holds, by size class, by tier and by thread, collected on demand for statistics.
 *
 * The figures are counted from the heap's structures, not from counters, so every build has them. They are exact while
 * no other thread allocates or frees. Other threads may go on meanwhile: a block that moves can then count in two
 * places or in none, but every sum below holds, and no figure is less than 0. Collecting takes a short lock for each
 * thread and allocates nothing. Any thread, outside the heap.
 *
 * What the heap holds is live, rests or is free: of each row and of the totals, held = live + resting + free. Memory
 * that was given back to the system, or never touched, counts nowhere (it is hollow). A block counts in one row.
 */
#ifndef HZ_HEAP_REPORT_FIGURES_H
#define HZ_HEAP_REPORT_FIGURES_H

#include "base/arena/arena_figures.h"
#include "base/arena/large.h"
#include "base/profile/profile.h"
#include "base/watch/guard_pool.h"
#include "heap/sizeclass.h"

struct hz_registered;
struct hz_stats;

struct hz_class_figures {
    size_t pages;
    size_t run_pages;   /* arena pages */
    size_t capacity;    /* blocks */
    size_t free_blocks; /* in their pages */
    size_t hollow_bytes;
};

/* Where freed blocks rest that are not in their pages. */
enum hz_tier { HZ_IN_BINS, HZ_IN_REMOTE_BUFFERS, HZ_IN_PAGE_LISTS, HZ_IN_SHARDS, HZ_IN_DEPOT, HZ_TIERS };

struct hz_figures {
    struct hz_class_figures classes[HZ_CLASS_COUNT];
    size_t blocks[HZ_TIERS][HZ_CLASS_COUNT];
    struct hz_large_figures large;
    struct hz_arena_figures arena;
    struct hz_guard_figures guard;
    struct hz_profile_figures profile;
};

void hz_figures_get(struct hz_figures *figures);

/* Bytes that rest in a tier. */
size_t hz_figures_tier_bytes(const struct hz_figures *figures, enum hz_tier tier);

/* The sums, as struct hz_stats has them. */
void hz_figures_totals(const struct hz_figures *figures, struct hz_stats *stats);

/* Ranges of sizes. Their bytes make up the totals. */
enum hz_range {
    HZ_RANGE_SMALL,
    HZ_RANGE_MEDIUM,
    HZ_RANGE_LARGE,
    HZ_RANGE_MAPPED,
    HZ_RANGE_GUARDED,
    HZ_RANGE_PROFILED,
    HZ_RANGE_FREE_PAGES, /* pages and units without blocks */
    HZ_RANGES
};

struct hz_range_figures {
    const char *name;
    size_t up_to_bytes; /* the largest size of the range; 0: no limit */
    size_t live_bytes;
    size_t resting_bytes;
    size_t free_bytes; /* in pages, with what is left over behind their last blocks; not what is hollow */
    size_t held_bytes; /* live + resting + free */
    size_t live_blocks;
};

void hz_figures_range(const struct hz_figures *figures, enum hz_range range, struct hz_range_figures *out);

/* A row of the table of sizes: a size class, or the large blocks of about one size. */
struct hz_size_figures {
    size_t block_bytes; /* of a class: exact; of large blocks: at most, and more than half of it */
    bool is_large;
    size_t live_bytes;
    size_t resting_bytes;
    size_t free_bytes; /* as in struct hz_range_figures */
    size_t held_bytes; /* likewise */
    size_t live_blocks;
    size_t resting_blocks;
    size_t free_blocks; /* in pages, hollow or not */
    size_t pages;
};

enum { HZ_SIZES = HZ_CLASS_COUNT + HZ_LARGE_SIZES };

/* Row `index` of 0..HZ_SIZES - 1, by size. False when the heap holds nothing of it. */
bool hz_figures_size(const struct hz_figures *figures, unsigned index, struct hz_size_figures *out);

/* How much of what is held is not live, in thousandths. */
unsigned hz_figures_unused(size_t live_bytes, size_t held_bytes);

/* Bytes of the heap's blocks and free pages that are in memory now. 0 when unknown (hz_os_confine). Takes a millisecond
   or so for each GiB. */
size_t hz_figures_resident(const struct hz_figures *figures);

struct hz_thread_figures {
    unsigned number; /* of the thread block */
    uint32_t id;     /* the kernel's; 0: not known */
    unsigned shard;
    bool is_parked;
    size_t bins_bytes;
    size_t remote_bytes;
    /* bins found empty, and full bins flushed, by all threads that have had the thread block since it was last hollow
     */
    uint64_t refill;
    uint64_t flush;
};

/* False when no thread of the program has the thread block. */
bool hz_figures_thread(struct hz_registered *registered, struct hz_thread_figures *out);

/* Blocks in the bins, or in the remote buffer, of a thread, added to the counts of their classes. */
void hz_figures_add_bins(size_t *blocks, struct hz_registered *registered);
void hz_figures_add_remote_buffer(size_t *blocks, struct hz_registered *registered);

#endif
