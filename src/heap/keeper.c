/*
 * keeper.c - see keeper.h. Started by front/override_thread.c when the program has started a thread.
 *
 * Every HZ_DEPOT_AGE_MS the keeper does a round: the depot and the mailboxes age, bins of threads that did not use them
 * for PARK_ROUNDS rounds are emptied (park.h), parts of pages and free pages are purged, full units that got small
 * pages are collapsed (pages/collapse.h). When for a while nothing has changed, nothing can age any more: it sleeps
 * without a timer, until a thread comes to a slow path. Edge "park": the keeper says that it sleeps, has all threads
 * pass a barrier, and then looks whether one is in a slow path. So a thread that begins one either is seen or sees that
 * it must wake the keeper.
 */
#include "heap/keeper.h"

#include "base/arena.h"
#include "base/hooks.h"
#include "base/huge.h"
#include "base/os.h"
#include "base/worker.h"
#include "cpu_bins.h"
#include "heap/cache/age.h"
#include "heap/cache/depot.h"
#include "heap/cache/flush.h"
#include "heap/init.h"
#include "heap/pages/collapse.h"
#include "heap/pages/density.h"
#include "heap/pages/drain.h"
#include "heap/pages/mail.h"
#include "heap/pages/page.h"
#include "heap/pages/page_purge.h"
#include "heap/pages/send.h"
#include "heap/park.h"
#include "heap/settle.h"

#include <limits.h>
#include <pthread.h>

/* ENDS: another thread waits for the keeper's end. CANNOT: there is no keeper, or it is ending, and none can start. */
enum keeper_state { KEEPER_NONE, KEEPER_STARTING, KEEPER_RUNS, KEEPER_ENDS, KEEPER_CANNOT };

enum {
    PARK_ROUNDS = 10,  /* rounds in which a thread must not have used its bins, as it may only wait for a CPU */
    WALK_ROUNDS = 5,   /* rounds from one walk over the pages to the next */
    QUIET_ROUNDS = 20, /* rounds without a change after which nothing can age any more */
};

static _Atomic(uint32_t) state;    /* cas: enum keeper_state */
static struct hz_lock keeper_lock; /* a leaf */
static pthread_t keeper_thread;    /* lock: keeper_lock; stored before KEEPER_RUNS */
static _Atomic(uint32_t) process;  /* hint: the process whose threads may start a keeper; 0: none yet */
static _Atomic(bool) is_allowed;   /* hint: the exit hook will tell when the process's first thread ends */
static HZ_TLS bool ends_keeper;    /* owner: the thread is the process's first one */

bool hz_keeper_runs(void) {
    uint32_t seen = hz_load_rlx(&state); /* relaxed: hint */
    return seen == KEEPER_RUNS || seen == KEEPER_STARTING;
}

/* ---- a round --------------------------------------------------------------------------------------- */

/* A digest of the tops of all bins. */
static uint64_t tops_digest(struct hz_thread_block *thread) {
    uint64_t digest = 0;
    for (unsigned index = 1; index < HZ_BINS; index++) {
        uint32_t top = hz_load_rlx(&thread->cache.bins[index].top); /* relaxed: hint */
        digest = (digest ^ top) * UINT64_C(0x9E3779B97F4A7C15);
    }
    return digest;
}

enum activity { PARKED, WAITS, WORKS };

_Static_assert((int)HZ_CPU_EMPTY == (int)PARKED && (int)HZ_CPU_RESTS == (int)WAITS && (int)HZ_CPU_WORKS == (int)WORKS,
               "the bins of the CPUs count as the bins of one more thread");

static bool bins_are_empty(struct hz_thread_block *thread) {
    for (unsigned index = 1; index < HZ_BINS; index++)
        if (hz_bin_held(&thread->cache, index) != 0)
            return false;
    return true;
}

/* Parks a thread whose bins' tops have not moved for PARK_ROUNDS rounds, and empties its bins. A thread with empty bins
   is parked too: its next free could otherwise fill them unseen. */
