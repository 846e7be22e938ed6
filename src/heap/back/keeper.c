/*
 * keeper.c - see keeper.h. Started by front/override/override_thread.c when the program has started a thread;
 * otherwise, when a second thread has attached, by the next slow path of malloc.
 *
 * While much happens the keeper does a round of chores (chores.h) every HZ_DEPOT_AGE_MS, otherwise every
 * HZ_KEEPER_SLOW_MS. When nothing has changed for HZ_KEEPER_QUIET_MS, nothing can age any more, so the keeper sleeps
 * without a timer until a thread comes to a slow path. Without a barrier it cannot: then its waits double, up to
 * SLOWEST_MS.
 *
 * Edge "park": the keeper says that it sleeps, has all threads pass a barrier, and then looks whether a thread is in a
 * slow path, or was in one since the last round. So either the keeper sees a thread that enters a slow path, or that
 * thread sees that it must wake the keeper (tests/model/keeper_sleep.pml).
 *
 * Edge "keeper": a thread that ends the keeper first stores the state, then exchanges the word on which a slow keeper
 * waits. If the keeper's own exchange of that word comes later, the keeper sees the state.
 *
 * Under a filter of system calls that came with the process, the keeper makes only calls that glibc's malloc, the start
 * of a thread and the dynamic linker make too (docs/failure.md). Before a filter of the program's own comes, it ends.
 */
#include "heap/back/keeper.h"

#include "base/arena/arena.h"
#include "base/arena/trim.h"
#include "base/map/direct_cache.h"
#include "base/os/hooks.h"
#include "base/os/os.h"
#include "base/process/startup.h"
#include "base/process/worker.h"
#include "base/profile/profile.h"
#include "cpu_bins.h"
#include "heap/back/chores.h"
#include "heap/back/limit.h"
#include "heap/back/surroundings.h"
#include "heap/cache/flush.h"
#include "heap/pages/page.h"
#include "heap/pages/page_purge.h"
#include "heap/pages/shard.h"
#include "heap/threads/init.h"
#include "heap/threads/park.h"
#include "policy.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>

/* ENDS: another thread waits for the keeper's end. CANNOT: there is no keeper, or it is ending, and none can start. */
enum keeper_state { KEEPER_NONE, KEEPER_STARTING, KEEPER_RUNS, KEEPER_ENDS, KEEPER_CANNOT };

/* Why there is no keeper. */
enum reason { NOT_NEEDED, FORBIDDEN, NO_THREAD, NO_MEMORY, CONFINED, FIRST_ENDED, GAVE_WAY };

enum {
    SLOWEST_MS = 10000,   /* the same where the keeper cannot sleep without a timer */
    RETRY_MS = 1000,      /* from a start that failed to the next try; twice as long after each, */
    RETRY_MS_MAX = 64000, /* but no longer than this */
};

_Atomic(bool) hz_keeper_is_wanted;
_Atomic(uint32_t) hz_keeper_is_slow;

static _Atomic(uint32_t) state;        /* cas: enum keeper_state */
static _Atomic(uint32_t) reason;       /* hint: enum reason */
static struct hz_lock keeper_lock;     /* a leaf */
static pthread_t keeper_thread;        /* lock: keeper_lock; stored before KEEPER_RUNS */
static _Atomic(bool) barrier_works;    /* hint: hz_os_barrier works */
static _Atomic(bool) trusts_filter;    /* hint */
static _Atomic(bool) is_tried_again;   /* hint: a start has failed */
static _Atomic(uint64_t) retry_at_ms;  /* hint: no start before */
static _Atomic(uint64_t) retry_gap_ms; /* hint: how long the last pause was */
static _Atomic(uint32_t) process;      /* hint: the kernel's number of a fork's child; 0: not known, or no child */
static _Atomic(bool) is_stopped;       /* hint; beside the state: none starts until it is allowed again */
static HZ_TLS bool ends_keeper;        /* owner; the thread is the process's first one */

bool hz_keeper_runs(void) {
    uint32_t seen = hz_load_rlx(&state); /* relaxed: hint */
    return seen == KEEPER_RUNS || seen == KEEPER_STARTING;
}

bool hz_keeper_may_relieve(void) {
    uint32_t seen = hz_load_rlx(&state); /* relaxed, both: hint */
    return seen == KEEPER_RUNS ? hz_load_rlx(&barrier_works) : seen != KEEPER_CANNOT && !hz_load_rlx(&is_stopped);
}

