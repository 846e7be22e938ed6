/*
 * chores.c - see chores.h. The functions below are the chores, in the order of chores.def; then come the turns.
 */
#include "heap/back/chores.h"

#include "base/arena/arena.h"
#include "base/arena/trim.h"
#include "cpu_bins.h"
#include "heap/cache/age.h"
#include "heap/cache/depot.h"
#include "heap/cache/flush.h"
#include "heap/cache/room.h"
#include "heap/pages/collapse.h"
#include "heap/pages/page.h"
#include "heap/pages/page_purge.h"
#include "heap/threads/zone.h"
#include "sent.h"

/* Limits of a tick. */
enum {
    TICK_BATCHES = 8,   /* batches of the depot, or of one sparse class, that go home */
    TICK_MAILBOXES = 1, /* mailboxes that are due and get drained */
    TICK_SEGMENTS = 4,  /* segments that one walk looks at */
    TICK_CALLS = 32,    /* system calls of one walk, about */
    RESTING_TURNS = 32, /* ticks between two sums over the depot, about; a sum takes 1,400 instructions */
};

static bool is_tick(const struct hz_turn *turn) {
    return turn->driver <= HZ_TICK_ALONE;
}

/* ---- what threads and CPUs keep ---------------------------------------------------------------------- */

static bool do_idle_bins(struct hz_thread_block *self, struct hz_turn *turn, bool begins) {
    (void)begins;
    if (turn->driver == HZ_DEMAND)
        hz_thread_flush(self);
    else
        hz_idle_bins_flush(self, turn->busy, turn->now_ms);
    return false;
}

static bool do_others(struct hz_thread_block *self, struct hz_turn *turn, bool begins) {
    (void)begins;
    hz_others_park(self, turn->can_park);
    return false;
}

static bool do_sleepers(struct hz_thread_block *self, struct hz_turn *turn, bool begins) {
    (void)begins;
    enum hz_activity found = hz_sleepers_park(self, turn->can_park, turn->now_ms, &turn->rest_bytes);
    turn->activity = (enum hz_activity)hz_max(turn->activity, found);
    turn->has_changed |= turn->activity != HZ_LEFT_ALONE;
    return false;
}

_Static_assert((int)HZ_CPU_EMPTY == (int)HZ_LEFT_ALONE && (int)HZ_CPU_RESTS == (int)HZ_WAITS &&
                   (int)HZ_CPU_WORKS == (int)HZ_WORKS,
               "the bins of the CPUs count as the bins of one more thread");

static bool do_cpu_bins(struct hz_thread_block *self, struct hz_turn *turn, bool begins) {
    (void)begins;
    if (is_tick(turn)) {
        hz_cpu_bins_idle(self, turn->busy == HZ_REMOTE_BIN ? 1 : turn->busy, turn->now_ms);
    } else if (turn->driver == HZ_ROUND) {
        turn->activity = (enum hz_activity)hz_max(turn->activity, hz_cpu_bins_look(self));
        turn->has_changed |= turn->activity != HZ_LEFT_ALONE;
    } else {
        (void)hz_cpu_bins_close(); /* if the kernel refuses, the blocks stay where threads find them */
        (void)hz_cpu_bins_reclaim(self);
    }
    return false;
}

/* ---- what rests between threads and pages ------------------------------------------------------------ */

static _Atomic(size_t) depot_bytes; /* hint: bytes in the depot */

static bool do_depot(struct hz_thread_block *self, struct hz_turn *turn, bool begins) {
    if (turn->driver == HZ_DEMAND) {
        hz_age_depot_fully(self);
        return false;
    }
    if (begins)
        hz_age_depot_begin();
    bool left = hz_age_depot_step(self, is_tick(turn) ? TICK_BATCHES : UINT32_MAX);
    if (turn->driver == HZ_ROUND) {
        size_t resting = hz_age_resting_bytes();
        hz_store_rlx(&depot_bytes, resting); /* relaxed: hint */
        turn->has_changed |= left || resting > 0;
        turn->rest_bytes += resting;
    }
    return left;
}

static bool do_mail(struct hz_thread_block *self, struct hz_turn *turn, bool begins) {
    if (turn->driver == HZ_DEMAND) {
        hz_sent_drain_all(self);
        return false;
    }
    if (begins)
        hz_sent_age(self);
    bool left = hz_sent_drain_due(self, is_tick(turn) ? TICK_MAILBOXES : UINT32_MAX);
    if (turn->driver == HZ_ROUND)
        turn->has_changed |= hz_sent_waits();
    return left;
}

static bool do_recent_out(struct hz_thread_block *self, struct hz_turn *turn, bool begins) {
    (void)self;
    (void)turn;
    (void)begins;
    hz_pressure_age();
    return false;
}

