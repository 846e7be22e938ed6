/*
 * tick.c - see tick.h. Called by refills that the depot did not serve, and by frees that find their bin full.
 */
#include "heap/tick.h"

#include "base/arena.h"
#include "base/os.h"
#include "heap/cache/age.h"
#include "heap/pages/page_local.h"
#include "heap/thread.h"

enum { TICK_VISITS = 32 }; /* slow-path visits between two looks at the clock */

static _Atomic(uint64_t) aged_at_ms; /* hint */

void hz_tick(struct hz_thread_block *self) {
    if (++self->slow_count % TICK_VISITS != 0)
        return;
    hz_thread_arm(self);
    hz_arena_tick();
    uint64_t now = hz_os_now_ms();
    uint64_t last = hz_load_rlx(&aged_at_ms); /* relaxed: hint */
    /* relaxed: the CAS picks one thread, and publishes nothing */
    if (now >= last + HZ_DEPOT_AGE_MS && hz_cas_rlx_rlx(&aged_at_ms, &last, now)) {
        hz_age_depot(self);
        hz_page_local_gather(self);
    }
}