bool hz_keeper_is_possible(void) {
    return hz_load_rlx(&state) != KEEPER_CANNOT && !hz_load_rlx(&is_stopped); /* relaxed, both: hint */
}

void hz_keeper_read_alone(void) {
    if (!hz_surroundings_are_known() && hz_keeper_is_possible() && hz_os_is_single_threaded())
        hz_surroundings_read();
}

/* ---- waiting --------------------------------------------------------------------------------------- */

static bool somebody_is_busy(void) {
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next)
        if (hz_load_rlx(&hz_thread_block_from(each)->busy) != 0) /* sync: park, partner hz_thread_enter */
            return true;
    return false;
}

/* Closes the bins of the CPUs: the next thread that uses them has to open them, in a slow path. True if they had
   blocks, or cannot be closed: then the keeper must stay awake. No slow path may go on that has not seen
   hz_keeper_sleeps. */
static bool cpu_bins_rest(struct hz_thread_block *self) {
    bool closed = hz_cpu_bins_close();
    return hz_cpu_bins_reclaim(self) > 0 || !closed;
}

/* Sleeps until a thread comes to a slow path, or the process's first thread ends. */
static void keeper_sleep(struct hz_thread_block *self) {
    hz_store_rlx(&hz_keeper_sleeps, 1); /* sync: park, partner hz_thread_enter */
    if (!hz_os_barrier() || somebody_is_busy() || hz_sleepers_moved(self) || cpu_bins_rest(self) ||
        hz_load_rlx(&hz_keeper_missed) != 0) /* sync: park, partner hz_keeper_note_work */
        hz_store_rlx(&hz_keeper_sleeps, 0);
    while (hz_load_rlx(&hz_keeper_sleeps) == 1 && hz_load_rlx(&state) == KEEPER_RUNS &&
           !hz_life_is_lost(&hz_first_life))
        hz_life_wait(&hz_first_life, &hz_keeper_sleeps, 1);
    hz_store_rlx(&hz_keeper_sleeps, 0);
}

/* True if a thread has asked for a round meanwhile. */
static bool wait_slowly(uint32_t most_ms) {
    (void)hz_xchg_ar(&hz_keeper_is_slow, 1); /* sync: keeper, partner end_tell */
    if (hz_load_rlx(&state) == KEEPER_RUNS)  /* relaxed: ordered by the edge */
        hz_os_wait_ms(&hz_keeper_is_slow, 1, most_ms);
    return hz_xchg_ar(&hz_keeper_is_slow, 0) == 0; /* sync: keeper; only the value counts here */
}

void hz_keeper_hurry_up(void) {
    uint32_t slow = 1;
    if (hz_cas_strong_acq_rlx(&hz_keeper_is_slow, &slow, 0)) /* relaxed: only picks the thread that wakes */
        hz_os_wake(&hz_keeper_is_slow, 1);
}

/* Wakes the keeper, however it waits, so that it sees the changed state. */
static void end_tell(void) {
    (void)hz_xchg_ar(&hz_keeper_is_slow, 0); /* sync: keeper, partner wait_slowly */
    hz_os_wake(&hz_keeper_is_slow, 1);
    hz_os_wake(&state, INT_MAX);
    hz_keeper_wake();
}

/* ---- a round --------------------------------------------------------------------------------------- */