/* ---- parts of pages ----------------------------------------------------------------------------------- */

static _Atomic(uint32_t) next_segment[HZ_PURGE_MODES]; /* hint: where the walks of ticks go on */
static _Atomic(size_t) futile_slack; /* hint: the slack that a walk left because live blocks hold it */
static _Atomic(bool) walk_is_whole;  /* hint: the pressure has been LOW since the walk's beginning */

/* Does a part of a walk over the pages; true when the walk has ended. Two threads that walk at once see pages twice. */
static bool walk_part(struct hz_thread_block *self, enum hz_page_purge_mode mode) {
    uint32_t next = hz_load_rlx(&next_segment[mode]); /* relaxed, both: hint */
    bool done = hz_pages_purge(self, mode, &next, TICK_SEGMENTS, TICK_CALLS);
    hz_store_rlx(&next_segment[mode], next);
    return done;
}

/* If a walk over all pages has made the slack no smaller, since live blocks hold it, the next walk begins when the
   slack has grown by a sixteenth or has halved. */
static bool is_futile(void) {
    size_t slack = hz_pressure_slack();
    size_t futile = hz_load_rlx(&futile_slack); /* relaxed: hint */
    return slack <= futile + futile / 16 && slack >= futile / 2;
}

/* The part that a tick does of a walk over pages that may have changed lately. False if that would be in vain. */
static bool recent_purge(struct hz_thread_block *self) {
    if (is_futile())
        return false;
    if (hz_load_rlx(&next_segment[HZ_PURGE_RECENT]) == 0) /* relaxed, all: hint */
        hz_store_rlx(&walk_is_whole, true);
    if (walk_part(self, HZ_PURGE_RECENT) && hz_load_rlx(&walk_is_whole))
        hz_store_rlx(&futile_slack, hz_pressure_slack());
    return true;
}

/* ---- sparse classes ----------------------------------------------------------------------------------- */

static _Atomic(uint32_t) turn_class; /* hint: the class whose turn it was in the last tick */

/* Sums up anew what rests if the answer depends on it: the last sum may be from before a purge. */
static enum hz_pressure pressure_get(const struct hz_turn *turn) {
    enum hz_pressure pressure = hz_pressure_get(turn->driver, hz_load_rlx(&depot_bytes)); /* relaxed, all: hint */
    if (pressure < HZ_LOW || turn->driver == HZ_ROUND || hz_pressure_get(turn->driver, 0) >= HZ_LOW)
        return pressure;
    hz_store_rlx(&depot_bytes, hz_age_resting_bytes());
    return hz_pressure_get(turn->driver, hz_load_rlx(&depot_bytes));
}

/* If the class is sparse, or the heap is above its soft limit, sends home what rests of the class in the depot and in
   the mailboxes. */
static bool class_go_home(struct hz_thread_block *self, unsigned size_class, enum hz_pressure pressure,
                          uint32_t batches) {
    if (!hz_class_look(size_class, hz_depot_spare_blocks(size_class)) && pressure != HZ_OVER)
        return false;
    hz_age_depot_class(self, size_class, batches);
    hz_sent_drain_class(self, size_class);
    return true;
}

/* The class after the one whose turn it was. */
static uint32_t turn_next(void) {
    uint32_t turn = hz_load_rlx(&turn_class); /* relaxed, both: hint */
    turn = turn + 1 < HZ_CLASS_COUNT ? turn + 1 : 1;
    hz_store_rlx(&turn_class, turn);
    return turn;
}

/* Sends home what class_go_home picks of the class that the thread is here for, and of class `other`. Of `other` the
   thread's own bin goes home too. */
static void classes_go_home(struct hz_thread_block *self, unsigned busy, unsigned other, enum hz_pressure pressure) {
    if (busy != HZ_REMOTE_BIN)
        (void)class_go_home(self, busy, pressure, TICK_BATCHES);
    if (class_go_home(self, other, pressure, TICK_BATCHES) && other != busy) {
        hz_bin_send_home(self, other);
        hz_cpu_bins_class_send(self, other);
        hz_room_shrink(self, other);
    }
}

/* Ends the sparse state: the pressure is below LOW. */
static void sparse_end(const struct hz_turn *turn) {
    if (is_tick(turn) && hz_load_rlx(&walk_is_whole)) /* relaxed, both: hint */
        hz_store_rlx(&walk_is_whole, false);
    if (turn->driver != HZ_TICK_BESIDE) /* beside the keeper only a round ends this: its bound is another one */
        hz_classes_forget_sparse();
}