static enum activity thread_look(struct hz_thread_block *self, struct hz_thread_block *thread) {
    struct hz_parking *parking = &thread->parking;
    if (hz_load_rlx(&parking->parked)) /* relaxed: hint */
        return PARKED;
    /* A thread that uses the bins of its CPU does not fill its own unseen: keeper_sleep closes those. */
    if (HZ_HAS_CPU_BINS && hz_cpu_bins_has(thread) && bins_are_empty(thread))
        return PARKED;
    uint64_t digest = tops_digest(thread);
    if (digest != parking->tops_seen) {
        parking->tops_seen = digest;
        parking->rounds_unused = 0;
        return WORKS;
    }
    if (++parking->rounds_unused < PARK_ROUNDS)
        return WAITS;
    if (!hz_park(thread)) /* it is in a slow path, or its end is near */
        return PARKED;
    parking->rounds_unused = 0;
    hz_park_empty(self, thread);
    return PARKED;
}

/* The activity of the busiest thread. */
static enum activity threads_look(struct hz_thread_block *self) {
    enum activity most = PARKED;
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next)
        if (each != &self->registered && hz_load_rlx(&each->state) == HZ_THREAD_USED) /* relaxed: hint */
            most = (enum activity)hz_max(most, thread_look(self, hz_thread_block_from(each)));
    return most;
}

static bool depot_look(struct hz_thread_block *self) {
    bool changed = false;
    hz_age_depot_begin();
    while (hz_age_depot_step(self, UINT32_MAX))
        changed = true;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        changed |= hz_depot_blocks(size_class) > 0;
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

/* True if something has changed, or waits for the next round. */
static bool keeper_round(struct hz_thread_block *self, uint32_t number) {
    static size_t held_seen;
    static size_t slack_seen;
    static size_t resting_seen;
    bool changed = depot_look(self);
    changed |= mail_look(self);
    enum activity activity = (enum activity)hz_max(threads_look(self), hz_cpu_bins_look(self));
    changed |= activity != PARKED;
    hz_mail_gather(self);
    hz_density_age();
    hz_settle_all(self);
    if (number % WALK_ROUNDS == 0 && (activity != WORKS || hz_settle_is_loose())) {
        uint32_t next = 0;
        (void)hz_pages_purge(self, HZ_PURGE_AGED, &next, UINT32_MAX, UINT32_MAX);
    }
    if (number % WALK_ROUNDS == 0)
        changed |= hz_thread_blocks_purge() + hz_arena_meta_purge() > 0;
    hz_arena_tick();
    if (number % WALK_ROUNDS == 0 && hz_huge_collapse_is_wanted(hz_arena_runs_bytes()))
        hz_huge_look(HZ_HUGE_FOLDER); /* the kernel collapses even if the setting has become `never` */
    changed |= hz_collapse(self);
    size_t held = hz_pages_bytes();
    size_t slack = hz_density_slack();
    size_t resting = hz_arena_resting_bytes();
    changed |= held != held_seen || slack != slack_seen || resting != resting_seen;
    held_seen = held;
    slack_seen = slack;
    resting_seen = resting;
    return changed;
}

/* ---- the thread ------------------------------------------------------------------------------------ */

static bool somebody_is_busy(void) {
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next)
        if (hz_load_rlx(&hz_thread_block_from(each)->busy) != 0) /* sync: park, partner hz_thread_enter */
            return true;
    return false;
}

/* Closes the bins of the CPUs: the next thread that uses them has to open them, in a slow path. True if they had
   blocks, or cannot be closed: then the keeper must stay awake. Called when no slow path goes on that has not seen
   hz_keeper_sleeps. */
static bool cpu_bins_rest(struct hz_thread_block *self) {
    bool closed = hz_cpu_bins_close();
    return hz_cpu_bins_reclaim(self) > 0 || !closed;
}

