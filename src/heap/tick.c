/*
 * tick.c - see tick.h. Called by refills, and by frees that find their bin full.
 */
#include "heap/tick.h"

#include "base/arena.h"
#include "base/os.h"
#include "heap/cache/age.h"
#include "heap/cache/flush.h"
#include "heap/cache/idle.h"
#include "heap/cache/room.h"
#include "heap/keeper.h"
#include "heap/pages/density.h"
#include "heap/pages/drain.h"
#include "heap/pages/page_local.h"
#include "heap/pages/page_purge.h"
#include "heap/thread.h"

enum {
    TICK_VISITS = 32,      /* slow-path visits between two looks at the clock */
    VISIT_BYTES_LOG2 = 11, /* a visit for a larger class counts as more, since its blocks hold more */
    TICK_SEGMENTS = 4,     /* limits of one tick: segments that one walk looks at, */
    TICK_OS_CALLS = 32,    /* calls of the OS in one walk, about, */
    TICK_BATCHES = 8,      /* batches of the depot that go home, */
    TICK_CLASSES = 1,      /* and mailboxes that are drained because they are due */
    RESTING_TURNS = 8,     /* ticks from one sum over the depot to the next */
    WALK_MS = 500,         /* from the start of one walk over all pages to the start of the next */
};

/* With a keeper, what is too much goes within a second. Without one this can be the thread's last visit. */
static const struct hz_density_bound bound_with_keeper = {.bytes = 32 << 20, .share = 4};
static const struct hz_density_bound bound_alone = {.bytes = 4 << 20, .share = 8};

static _Atomic(uint64_t) aged_at_ms;                   /* hint */
static _Atomic(uint64_t) walked_at_ms;                 /* hint: when the walk over the pages began */
static _Atomic(bool) walking;                          /* hint: the walk has not ended */
static _Atomic(uint32_t) next_segment[HZ_PURGE_MODES]; /* hint: where the walks go on */
static _Atomic(uint32_t) turn_class;                   /* hint: the class whose turn it was */
static _Atomic(size_t) resting_seen;                   /* hint: bytes in the depot */
static _Atomic(size_t) futile_slack; /* hint: the slack that a walk left because live blocks hold it */

/* One thread wins each interval. */
static bool is_time(_Atomic(uint64_t) *at_ms, uint64_t now, uint64_t interval_ms) {
    uint64_t last = hz_load_rlx(at_ms); /* relaxed: hint */
    /* relaxed: the CAS picks one thread, and publishes nothing */
    return now >= last + interval_ms && hz_cas_rlx_rlx(at_ms, &last, now);
}

/* If the class is sparse, sends home what rests of it: in the depot, in the mailboxes, and in the thread's bin unless
   that is the bin for which the thread is here. */
static void class_settle(struct hz_thread_block *self, unsigned size_class, unsigned busy) {
    if (!hz_class_look(size_class))
        return;
    if (size_class != busy) {
        hz_bin_send_home(self, size_class);
        hz_room_shrink(self, size_class);
    }
    hz_age_depot_class(self, size_class, TICK_BATCHES);
    hz_shards_drain_class(self, size_class);
}

/* Does a part of a walk over the pages; true when the walk has ended. Two threads that walk at once see pages twice. */
static bool pages_purge(struct hz_thread_block *self, enum hz_page_purge_mode mode) {
    uint32_t next = hz_load_rlx(&next_segment[mode]); /* relaxed, both: hint */
    bool done = hz_pages_purge(self, mode, &next, TICK_SEGMENTS, TICK_OS_CALLS);
    hz_store_rlx(&next_segment[mode], next);
    return done;
}

/* While the density is low: settles the class that the thread is here for and the next one in turn, and purges parts of
   pages that changed lately. If a walk over all pages has made the slack no smaller, since live blocks hold it, the
   next walk begins when the slack has grown by a sixteenth or has halved. */
static void density_tick(struct hz_thread_block *self, unsigned busy) {
    uint32_t turn = hz_load_rlx(&turn_class); /* relaxed, all: hint */
    if (turn % RESTING_TURNS == 0)
        hz_store_rlx(&resting_seen, hz_age_resting_bytes());
    turn = turn + 1 < HZ_CLASS_COUNT ? turn + 1 : 1;
    hz_store_rlx(&turn_class, turn);
    if (!hz_density_is_low(hz_load_rlx(&resting_seen), hz_keeper_runs() ? bound_with_keeper : bound_alone))
        return;
    if (busy != HZ_REMOTE_BIN)
        class_settle(self, busy, busy);
    class_settle(self, turn, busy);
    size_t slack = hz_density_slack();
    size_t futile = hz_load_rlx(&futile_slack);
    if (slack <= futile + futile / 16 && slack >= futile / 2)
        return;
    if (pages_purge(self, HZ_PURGE_RECENT))
        hz_store_rlx(&futile_slack, hz_density_slack());
}

/* Purges parts of pages that have not changed since the last walk. */
static void walk_tick(struct hz_thread_block *self, uint64_t now) {
    if (is_time(&walked_at_ms, now, WALK_MS))
        hz_store_rlx(&walking, true); /* relaxed, all: hint */
    if (hz_load_rlx(&walking) && pages_purge(self, HZ_PURGE_AGED))
        hz_store_rlx(&walking, false);
}

void hz_tick(struct hz_thread_block *self, unsigned index) {
    unsigned size_class = index == HZ_REMOTE_BIN ? 1 : index;
    self->slow_count += 1 + (uint32_t)(hz_class_bytes(size_class) >> VISIT_BYTES_LOG2);
    if (self->slow_count < TICK_VISITS)
        return;
    self->slow_count = 0;
    hz_thread_arm(self);
    uint64_t now = hz_os_now_ms();
    hz_idle_bins_flush(self, index, now);
    density_tick(self, index);
    if (hz_keeper_runs())
        return;
    hz_arena_tick();
    walk_tick(self, now);
    if (is_time(&aged_at_ms, now, HZ_DEPOT_AGE_MS)) {
        hz_age_depot_begin();
        hz_shards_age_sent();
        hz_page_local_gather(self);
    }
    hz_age_depot_step(self, TICK_BATCHES);
    hz_shards_drain_due(self, TICK_CLASSES);
}
