/*
 * round.c - see round.h.
 *
 * The depot and the mailboxes age, bins of threads that did not use them for PARK_MS are emptied (park.h), parts of
 * pages and free pages are purged, and full units that got small pages are collapsed (pages/collapse.h). All that is
 * static here belongs to the keeper.
 */
#include "heap/back/round.h"

#include "base/arena/arena.h"
#include "base/arena/trim.h"
#include "base/map/direct_cache.h"
#include "cpu_bins.h"
#include "heap/back/density.h"
#include "heap/back/settle.h"
#include "heap/cache/age.h"
#include "heap/cache/depot.h"
#include "heap/pages/collapse.h"
#include "heap/pages/drain.h"
#include "heap/pages/mail.h"
#include "heap/pages/page.h"
#include "heap/pages/page_purge.h"
#include "heap/threads/orphan.h"
#include "heap/threads/park.h"
#include "heap/threads/zone.h"

enum {
    PARK_MS = 1000,      /* how long a thread must leave its bins unused: a shorter pause may be a wait for a CPU */
    PAGES_WALK_MS = 500, /* from one walk over the pages to the next */
};

/* What one thread's bins show. */
struct bins_look {
    uint64_t digest; /* of the tops */
    size_t bytes;    /* of the blocks */
};

static struct bins_look bins_look(struct hz_thread_block *thread) {
    struct bins_look look = {0};
    for (unsigned index = 1; index < HZ_BINS; index++) {
        uint32_t top = hz_load_rlx(&thread->cache.bins[index].top); /* relaxed: hint */
        look.digest = (look.digest ^ top) * UINT64_C(0x9E3779B97F4A7C15);
        if (hz_bin_held(&thread->cache, index) > 0) /* most bins are empty */
            look.bytes += (size_t)hz_bin_figure(&thread->cache, index) *
                          hz_class_shapes[index == HZ_REMOTE_BIN ? 1 : index].bytes;
    }
    return look;
}

enum activity { PARKED, WAITS, WORKS };

_Static_assert((int)HZ_CPU_EMPTY == (int)PARKED && (int)HZ_CPU_RESTS == (int)WAITS && (int)HZ_CPU_WORKS == (int)WORKS,
               "the bins of the CPUs count as the bins of one more thread");

/* Parks a thread whose bins' tops have not moved for PARK_MS, and empties its bins. A thread with empty bins is parked
   too: its next free could otherwise fill them unseen. Adds to *bytes what it keeps. */
static enum activity thread_look(struct hz_thread_block *self, struct hz_thread_block *thread, uint64_t now_ms,
                                 size_t *bytes) {
    struct hz_parking *parking = &thread->parking;
    if (hz_load_rlx(&parking->parked)) /* relaxed: hint */
        return PARKED;
    struct bins_look look = bins_look(thread);
    /* A thread that uses the bins of its CPU does not fill its own unseen: the keeper closes those before it sleeps. */
    if (HZ_HAS_CPU_BINS && hz_cpu_bins_has(thread) && look.bytes == 0)
        return PARKED;
    *bytes += look.bytes;
    if (look.digest != parking->tops_seen) {
        parking->tops_seen = look.digest;
        parking->unused_at_ms = now_ms;
        return WORKS;
    }
    if (now_ms < parking->unused_at_ms + PARK_MS)
        return WAITS;
    if (!hz_park(thread)) /* it is in a slow path, or its end is near */
        return PARKED;
    parking->unused_at_ms = now_ms;
    hz_park_empty(self, thread);
    return PARKED;
}

/* The activity of the busiest thread. */
static enum activity threads_look(struct hz_thread_block *self, uint64_t now_ms, bool can_park, size_t *bytes) {
    enum activity most = PARKED;
    hz_orphans_bury(self);
    while (hz_orphan_reclaim(self)) {
    }
    for (struct hz_registered *each = hz_registry_first(); can_park && each != NULL; each = each->next)
        if (each != hz_thread_registered(self) && hz_load_rlx(&each->state) == HZ_THREAD_USED) /* relaxed: hint */
            most = (enum activity)hz_max(most, thread_look(self, hz_thread_block_from(each), now_ms, bytes));
    return most;
}