/* True if what is held or rests is not what it was. */
static bool figures_have_changed(void) {
    static size_t held_seen;
    static size_t slack_seen;
    static size_t resting_seen;
    static size_t hollow_seen; /* zones' pages have no part in the slack */
    static size_t cached_seen; /* blocks that leave the cache rest on as units */
    size_t held = hz_pages_bytes();
    size_t slack = hz_pressure_slack();
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

/* Does all chores. Not inlined: `hakobench counts` takes its calls for the number of rounds. */
static HZ_NOINLINE void keeper_round(struct hz_thread_block *self, struct hz_turn *turn) {
    hz_chores_do(self, turn);
    turn->has_changed |= figures_have_changed();
    turn->rest_bytes += hz_arena_resting_bytes();
}

/* Before the keeper sleeps: gives back memory that the kernel has filled again since it went back, and unmaps what
   nothing needs, since nobody else may come. */
static void round_end(struct hz_thread_block *self) {
    (void)hz_trim_filled();
    (void)hz_pages_purge_filled(self);
    hz_arena_idle_end(0, UINT_MAX);
}

/* ---- the thread ------------------------------------------------------------------------------------ */

/* How the keeper's rounds follow each other. */
struct pace {
    uint64_t hurried_ms; /* when much last happened */
    uint64_t changed_ms; /* when anything last changed */
    uint32_t slow_ms;    /* how long the next slow wait is */
    size_t rest_bytes;   /* at the last round */
};

static void pace_wait(struct pace *pace) {
    uint64_t now = hz_os_now_ms();
    if (now < pace->hurried_ms + HZ_KEEPER_QUIET_MS)
        hz_os_wait_ms(&state, KEEPER_RUNS, HZ_DEPOT_AGE_MS);
    else if (wait_slowly(pace->slow_ms))
        pace->hurried_ms = hz_os_now_ms();
}

/* After a round. True if nothing can age any more. */
static bool pace_note(struct pace *pace, const struct hz_turn *round) {
    size_t before = pace->rest_bytes;
    pace->rest_bytes = round->rest_bytes;
    if (hz_max(before, round->rest_bytes) - hz_min(before, round->rest_bytes) >= HZ_KEEPER_MUCH_BYTES)
        pace->hurried_ms = round->now_ms;
    if (round->has_changed)
        pace->changed_ms = round->now_ms;
    bool is_quiet = round->now_ms >= pace->changed_ms + HZ_KEEPER_QUIET_MS;
    pace->slow_ms = is_quiet ? (uint32_t)hz_min(2 * pace->slow_ms, SLOWEST_MS) : HZ_KEEPER_SLOW_MS;
    return is_quiet;
}

/* Whether no thread is attached, where the process's first one is not known: the keeper must not keep the process alive
   for its own sake. */
static bool nobody_is_left(const struct hz_thread_block *self) {
    if (hz_life_is_watched(&hz_first_life))
        return false;
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next)
        if (each != hz_thread_registered(self) && hz_load_rlx(&each->state) == HZ_THREAD_USED) /* relaxed: hint */
            return false;
    return true;
}

static void keeper_work(struct hz_thread_block *self, bool has_own_files) {
    uint64_t start = hz_os_now_ms();
    struct pace pace = {.hurried_ms = start, .changed_ms = start, .slow_ms = HZ_KEEPER_SLOW_MS};
    while (hz_load_rlx(&state) == KEEPER_RUNS) { /* relaxed: the wait publishes it */
        pace_wait(&pace);
        if (hz_life_is_lost(&hz_first_life))
            return;
        hz_init_follow_cpus(true);
        if (has_own_files) {
            hz_surroundings_follow();
            hz_surroundings_memory_look();
        }
        hz_keeper_forget_work();
        struct hz_turn turn = {
            .driver = HZ_ROUND, .now_ms = hz_os_now_ms(), .can_park = hz_load_rlx(&barrier_works), /* relaxed: hint */
        };
        keeper_round(self, &turn);
        bool is_quiet = pace_note(&pace, &turn);
        if (is_quiet && nobody_is_left(self))
            return;
        if (!is_quiet || !hz_load_rlx(&barrier_works)) /* relaxed: hint */
            continue;
        round_end(self);
        keeper_sleep(self);
        pace.changed_ms = hz_os_now_ms();
        pace.slow_ms = HZ_KEEPER_SLOW_MS;
    }
}

