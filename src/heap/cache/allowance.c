/*
 * allowance.c - see allowance.h.
 */
#include "heap/cache/allowance.h"

#include "base/map/budget.h"
#include "heap/back/density.h"

enum {
    CROWD = 1024,     /* threads */
    LIMIT_SHARE = 16, /* all bins together may have room for 1/16 of the soft limit */
};

static _Atomic(uint32_t) sharing; /* hint: threads that are attached and not parked */

size_t hz_allowance_threads(void) {
    return hz_max(hz_load_rlx(&sharing), 1); /* relaxed: hint */
}

size_t hz_allowance(void) {
    size_t threads = hz_allowance_threads();
    size_t room = HZ_ROOM_BYTES + (HZ_ROOM_SHARED_BYTES + hz_density_recent_out_short() / 2) / threads;
    size_t limit = hz_budget_soft_limit();
    return HZ_LIKELY(limit == 0) ? room : hz_min(room, limit / LIMIT_SHARE / threads);
}

bool hz_allowance_is_crowded(void) {
    return hz_load_rlx(&sharing) > CROWD; /* relaxed: hint */
}

void hz_allowance_join(void) {
    hz_add_rlx(&sharing, 1); /* relaxed: hint */
}

void hz_allowance_leave(void) {
    hz_sub_rlx(&sharing, 1); /* relaxed: hint */
}

void hz_allowance_after_fork(uint32_t threads) {
    hz_store_rlx(&sharing, threads); /* relaxed: hint */
}
