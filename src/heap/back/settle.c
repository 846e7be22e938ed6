/*
 * settle.c - see settle.h.
 */
#include "heap/back/settle.h"

#include "base/arena/arena.h"
#include "cpu_bins.h"
#include "heap/back/density.h"
#include "heap/cache/age.h"
#include "heap/cache/allowance.h"
#include "heap/cache/flush.h"
#include "heap/cache/room.h"
#include "heap/pages/drain.h"
#include "heap/pages/page_purge.h"

enum {
    SETTLE_SEGMENTS = 4, /* limits of a tick: segments that one walk looks at, */
    SETTLE_CALLS = 32,   /* calls of the OS in one walk, about, */
    SETTLE_BATCHES = 8,  /* and batches of a sparse class that leave the depot */
    LOOSE_BYTES = 32 << 20,
    LOOSE_SHARE = 4,
    RESTING_TURNS = 16, /* ticks from one sum over the depot to the next */
    TICK_BYTES = 16 << 20,
    TICK_THREAD_BYTES = 2 << 20,
    TICK_BYTES_MAX = 128 << 20,
};

/* For the keeper, every 100 ms; for ticks without a keeper; for all of them above the soft limit. */
static const struct hz_density_bound bound_of_keeper = {.bytes = 64 << 20, .share = 1};
static const struct hz_density_bound bound_alone = {.bytes = 4 << 20, .share = 8};
static const struct hz_density_bound bound_above_soft = {.bytes = 0, .share = 32};

static _Atomic(uint32_t) next_segment[HZ_PURGE_MODES]; /* hint: where the walks go on */
static _Atomic(uint32_t) turn_class;                   /* hint: the class whose turn it was */
static _Atomic(size_t) resting_seen;                   /* hint: bytes in the depot */
static _Atomic(size_t) futile_slack; /* hint: the slack that a walk left because live blocks hold it */
static _Atomic(bool) walk_is_whole;  /* hint: the density has been low since the walk's beginning */

/* Does a part of a walk over the pages; true when the walk has ended. Two threads that walk at once see pages twice. */
static bool walk_part(struct hz_thread_block *self, enum hz_page_purge_mode mode) {
    uint32_t next = hz_load_rlx(&next_segment[mode]); /* relaxed, both: hint */
    bool done = hz_pages_purge(self, mode, &next, SETTLE_SEGMENTS, SETTLE_CALLS);
    hz_store_rlx(&next_segment[mode], next);
    return done;
}

bool hz_settle_is_loose(void) {
    return hz_density_slack() > LOOSE_BYTES + hz_density_out() / LOOSE_SHARE;
}

bool hz_settle_walk(struct hz_thread_block *self) {
    return walk_part(self, HZ_PURGE_AGED);
}

/* For ticks beside the keeper, against what grows much faster than it comes. A few threads need less at rest than many
   do; a lower bound halves the speed of rings of 64 threads with blocks of up to 64 KiB. */
static struct hz_density_bound bound_with_keeper(void) {
    size_t bytes = TICK_BYTES + hz_allowance_threads() * (size_t)TICK_THREAD_BYTES;
    return (struct hz_density_bound){.bytes = hz_min(bytes, TICK_BYTES_MAX), .share = 1};
}

static struct hz_density_bound bound_now(struct hz_density_bound bound) {
    return hz_arena_is_over_soft() ? bound_above_soft : bound;
}

/* Sums up anew what rests if the answer depends on it: the last sum may be from before a purge. */
static bool density_is_low(struct hz_density_bound bound) {
    bound = bound_now(bound);
    if (!hz_density_is_low(hz_load_rlx(&resting_seen), bound)) /* relaxed, all: hint */
        return false;
    if (hz_density_is_low(0, bound))
        return true;
    hz_store_rlx(&resting_seen, hz_age_resting_bytes());
    return hz_density_is_low(hz_load_rlx(&resting_seen), bound);
}

/* If a walk over all pages has made the slack no smaller, since live blocks hold it, the next walk begins when the
   slack has grown by a sixteenth or has halved. */
static bool is_futile(void) {
    size_t slack = hz_density_slack();
    size_t futile = hz_load_rlx(&futile_slack); /* relaxed: hint */
    return slack <= futile + futile / 16 && slack >= futile / 2;
}

/* If the class is sparse, sends home what rests of it in the depot and in the mailboxes. Above the soft limit does so
   in any case. */
static bool class_settle(struct hz_thread_block *self, unsigned size_class, uint32_t batches) {
    if (!hz_class_look(size_class) && !hz_arena_is_over_soft())
        return false;
    hz_age_depot_class(self, size_class, batches);
    hz_shards_drain_class(self, size_class);
    return true;
}

/* The class after the one whose turn it was. */
static uint32_t turn_next(void) {
    uint32_t turn = hz_load_rlx(&turn_class); /* relaxed, both: hint */
    turn = turn + 1 < HZ_CLASS_COUNT ? turn + 1 : 1;
    hz_store_rlx(&turn_class, turn);
    return turn;
}

/* Settles the class that the thread is here for, and another one. */
static void classes_settle(struct hz_thread_block *self, unsigned busy, unsigned turn) {
    if (busy != HZ_REMOTE_BIN)
        (void)class_settle(self, busy, SETTLE_BATCHES);
    if (class_settle(self, turn, SETTLE_BATCHES) && turn != busy) {
        hz_bin_send_home(self, turn);
        hz_cpu_bins_class_send(self, turn);
        hz_room_shrink(self, turn);
    }
}

bool hz_settle_tick(struct hz_thread_block *self, unsigned busy, bool keeper_runs) {
    uint32_t turn = turn_next();
    if (turn % RESTING_TURNS == 0)
        hz_store_rlx(&resting_seen, hz_age_resting_bytes()); /* relaxed, all: hint */
    if (!density_is_low(keeper_runs ? bound_with_keeper() : bound_alone)) {
        if (hz_load_rlx(&walk_is_whole))
            hz_store_rlx(&walk_is_whole, false);
        if (!keeper_runs) /* else the keeper decides, by a lower bound */
            hz_classes_forget_sparse();
        return false;
    }
    classes_settle(self, busy, turn);
    if (is_futile())
        return false;
    if (hz_load_rlx(&next_segment[HZ_PURGE_RECENT]) == 0)
        hz_store_rlx(&walk_is_whole, true);
    if (walk_part(self, HZ_PURGE_RECENT) && hz_load_rlx(&walk_is_whole))
        hz_store_rlx(&futile_slack, hz_density_slack());
    return true;
}

void hz_settle_all(struct hz_thread_block *self) {
    size_t resting = hz_age_resting_bytes();
    hz_store_rlx(&resting_seen, resting); /* relaxed: hint */
    if (!hz_density_is_low(resting, bound_now(bound_of_keeper))) {
        hz_classes_forget_sparse();
        return;
    }
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        (void)class_settle(self, size_class, UINT32_MAX);
}
