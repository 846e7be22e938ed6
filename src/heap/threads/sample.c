/*
 * sample.c - see sample.h.
 */
#include "heap/threads/sample.h"

#include "base/os/atomic.h"
#include "base/os/os.h"
#include "base/profile/profile.h"
#include "base/watch/guard.h"
#include "cpu_bins.h"
#include "heap/back/keeper.h"
#include "heap/cache/sampler.h"
#include "heap/threads/park.h"

/* cas; when sampling ends that somebody has asked for. 0: it is off, or not for a time */
static _Atomic(uint64_t) sampled_until_ms;

/* A thread that is not attached yet is sampled from the moment it attaches. */
static void settle_here(void) {
    struct hz_thread_block *self = hz_thread_enter();
    if (hz_is_attached(self) && !hz_sampler_is_settled(self)) {
        hz_cpu_bins_leave(self); /* what is taken from the bins of CPUs is not counted */
        hz_sampler_settle(self);
    }
    hz_thread_leave(self);
}

static bool begin_here(bool is_on) {
    if (is_on)
        settle_here();
    return is_on;
}

bool hz_sample_start(uint32_t rate) {
    return begin_here(hz_guard_start(rate));
}

bool hz_sample_start_profile(uint64_t rate) {
    hz_store_rlx(&sampled_until_ms, UINT64_MAX); /* relaxed: one thread */
    return begin_here(hz_profile_start(rate));
}

/* ---- while threads run ------------------------------------------------------------------------------- */

/* The keeper's thread block, which is not sampled, has no label. */
static bool is_of_another(const struct hz_registered *each) {
    return each->block != hz_thread_mine && hz_load_rlx(&each->state) == HZ_THREAD_USED && /* relaxed, both: hint */
           hz_load_rlx(&each->label) != 0;
}

/* Returns how many of the threads have still to be tried. */
static uint32_t others_settle(void) {
    uint32_t left = 0;
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next)
        left += is_of_another(each) && !hz_park_to_settle(hz_thread_block_from(each));
    return left;
}

/* A thread that attaches meanwhile is in the registry before the barrier, or looks after it. */
static uint32_t switch_to(bool is_on) {
    enum { TRIES = 100, PAUSE_MS = 1 };
    const uint32_t never_changes = 0;
    hz_profile_switch(is_on);
    if (is_on)
        hz_cpu_bins_stop(false); /* they stay closed: whoever samples once samples again */
    settle_here();
    if (!hz_keeper_runs()) /* it prepares the barrier, and may be about to */
        (void)hz_os_barrier_prepare(false);
    bool has_barrier = hz_os_barrier(); /* sync: park, partner hz_sampler_settle */
    uint32_t left = others_settle();
    for (unsigned i = 0; i < TRIES && left > 0; i++) {
        hz_os_wait_ms(&never_changes, 0, PAUSE_MS);
        has_barrier = has_barrier || hz_os_barrier();
        left = others_settle();
    }
    return left;
}

uint32_t hz_sample_begin(uint32_t least_ms) {
    uint64_t until_ms = least_ms == HZ_SAMPLE_FOR_GOOD ? UINT64_MAX : hz_os_now_ms() + least_ms;
    uint64_t seen = hz_load_rlx(&sampled_until_ms); /* relaxed, all: nothing is behind it */
    while (seen < until_ms && !hz_cas_rlx_rlx(&sampled_until_ms, &seen, until_ms)) {
    }
    return switch_to(true);
}

uint32_t hz_sample_end(void) {
    hz_store_rlx(&sampled_until_ms, 0); /* relaxed, both: nothing is behind it */
    uint32_t left = switch_to(false);
    return hz_load_rlx(&sampled_until_ms) == 0 ? left : switch_to(true); /* another thread has begun meanwhile */
}

uint64_t hz_sample_look(void) {
    uint64_t until_ms = hz_load_rlx(&sampled_until_ms); /* relaxed, both: nothing is behind it */
    if (until_ms == 0 || until_ms == UINT64_MAX)
        return UINT64_MAX;
    if (hz_os_now_ms() < until_ms || !hz_cas_rlx_rlx(&sampled_until_ms, &until_ms, 0))
        return until_ms;                     /* if it has changed, the caller looks again soon */
    (void)switch_to(false);                  /* a thread that cannot be parked goes on, which harms nothing */
    if (hz_load_rlx(&sampled_until_ms) != 0) /* another thread has begun meanwhile */
        (void)switch_to(true);
    return UINT64_MAX;
}