/* Sleeps until a thread comes to a slow path. */
static void keeper_sleep(struct hz_thread_block *self) {
    hz_store_rlx(&hz_keeper_sleeps, 1); /* sync: park, partner hz_thread_enter */
    if (!hz_os_barrier() || somebody_is_busy() || cpu_bins_rest(self))
        hz_store_rlx(&hz_keeper_sleeps, 0);
    while (hz_load_rlx(&hz_keeper_sleeps) == 1 && hz_load_rlx(&state) == KEEPER_RUNS)
        hz_os_wait(&hz_keeper_sleeps, 1);
}

/* A thread block of the keeper's own. It belongs to the first shard, without being counted as one of its threads. */
static struct hz_thread_block *keeper_block(void) {
    struct hz_shard *shard = hz_init() ? hz_shard_get(0) : NULL;
    struct hz_registered *recycled = shard != NULL ? hz_registry_claim() : NULL;
    struct hz_thread_block *self = recycled != NULL ? hz_thread_block_from(recycled) : NULL;
    if (self == NULL && shard != NULL)
        self = hz_thread_block_make();
    if (self == NULL)
        return NULL;
    if (recycled != NULL)
        hz_park_reset(self);
    self->shard = shard;
    self->owner = (uint8_t)shard->index;
    self->owner_expected = self->owner;
    self->is_keeper = true;
    if (recycled != NULL)
        hz_thread_flush(self); /* an orphan's blocks */
    return self;
}

/* Ends KEEPER_STARTING, unless the first thread has ended meanwhile. */
static void started_as(enum keeper_state reached) {
    uint32_t starting = KEEPER_STARTING;
    (void)hz_cas_strong_acq_rlx(&state, &starting, reached); /* cas */
    hz_os_wake(&state, INT_MAX);
}

static void *keeper_main(void *unused) {
    (void)unused;
    bool can = hz_os_barrier_prepare();
    struct hz_thread_block *self = can ? keeper_block() : NULL;
    if (self == NULL) {                       /* without memory the program's next thread tries again */
        (void)pthread_detach(pthread_self()); /* nobody joins it */
        started_as(can ? KEEPER_NONE : KEEPER_CANNOT);
        return NULL;
    }
    hz_lock_acquire(&keeper_lock);
    keeper_thread = pthread_self();
    hz_lock_release(&keeper_lock);
    started_as(KEEPER_RUNS);
    (void)pthread_setname_np(pthread_self(), "hakozuna"); /* the name is informative only */
    hz_cpu_bins_start();
    uint32_t quiet = 0;
    for (uint32_t number = 0; hz_load_rlx(&state) == KEEPER_RUNS; number++) { /* relaxed: the wait below publishes it */
        hz_os_wait_ms(&state, KEEPER_RUNS, HZ_DEPOT_AGE_MS);
        hz_init_follow_cpus();
        quiet = keeper_round(self, number) ? 0 : quiet + 1;
        if (quiet < QUIET_ROUNDS)
            continue;
        keeper_sleep(self);
        quiet = 0;
    }
    hz_cpu_bins_stop(false);
    (void)hz_cpu_bins_reclaim(self);
    self->is_keeper = false;
    hz_thread_flush(self);
    hz_registry_release(&self->registered);
    if (hz_load_rlx(&state) == KEEPER_CANNOT) /* relaxed: only the thread that set KEEPER_ENDS joins it */
        (void)pthread_detach(pthread_self());
    return NULL;
}

bool hz_keeper_start(void) {
    uint32_t none = KEEPER_NONE;
    if (!hz_load_rlx(&is_allowed) || hz_load_rlx(&state) != KEEPER_NONE || /* relaxed, both: hint */
        !hz_cas_strong_acq_rlx(&state, &none, KEEPER_STARTING))            /* cas */
        return hz_keeper_runs();
    if (hz_os_is_sandboxed()) { /* asked before any other call */
        started_as(KEEPER_CANNOT);
        return false;
    }
    hz_store_rlx(&process, hz_os_process_id()); /* relaxed: hint. A child without fork handlers has its parent's */
    hz_os_usage_begin();                        /* from now on hz_keeper_confine tells of a filter before it comes */
    pthread_t thread;
    bool started = hz_worker_start(&thread, keeper_main) == 0;
    if (!started)
        started_as(KEEPER_NONE); /* the next thread tries again */
    return started;
}