/* True if something rests. */
static bool depot_look(struct hz_thread_block *self, size_t *bytes) {
    bool changed = false;
    hz_age_depot_begin();
    while (hz_age_depot_step(self, UINT32_MAX))
        changed = true;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        size_t blocks = hz_depot_blocks(size_class);
        changed |= blocks > 0;
        *bytes += blocks * hz_class_bytes(size_class);
    }
    return changed;
}

static bool mail_look(struct hz_thread_block *self) {
    struct hz_shard *shard;
    bool waits = false;
    hz_shards_age_sent();
    hz_shards_drain_due(self, UINT32_MAX);
    for (unsigned index = 0; (shard = hz_shard_get(index)) != NULL; index++)
        for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
            waits |= hz_shard_was_sent(shard, size_class);
    return waits;
}

/* True if memory has gone back, or cursors of zones have moved. Pages of zones do not wait until the threads rest: what
   threads do says nothing about zones. */
static bool walk(struct hz_thread_block *self, bool purges_pages) {
    uint32_t next = 0;
    bool moved = hz_zones_look(self);
    (void)hz_pages_purge(self, purges_pages ? HZ_PURGE_AGED : HZ_PURGE_ZONES, &next, UINT32_MAX, UINT32_MAX);
    return (hz_thread_blocks_purge() + hz_trim_meta() > 0) | moved;
}

/* True if what is held or rests is not what it was. */
static bool figures_have_changed(void) {
    static size_t held_seen;
    static size_t slack_seen;
    static size_t resting_seen;
    static size_t hollow_seen; /* zones' pages have no part in the slack */
    static size_t cached_seen; /* blocks that leave the cache rest on as units */
    size_t held = hz_pages_bytes();
    size_t slack = hz_density_slack();
    size_t resting = hz_arena_resting_bytes();
    size_t hollow = hz_arena_hollow_bytes();
    size_t cached = hz_direct_cache_bytes();
    bool changed = held != held_seen || slack != slack_seen || resting != resting_seen || hollow != hollow_seen;
    changed |= cached != cached_seen || cached != 0; /* what is in the cache leaves, which takes two rounds */
    held_seen = held;
    slack_seen = slack;
    resting_seen = resting;
    hollow_seen = hollow;
    cached_seen = cached;
    return changed;
}

struct hz_round hz_round_do(struct hz_thread_block *self, uint64_t now_ms, bool can_park) {
    static uint64_t walked_at_ms;
    struct hz_round round = {0};
    bool changed = depot_look(self, &round.rest_bytes);
    changed |= mail_look(self);
    enum activity activity =
        (enum activity)hz_max(threads_look(self, now_ms, can_park, &round.rest_bytes), hz_cpu_bins_look(self));
    changed |= activity != PARKED;
    hz_mail_gather(self);
    hz_density_age();
    hz_settle_all(self);
    if (now_ms >= walked_at_ms + PAGES_WALK_MS) {
        walked_at_ms = now_ms;
        changed |= walk(self, activity != WORKS || hz_settle_is_loose());
    }
    hz_arena_tick();
    changed |= hz_collapse(self);
    changed |= figures_have_changed();
    round.has_changed = changed;
    round.rest_bytes += hz_arena_resting_bytes();
    return round;
}

void hz_round_end(struct hz_thread_block *self) {
    (void)hz_trim_filled();
    (void)hz_pages_purge_filled(self);
}

bool hz_round_is_outdated(struct hz_thread_block *self) {
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next) {
        struct hz_thread_block *thread = hz_thread_block_from(each);
        bool is_active = each != hz_thread_registered(self) &&
                         hz_load_rlx(&each->state) == HZ_THREAD_USED && /* relaxed: hint */
                         !hz_load_rlx(&thread->parking.parked);
        if (is_active && bins_look(thread).digest != thread->parking.tops_seen)
            return true;
    }
    return false;
}