static bool do_sparse(struct hz_thread_block *self, struct hz_turn *turn, bool begins) {
    (void)begins;
    uint32_t next = is_tick(turn) ? turn_next() : 0;
    if (is_tick(turn) && next % RESTING_TURNS == 0)
        hz_store_rlx(&depot_bytes, hz_age_resting_bytes()); /* relaxed: hint */
    enum hz_pressure pressure = pressure_get(turn);
    if (HZ_LIKELY(pressure < HZ_LOW)) {
        sparse_end(turn);
        return false;
    }
    for (unsigned size_class = 1; !is_tick(turn) && size_class < HZ_CLASS_COUNT; size_class++)
        (void)class_go_home(self, size_class, pressure, UINT32_MAX);
    if (is_tick(turn)) {
        classes_go_home(self, turn->busy, next, pressure);
        turn->has_more = recent_purge(self);
    }
    return false;
}

/* ---- pages -------------------------------------------------------------------------------------------- */

static void shard_retire(struct hz_thread_block *self, struct hz_shard *shard) {
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        if (hz_load_rlx(&shard->classes[size_class].partial) == NULL) /* relaxed: hint */
            continue;
        hz_shard_lock(self, shard, HZ_TO_GIVE);
        uint32_t retired = hz_pages_retire_all_locked(shard, size_class);
        hz_shard_unlock(shard);
        hz_count(&self->counters.page_retire, retired);
    }
}

/* After all drains, because strays have gone to other shards' pages. */
static void pages_empty(struct hz_thread_block *self, bool anew) {
    for (struct hz_shard *shard = hz_shard_get(0); shard != NULL; shard = hz_shard_next(shard))
        shard_retire(self, shard);
    hz_zones_settle(self);
    hz_pages_purge_all(self, anew);
}

/* Pages of zones do not wait until the threads rest: what threads do says nothing about zones. */
static void pages_walk(struct hz_thread_block *self, struct hz_turn *turn) {
    uint32_t next = 0;
    turn->has_changed |= hz_zones_look(self); /* cursors have moved */
    bool all = turn->activity != HZ_WORKS || hz_pressure_get(HZ_ROUND, 0) >= HZ_LOOSE;
    (void)hz_pages_purge(self, all ? HZ_PURGE_AGED : HZ_PURGE_ZONES, &next, UINT32_MAX, UINT32_MAX);
}

/* Rounds and purges look at all zones in do_pages. */
static bool do_zones(struct hz_thread_block *self, struct hz_turn *turn, bool begins) {
    (void)turn;
    if (begins)
        hz_zones_look_begin();
    return hz_zones_look_step(self);
}

static bool do_pages(struct hz_thread_block *self, struct hz_turn *turn, bool begins) {
    (void)begins;
    if (turn->driver == HZ_DEMAND) {
        pages_empty(self, turn->anew);
        return false;
    }
    if (turn->driver == HZ_ROUND) {
        pages_walk(self, turn);
        return false;
    }
    return !walk_part(self, HZ_PURGE_AGED);
}

/* ---- the arena ---------------------------------------------------------------------------------------- */

/* Gives back free pages until `keep` bytes rest. */
static void arena_empty(size_t keep, bool anew) {
    size_t resting = hz_arena_resting_bytes();
    if (keep == 0 && anew)
        hz_trim_free();
    else if (keep == 0)
        hz_arena_purge(0, SIZE_MAX);
    else if (resting > keep)
        hz_arena_purge(0, (resting - keep) >> HZ_PAGE_LOG2);
}

static bool do_arena(struct hz_thread_block *self, struct hz_turn *turn, bool begins) {
    (void)self;
    (void)begins;
    if (turn->driver == HZ_DEMAND)
        arena_empty(turn->keep_bytes, turn->anew);
    else
        hz_arena_tick();
    return false;
}

static bool do_tables(struct hz_thread_block *self, struct hz_turn *turn, bool begins) {
    (void)self;
    (void)begins;
    turn->has_changed |= hz_thread_blocks_purge() + hz_trim_meta() > 0;
    return false;
}

static bool do_collapse(struct hz_thread_block *self, struct hz_turn *turn, bool begins) {
    (void)begins;
    turn->has_changed |= hz_collapse(self);
    return false;
}

/* ---- turns -------------------------------------------------------------------------------------------- */

enum {
    BESIDE = 1 << HZ_TICK_BESIDE,
    ALONE = 1 << HZ_TICK_ALONE,
    TICKS = BESIDE | ALONE,
    ROUND = 1 << HZ_ROUND,
    DEMAND = 1 << HZ_DEMAND,
    ANY = TICKS | ROUND | DEMAND,
    CPUS = HZ_HAS_CPU_BINS ? ANY : 0,
};

/* `begins`: the chore's time has come; otherwise a tick goes on with it. True if a tick has left some of it. */
typedef bool chore_step(struct hz_thread_block *self, struct hz_turn *turn, bool begins);

