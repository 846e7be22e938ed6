/*
 * tick.c - see tick.h.
 */
#include "heap/back/tick.h"

#include "base/os/os.h"
#include "base/process/cpus.h"
#include "heap/back/chores.h"
#include "heap/back/keeper.h"
#include "heap/threads/thread.h"

enum { ZONE_FREES = 32 }; /* frees in zones that make one visit; a full bin passes on about as many */

void hz_tick_now(struct hz_thread_block *self, unsigned index) {
    self->slow_count = 0;
    self->owner_expected = self->owner;
    hz_thread_arm(self);
    bool has_keeper = hz_keeper_runs();
    struct hz_turn turn = {
        .driver = has_keeper ? HZ_TICK_BESIDE : HZ_TICK_ALONE,
        .now_ms = hz_os_now_ms(),
        .busy = index,
    };
    hz_cpus_note();
    hz_pressure_look();
    hz_chores_do(self, &turn);
    self->ticks_soon = turn.has_more;
    if (has_keeper)
        hz_keeper_hurry();
    else
        hz_keeper_look_again(turn.now_ms);
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