bool hz_keeper_is(void *(*start)(void *)) {
    return start == keeper_main;
}

void hz_keeper_allow(void) {
    ends_keeper = true;
    /* the first thread has the process's number. For getpid an inherited filter could kill the process */
    hz_store_rlx(&process, hz_os_thread_id()); /* relaxed, both: hint. Threads that this one creates see it */
    hz_store_rlx(&is_allowed, true);
}

void hz_keeper_thread_ends(void) {
    if (!ends_keeper)
        return;
    hz_store_rlx(&is_allowed, false); /* relaxed: hint */
    uint32_t seen = hz_load_rlx(&state);
    /* cas: the thread that has set KEEPER_ENDS waits for the keeper's end and then sets KEEPER_CANNOT itself */
    while (seen != KEEPER_ENDS && !hz_cas_strong_acq_rlx(&state, &seen, KEEPER_CANNOT)) {
    }
    hz_os_wake(&state, INT_MAX);
    hz_keeper_wake();
}

/* Sets the state to `wanted`, unless it is KEEPER_STARTING or KEEPER_ENDS. Returns the state before. */
static uint32_t end_as(enum keeper_state wanted) {
    uint32_t seen = hz_load_rlx(&state); /* relaxed: hint */
    while (seen != KEEPER_STARTING && seen != KEEPER_ENDS && !hz_cas_strong_acq_rlx(&state, &seen, wanted)) {
    }
    return seen;
}

/* Whether a thread of the process that may have a keeper calls. A child that vfork or clone has made has all of the
   parent's words, and with vfork even shares them. */
static bool is_keepers_process(void) {
    if (!hz_os_thread_is_itself())
        return false;
    uint32_t seen = hz_load_rlx(&state); /* relaxed, both: hint */
    return seen == KEEPER_NONE || seen == KEEPER_CANNOT || hz_os_process_id() == hz_load_rlx(&process);
}

void hz_keeper_confine(void) {
    int cancel_state;
    hz_hooks_enter(); /* a fork handler may be first in the child to restrict itself */
    hz_hooks_leave();
    hz_os_usage_end(); /* a child of vfork does this to its parent too, which can do without */
    if (hz_os_is_confined() || !is_keepers_process())
        return;
    hz_cpu_bins_stop(true); /* while the kernel still allows it; the keeper sends home what they have */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* cannot fail. pthread_join is such a point */
    uint32_t seen;
    while ((seen = end_as(KEEPER_ENDS)) == KEEPER_STARTING || seen == KEEPER_ENDS)
        hz_os_wait(&state, seen);
    if (seen == KEEPER_RUNS) {
        hz_os_wake(&state, INT_MAX);
        hz_keeper_wake();
        hz_lock_acquire(&keeper_lock);
        pthread_t ending = keeper_thread;
        hz_lock_release(&keeper_lock);
        (void)pthread_join(ending, NULL); /* cannot fail: only this thread joins it, and it is not detached */
    }
    /* Not earlier: a keeper that was still starting would give up by itself, and nobody would wait for its end before
       the filter comes. Until now another thread that restricts itself waits in the loop above. */
    hz_os_confine();
    hz_store_rlx(&state, KEEPER_CANNOT); /* relaxed: publishes nothing */
    hz_os_wake(&state, INT_MAX);
    (void)pthread_setcancelstate(cancel_state, NULL); /* cannot fail */
}

void hz_keeper_after_fork(bool allowed) {
    ends_keeper = true;
    hz_lock_settle(&keeper_lock);
    hz_store_rlx(&process, hz_os_thread_id()); /* relaxed, all: one thread, the first one of its process */
    hz_store_rlx(&is_allowed, allowed);
    hz_store_rlx(&state, KEEPER_NONE);
}
