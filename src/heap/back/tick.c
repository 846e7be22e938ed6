/*
 * tick.c - see tick.h.
 */
#include "heap/back/tick.h"

#include "base/arena/arena.h"
#include "base/os/os.h"
#include "base/process/cpus.h"
#include "cpu_bins.h"
#include "heap/back/density.h"
#include "heap/back/keeper.h"
#include "heap/back/settle.h"
#include "heap/cache/age.h"
#include "heap/cache/idle.h"
#include "heap/pages/drain.h"
#include "heap/pages/mail.h"
#include "heap/threads/thread.h"
#include "heap/threads/zone.h"

enum {
    TICK_VISITS = 32,      /* slow-path visits between two looks at the clock */
    VISIT_BYTES_LOG2 = 11, /* a visit for a larger class counts as more, since its blocks hold more, */
    VISIT_MOST = 8,        /* but unless ticks_soon at most so much: few bins hold more than 8 * HZ_BIN_BYTES */
    TICK_BATCHES = 8,      /* limits of one tick: batches of the depot that go home, */
    TICK_CLASSES = 1,      /* and mailboxes that are drained because they are due */
    WALK_MS = 500,         /* from the start of one walk over all pages to the start of the next */
};

enum { ZONE_FREES = 32 }; /* that make one visit; a full bin passes on about as many */

static _Atomic(uint64_t) aged_at_ms;   /* hint */
static _Atomic(uint64_t) walked_at_ms; /* hint: when the walk over the pages began */
static _Atomic(bool) walking;          /* hint: the walk has not ended */

/* One thread wins each interval. */
static bool is_time(_Atomic(uint64_t) *at_ms, uint64_t now, uint64_t interval_ms) {
    uint64_t last = hz_load_rlx(at_ms); /* relaxed: hint */
    /* relaxed: the CAS picks one thread, and publishes nothing */
    return now >= last + interval_ms && hz_cas_rlx_rlx(at_ms, &last, now);
}

/* Purges parts of pages that have not changed since the last walk. */
static void walk_tick(struct hz_thread_block *self, uint64_t now) {
    if (is_time(&walked_at_ms, now, WALK_MS)) {
        hz_store_rlx(&walking, true); /* relaxed, all: hint */
        hz_zones_look_begin();
    }
    hz_zones_look_step(self);
    if (hz_load_rlx(&walking) && hz_settle_walk(self))
        hz_store_rlx(&walking, false);
}

void hz_tick(struct hz_thread_block *self, unsigned index) {
    unsigned size_class = index == HZ_REMOTE_BIN ? 1 : index;
    uint32_t weight = 1 + (hz_class_shapes[size_class].bytes >> VISIT_BYTES_LOG2);
    self->slow_count += self->ticks_soon ? weight : (uint32_t)hz_min(weight, VISIT_MOST);
    if (self->slow_count < TICK_VISITS)
        return;
    self->slow_count = 0;
    self->owner_expected = self->owner;
    hz_thread_arm(self);
    uint64_t now = hz_os_now_ms();
    hz_cpus_note();
    hz_idle_bins_flush(self, index, now);
    hz_cpu_bins_idle(self, size_class, now);
    hz_density_look();
    self->ticks_soon = hz_settle_tick(self, index, hz_keeper_runs());
    if (hz_keeper_runs()) {
        hz_keeper_hurry();
        return;
    }
    hz_keeper_look_again(now);
    hz_arena_tick();
    walk_tick(self, now);
    if (is_time(&aged_at_ms, now, HZ_DEPOT_AGE_MS)) {
        hz_density_age();
        hz_age_depot_begin();
        hz_shards_age_sent();
        hz_mail_gather(self);
    }
    hz_age_depot_step(self, TICK_BATCHES);
    hz_shards_drain_due(self, TICK_CLASSES);
}

void hz_tick_zone(struct hz_thread_block *self, uint32_t frees, unsigned size_class) {
    if (!hz_is_attached(self))
        return;
    self->zone_frees += frees;
    if (self->zone_frees < ZONE_FREES)
        return;
    self->zone_frees = 0;
    hz_tick(self, size_class);
}