/* A thread block of the keeper's own. It belongs to the first shard, without being counted as one of its threads. */
static struct hz_thread_block *keeper_block(void) {
    struct hz_shard *shard = hz_init() ? hz_shard_get(0) : NULL;
    struct hz_registered *recycled = shard != NULL ? hz_registry_claim() : NULL;
    struct hz_thread_block *self = recycled != NULL ? hz_thread_block_get(recycled) : NULL;
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

/* Ends KEEPER_STARTING. */
static void started_as(enum keeper_state reached) {
    uint32_t starting = KEEPER_STARTING;
    (void)hz_cas_strong_acq_rlx(&state, &starting, reached); /* cas */
    hz_os_wake(&state, INT_MAX);
}

/* Replaces what the keeper inherited from the thread that started it. True if it has files of its own. */
static bool become_independent(void) {
    hz_worker_begin("hakozuna");
    bool has_own_files = hz_os_files_own(false) == 0;
    if (has_own_files)
        hz_surroundings_read();
    return has_own_files;
}

/* The keeper ends by itself, unless another thread is ending it. */
static void leave_as(enum keeper_state wanted, enum reason why) {
    uint32_t running = KEEPER_RUNS;
    hz_store_rlx(&reason, why); /* relaxed: hint. A thread that is ending the keeper stores another one */
    if (!hz_cas_strong_acq_rlx(&state, &running, wanted)) /* cas */
        return;
    (void)pthread_detach(pthread_self()); /* nobody joins it */
}

static void retry_later(enum reason why) {
    uint64_t gap = hz_load_rlx(&retry_gap_ms); /* relaxed, all: hint */
    gap = gap == 0 ? RETRY_MS : hz_min(2 * gap, RETRY_MS_MAX);
    hz_store_rlx(&retry_gap_ms, gap);
    hz_store_rlx(&retry_at_ms, hz_os_now_ms() + gap);
    hz_store_rlx(&reason, why);
    hz_store_rlx(&is_tried_again, true);
}

static void *keeper_main(void *unused) {
    (void)unused;
    struct hz_thread_block *self = keeper_block();
    if (self == NULL) {
        (void)pthread_detach(pthread_self()); /* nobody joins it */
        retry_later(NO_MEMORY);
        started_as(KEEPER_NONE);
        return NULL;
    }
    hz_lock_acquire(&keeper_lock);
    keeper_thread = pthread_self();
    hz_lock_release(&keeper_lock);
    hz_store_rlx(&barrier_works, hz_os_barrier_prepare(hz_load_rlx(&trusts_filter))); /* relaxed, both: hint */
    started_as(KEEPER_RUNS);
    bool has_own_files = become_independent();
    if (!has_own_files) /* nobody looks again at what is beside the heap now */
        hz_heap_limit_forget_beside();
    if (hz_os_is_unfiltered())
        hz_cpu_bins_start();
    keeper_work(self, has_own_files);
    hz_heap_limit_forget_beside(); /* the next keeper looks anew */
    hz_cpu_bins_stop(false);
    (void)hz_cpu_bins_reclaim(self);
    self->is_keeper = false;
    hz_thread_flush(self);
    hz_registry_release(hz_thread_registered(self));
    if (hz_life_is_lost(&hz_first_life))
        leave_as(KEEPER_CANNOT, FIRST_ENDED);
    else
        leave_as(KEEPER_NONE, NOT_NEEDED);
    return NULL;
}

/* ---- start and end --------------------------------------------------------------------------------- */

void hz_keeper_look_again(uint64_t now_ms) {
    if (hz_load_rlx(&is_tried_again) && now_ms >= hz_load_rlx(&retry_at_ms)) { /* relaxed, all: hint */
        hz_store_rlx(&is_tried_again, false);
        hz_store_rlx(&hz_keeper_is_wanted, true);
    }
}

/* With the signals blocked: a handler could fork, or wait for the keeper that its own thread starts. */
static void start_blocked(void) {
    uint32_t none = KEEPER_NONE;
    /* In a handler of fork, and in a child that is not mended yet, it is too early for another thread. */
    if (hz_hooks_thread.forking != 0 || hz_hooks_thread.is_due)
        return;
    if (!hz_cas_strong_acq_rlx(&state, &none, KEEPER_STARTING)) /* sync: keeper, partner hz_keeper_stop */
        return;
    hz_store_rlx(&hz_keeper_is_wanted, false); /* relaxed: hint */
    if (hz_load_rlx(&is_stopped)) {            /* relaxed: ordered by the edge */
        started_as(KEEPER_NONE);
        return;
    }
    if (hz_os_is_unfiltered())
        hz_os_usage_begin(); /* from now on hz_keeper_confine tells of a filter before it comes */
    int saved = errno;       /* malloc may have called */
    pthread_t thread;
    int error = hz_worker_start(&thread, keeper_main);
    errno = saved;
    if (error == 0)
        return;
    hz_heap_limit_forget_beside(); /* as in keeper_main */
    retry_later(NO_THREAD);
    started_as(KEEPER_NONE);
}

/* Without a filter also not in a child of vfork, in which the keeper would end with the child. Under one, the question
   whose process it is could kill. */
void hz_keeper_start(void) {
    uint32_t seen = hz_load_rlx(&state); /* relaxed, all: hint */
    if (hz_os_is_confined() || seen != KEEPER_NONE) {
        if (seen != KEEPER_ENDS) /* while another thread ends it, it stays wanted */
            hz_store_rlx(&hz_keeper_is_wanted, false);
        return;
    }
    if (hz_load_rlx(&retry_at_ms) != 0 && hz_os_now_ms() < hz_load_rlx(&retry_at_ms)) {
        hz_store_rlx(&hz_keeper_is_wanted, false);
        hz_store_rlx(&is_tried_again, true);
        return;
    }
    if (hz_os_is_unfiltered() && !hz_keeper_is_of_this_process())
        return;
    uint64_t signals = hz_os_signals_block();
    start_blocked();
    hz_os_signals_restore(signals);
}

bool hz_keeper_is(void *(*start)(void *)) {
    return start == keeper_main;
}

void hz_keeper_follow_first(void) {
    ends_keeper = true;
    (void)hz_life_begin(&hz_first_life); /* if the C library refuses, only the exit hook tells of the thread's end */
}

void hz_keeper_trust_filter(void) {
    hz_store_rlx(&trusts_filter, true); /* relaxed: hint */
}

/* A child of vfork shares the memory, and with it what the C library knows of the thread. In a child of clone(2) the C
   library still has the parent's thread id. So there the process's number decides, unless a filter may have forbidden
   getpid when the child was mended. */
bool hz_keeper_is_of_this_process(void) {
    hz_hooks_enter(); /* mends the child of a fork: its handlers, or code after clone(2), may come here first */
    hz_hooks_leave();
    uint32_t known = hz_load_rlx(&process); /* relaxed: hint */
    if (hz_os_is_unfiltered() && known == 0)
        known = hz_startup_get()->process;
    if (known != 0)
        return known == hz_os_process_id();
    return hz_os_thread_is_itself() || hz_hooks_is_cloned();
}

/* Sets the state to KEEPER_ENDS, unless it is KEEPER_CANNOT, and waits for the keeper's end. The calling thread then
   sets another state. Returns the state before. */
static uint32_t keeper_end(void) {
    int cancel_state;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* cannot fail. pthread_join is such a point */
    uint32_t seen = hz_load_rlx(&state);                                 /* relaxed: hint */
    bool could = seen != KEEPER_CANNOT;
    uint64_t signals = could ? hz_os_signals_block() : 0; /* a child of a handler's fork has no keeper to wait for */
    while (seen != KEEPER_CANNOT) {
        if (seen == KEEPER_STARTING || seen == KEEPER_ENDS) {
            hz_os_wait(&state, seen);
            seen = hz_load_rlx(&state); /* relaxed: hint */
        } else if (hz_cas_strong_acq_rlx(&state, &seen, KEEPER_ENDS)) {
            break;
        }
    }
    if (seen == KEEPER_RUNS) {
        end_tell();
        hz_lock_acquire(&keeper_lock);
        pthread_t ending = keeper_thread;
        hz_lock_release(&keeper_lock);
        (void)pthread_join(ending, NULL); /* cannot fail: only this thread joins it, and it is not detached */
    }
    if (could)
        hz_os_signals_restore(signals);
    (void)pthread_setcancelstate(cancel_state, NULL); /* cannot fail */
    return seen;
}

/* Ends the keeper, and no other starts. */
static void end_for_good(enum reason why) {
    if (keeper_end() == KEEPER_CANNOT)
        return;
    hz_store_rlx(&reason, why); /* relaxed, both: publishes nothing */
    hz_store_rlx(&state, KEEPER_CANNOT);
    hz_os_wake(&state, INT_MAX);
}

void hz_keeper_forbid(void) {
    end_for_good(FORBIDDEN); /* a library's constructor may have started threads before */
}

/* The keeper must not be the last thread for the C library: that would run the program's exit handlers there. */
void hz_keeper_thread_ends(void) {
    if (ends_keeper)
        end_for_good(FIRST_ENDED);
}

/* Edge "keeper", too: who starts a keeper changes the state, and then looks whether it is stopped. */
bool hz_keeper_stop(void) {
    if (!hz_keeper_is_of_this_process())
        return true;
    hz_store_rlx(&is_stopped, true); /* relaxed, both: ordered by keeper_end's change of the state */
    bool could = keeper_end() != KEEPER_CANNOT;
    if (could)
        hz_store_rel(&state, KEEPER_NONE); /* sync: keeper, partner start_blocked */
    hz_os_wake(&state, INT_MAX);
    return could;
}

bool hz_keeper_allow(void) {
    hz_store_rlx(&is_stopped, false); /* relaxed, all: hint */
    if (hz_registry_used() > 1)
        hz_store_rlx(&hz_keeper_is_wanted, true);
    return hz_load_rlx(&state) != KEEPER_CANNOT;
}

void hz_keeper_confine(void) {
    bool is_ours = hz_os_is_confined() || hz_keeper_is_of_this_process();
    hz_os_usage_end(); /* a child of vfork does this to its parent too, which can do without */
    if (hz_os_is_confined() || !is_ours)
        return;
    hz_heap_limit_forget_beside(); /* nobody looks again */
    hz_cpu_bins_stop(true);        /* while the kernel still allows it; the keeper sends home what they have */
    bool could = keeper_end() != KEEPER_CANNOT;
    /* Not earlier: a keeper that was still starting would give up by itself, and nobody would wait for its end before
       the filter comes. Until now another thread that restricts itself waits in keeper_end. */
    hz_arena_show();
    hz_profile_show();
    hz_os_confine();
    if (could) {
        hz_store_rlx(&reason, CONFINED); /* relaxed, both: publishes nothing */
        hz_store_rlx(&state, KEEPER_CANNOT);
        hz_os_wake(&state, INT_MAX);
    }
}

bool hz_keeper_suspend(void) {
    if (!hz_keeper_runs())
        return false;
    uint32_t seen = keeper_end();
    if (seen == KEEPER_NONE) {
        hz_store_rel(&state, KEEPER_NONE); /* sync: keeper, partner start_blocked */
        hz_os_wake(&state, INT_MAX);
    }
    return seen == KEEPER_RUNS;
}

void hz_keeper_resume(bool soon) {
    if (!soon)
        retry_later(GAVE_WAY);
    hz_store_rel(&state, KEEPER_NONE); /* sync: keeper, partner start_blocked */
    hz_os_wake(&state, INT_MAX);
    if (soon)
        hz_keeper_start();
}

void hz_keeper_after_fork(void) {
    hz_lock_settle(&keeper_lock);
    hz_store_rlx(&hz_keeper_is_wanted, false); /* relaxed, all: one thread, the first one of its process */
    hz_store_rlx(&hz_keeper_is_slow, 0);
    hz_store_rlx(&is_tried_again, false);
    hz_store_rlx(&retry_at_ms, 0);
    hz_store_rlx(&retry_gap_ms, 0);
    bool may_start = hz_load_rlx(&reason) != FORBIDDEN && hz_load_rlx(&reason) != CONFINED;
    if (may_start)
        hz_store_rlx(&reason, NOT_NEEDED);
    hz_store_rlx(&state, may_start ? KEEPER_NONE : KEEPER_CANNOT);
    hz_store_rlx(&process, hz_os_is_unfiltered() ? hz_os_process_id() : 0);
    hz_keeper_follow_first();
}

/* ---- for people ------------------------------------------------------------------------------------ */

struct hz_keeper_words hz_keeper_describe(void) {
    static const struct hz_keeper_words none[] = {
        [NOT_NEEDED] = {false, "none: the program has started no second thread", ""},
        [FORBIDDEN] = {false, "none: HAKOZUNA_BACKGROUND=0", "unset the variable"},
        [NO_THREAD] = {false, "none: no thread could be started", "raise the limit of threads (ulimit -u, pids.max)"},
        [NO_MEMORY] = {false, "none: there was no memory for it", "raise the limit of memory"},
        [CONFINED] = {false, "none: the program has restricted its system calls", ""},
        [FIRST_ENDED] = {false, "none: the process's first thread has ended", ""},
        [GAVE_WAY] = {false, "none: it gave way to the program", "raise the limit of threads (ulimit -u, pids.max)"},
    };
    static const struct hz_keeper_words runs = {true, "runs", ""};
    static const struct hz_keeper_words runs_blind = {
        true, "runs, but leaves the caches of sleeping threads alone: a filter may forbid membarrier",
        "if the filter allows it, set HAKOZUNA_BACKGROUND=1"};
    static const struct hz_keeper_words stopped = {false, "none: hz_background_set has ended it",
                                                   "call hz_background_set(1)"};
    if (hz_keeper_runs())
        return hz_load_rlx(&barrier_works) ? runs : runs_blind; /* relaxed, all: hint */
    if (hz_load_rlx(&is_stopped) && hz_load_rlx(&state) != KEEPER_CANNOT)
        return stopped;
    return none[hz_load_rlx(&reason)];
}
