/*
 * budget.c - see budget.h. All variables are hints, which threads may change at once.
 */
#include "base/map/budget.h"

#include "base/os/atomic.h"
#include "base/os/os.h"
#include "policy.h"

enum {
    LOOP_BYTES_MIN = 1 << 20, /* less than this is forgotten */
    REFUSED_MS = 1000,
    REFUSALS_MAX = 6, /* that double the pause */
};

static _Atomic(size_t) rest_bytes = HZ_BUDGET_BYTES; /* hint: the fixed part */
static _Atomic(size_t) loop_bytes;                   /* hint: what is allowed in addition, for a loop */
static _Atomic(size_t) regret_bytes;                 /* hint: what was purged lately because the budget was exceeded */
static _Atomic(bool) loop_used;                      /* hint: loop_bytes was needed since the last tick */
static _Atomic(size_t) soft_limit;                   /* hint; 0: none */
static _Atomic(bool) limit_is_groups;                /* hint: see budget.h */
static _Atomic(size_t) hard_limit;                   /* hint */
static _Atomic(uint32_t) refusals;                   /* hint: in a row; 0: the last purge succeeded */
static _Atomic(uint64_t) pause_end_ms;               /* hint */

void hz_budget_limits_set(size_t soft_bytes, size_t hard_bytes, bool is_groups) {
    hz_store_rlx(&limit_is_groups, is_groups); /* relaxed, all: hint */
    hz_store_rlx(&soft_limit, soft_bytes);
    hz_store_rlx(&hard_limit, hard_bytes);
}

size_t hz_budget_soft_limit(void) {
    return hz_load_rlx(&soft_limit); /* relaxed: hint */
}

size_t hz_budget_hard_limit(void) {
    return hz_load_rlx(&hard_limit); /* relaxed: hint */
}

bool hz_budget_limit_is_groups(void) {
    return hz_load_rlx(&limit_is_groups); /* relaxed: hint */
}

/* The budget without its addition for loops. The fixed part is at most PTRDIFF_MAX, so no sum overflows. */
static size_t base_of(size_t used) {
    return hz_load_rlx(&rest_bytes) + used / HZ_BUDGET_USED_SHARE; /* relaxed: hint */
}

bool hz_budget_is_paused(void) {
    return HZ_UNLIKELY(hz_load_rlx(&refusals) != 0) && hz_os_now_ms() < hz_load_rlx(&pause_end_ms); /* relaxed: hint */
}

void hz_budget_told(bool done) {
    uint32_t before = hz_load_rlx(&refusals); /* relaxed, all: hints */
    if (done) {
        if (before != 0)
            hz_store_rlx(&refusals, 0);
    } else if (!hz_budget_is_paused()) {
        hz_store_rlx(&refusals, before + 1);
        hz_store_rlx(&pause_end_ms, hz_os_now_ms() + ((uint64_t)REFUSED_MS << hz_min(before, REFUSALS_MAX)));
    }
}

size_t hz_budget_limit(size_t used, size_t resting_units) {
    size_t most = HZ_BUDGET_LOOP_PAGES_BYTES + resting_units + used / HZ_BUDGET_LOOP_USED_SHARE;
    return base_of(used) + hz_min(hz_load_rlx(&loop_bytes), most); /* relaxed: hint */
}

void hz_budget_purged(size_t bytes) {
    hz_add_rlx(&regret_bytes, bytes); /* relaxed: hint */
}

/* If the budget made a free purge memory lately, the program allocates again what it freed: a loop, for which a larger
   budget would have avoided the purge. */
void hz_budget_learn(size_t fresh, size_t reused, size_t used, size_t resting) {
    size_t loop = hz_load_rlx(&loop_bytes); /* relaxed, all: hints */
    if (fresh > 0) {
        size_t purged = hz_load_rlx(&regret_bytes);
        size_t regret = hz_min(fresh, purged);
        if (regret == 0 || loop >= HZ_BUDGET_LOOP_BYTES)
            return;
        hz_store_rlx(&regret_bytes, purged - regret); /* a store: differences could fall below 0 */
        hz_store_rlx(&loop_bytes, hz_min(loop + regret, HZ_BUDGET_LOOP_BYTES));
        hz_store_rlx(&loop_used, true);
    } else if (loop > 0 && !hz_load_rlx(&loop_used) && resting + reused > base_of(used)) {
        hz_store_rlx(&loop_used, true);
    }
}

bool hz_budget_has_idle_loop(void) {
    return hz_load_rlx(&loop_bytes) > 0 && !hz_load_rlx(&loop_used); /* relaxed, both: hints */
}

void hz_budget_age(size_t resting) {
    bool is_used = hz_load_rlx(&loop_used); /* relaxed, all: hints */
    bool has_ended = !is_used && resting == 0;
    size_t left = hz_load_rlx(&loop_bytes) / 2;
    hz_store_rlx(&regret_bytes, has_ended ? 0 : hz_load_rlx(&regret_bytes) / 2);
    if (is_used)
        hz_store_rlx(&loop_used, false);
    else
        hz_store_rlx(&loop_bytes, left < LOOP_BYTES_MIN || has_ended ? 0 : left);
}

bool hz_budget_rest_set(size_t bytes) {
    size_t before = hz_load_rlx(&rest_bytes); /* relaxed, all: hints */
    hz_store_rlx(&rest_bytes, bytes);
    if (bytes >= before)
        return false;
    hz_store_rlx(&loop_bytes, 0);
    hz_store_rlx(&regret_bytes, 0);
    return true;
}