static chore_step *const steps[] = {
#define CHORE(name, drivers, every_ms, text) do_##name,
#include "heap/back/chores.def"
#undef CHORE
};

static const uint32_t every_ms_of[] = {
#define CHORE(name, drivers, every_ms, text) every_ms,
#include "heap/back/chores.def"
#undef CHORE
};

/* A bit for each chore: here those that a driver does, below those that wait for their time. */
#define CHORE(name, drivers, every_ms, text) | ((uint32_t)((drivers) >> CHORE_DRIVER & 1) << HZ_CHORE_##name)
static const uint32_t chores_of[] = {
#define CHORE_DRIVER HZ_TICK_BESIDE
    [HZ_TICK_BESIDE] = 0
#include "heap/back/chores.def"
    ,
#undef CHORE_DRIVER
#define CHORE_DRIVER HZ_TICK_ALONE
    [HZ_TICK_ALONE] = 0
#include "heap/back/chores.def"
    ,
#undef CHORE_DRIVER
#define CHORE_DRIVER HZ_ROUND
    [HZ_ROUND] = 0
#include "heap/back/chores.def"
    ,
#undef CHORE_DRIVER
#define CHORE_DRIVER HZ_DEMAND
    [HZ_DEMAND] = 0
#include "heap/back/chores.def"
    ,
#undef CHORE_DRIVER
};
#undef CHORE

enum {
#define CHORE(name, drivers, every_ms, text) | ((uint32_t)((every_ms) > 0) << HZ_CHORE_##name)
    TIMED = 0
#include "heap/back/chores.def"
#undef CHORE
};

_Static_assert(HZ_CHORES < 31, "a bit of an int for each chore");

/* From one look of ticks for what is due to the next. */
enum { DUE_LOOK_MS = HZ_DEPOT_AGE_MS < 100 ? HZ_DEPOT_AGE_MS : 100 };

static _Atomic(uint64_t) looked_at_ms;           /* cas */
static _Atomic(uint64_t) begun_at_ms[HZ_CHORES]; /* hint */
static _Atomic(uint32_t) going;                  /* hint: chores of which a tick has left some */

/* Those of the timed chores that are due now; notes that they begin. Chores of at most `at_once_ms` are always due. */
static uint32_t due_now(uint32_t chores, uint64_t now_ms, uint32_t at_once_ms) {
    uint32_t due = 0;
    for (; chores != 0; chores &= chores - 1) {
        unsigned chore = (unsigned)__builtin_ctz(chores);
        uint32_t every_ms = every_ms_of[chore];
        if (every_ms > at_once_ms && now_ms < hz_load_rlx(&begun_at_ms[chore]) + every_ms) /* relaxed, both: hint */
            continue;
        hz_store_rlx(&begun_at_ms[chore], now_ms);
        due |= UINT32_C(1) << chore;
    }
    return due;
}

/* The chores that begin in this turn. Of all threads one wins each interval in which ticks look. */
static uint32_t begins_now(const struct hz_turn *turn) {
    uint32_t all = chores_of[turn->driver];
    uint32_t timed = all & TIMED;
    uint32_t begins = all & ~(uint32_t)TIMED;
    if (turn->driver == HZ_DEMAND)
        return all;
    if (turn->driver == HZ_ROUND)
        return begins | due_now(timed, turn->now_ms, HZ_DEPOT_AGE_MS);
    uint64_t last = hz_load_rlx(&looked_at_ms); /* relaxed: hint */
    /* relaxed: the CAS picks one thread, and publishes nothing */
    if (timed != 0 && turn->now_ms >= last + DUE_LOOK_MS && hz_cas_rlx_rlx(&looked_at_ms, &last, turn->now_ms))
        begins |= due_now(timed, turn->now_ms, 0);
    return begins;
}

bool hz_chore_do(struct hz_thread_block *self, enum hz_chore chore, struct hz_turn *turn) {
    return steps[chore](self, turn, true);
}

void hz_chores_do(struct hz_thread_block *self, struct hz_turn *turn) {
    uint32_t begins = begins_now(turn);
    uint32_t went_on = is_tick(turn) ? hz_load_rlx(&going) & chores_of[turn->driver] : 0; /* relaxed: hint */
    uint32_t goes_on = 0;
    for (uint32_t left = begins | went_on; left != 0; left &= left - 1) {
        unsigned chore = (unsigned)__builtin_ctz(left);
        bool goes = steps[chore](self, turn, (begins >> chore & 1) != 0);
        goes_on |= (uint32_t)goes << chore;
    }
    if (is_tick(turn) && goes_on != went_on) { /* other threads change other bits */
        hz_or_rlx(&going, goes_on & ~went_on); /* relaxed, both: hint */
        hz_and_rlx(&going, goes_on | ~went_on);
    }
}
