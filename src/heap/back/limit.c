/*
 * limit.c - see limit.h.
 */
#include "heap/back/limit.h"

#include "base/arena/arena.h"
#include "base/lists/lock.h"
#include "base/map/budget.h"
#include "base/os/hooks.h"
#include "base/os/os.h"
#include "base/process/cgroup.h"
#include "base/process/process.h"
#include "policy.h"

#include <limits.h>

enum {
    PURGE_MS_MIN = 20,    /* from one purge to the next at least this long, */
    PURGE_SHARE = 16,     /* and this many times as long as the purge took, */
    PURGE_MS_MAX = 1000,  /* but no longer than this, */
    GROWTH_SHARE = 32,    /* nor beyond the moment when the heap holds 1/32 more, of the limit at least */
    WAIT_MS_MAX = 100,    /* a thread waits so long for another one's purge */
    LOOK_BYTES = 1 << 20, /* growth below this is no reason to look at what is beside the heap */
    REARM_SHARE = 16,     /* the callback is called again after the heap was this part below the soft limit */
};

static struct hz_lock limit_lock;                        /* a leaf */
static void (*notify)(size_t held_bytes, void *context); /* lock: limit_lock */
static void *notify_context;                             /* lock: limit_lock */
static void (*limit_told)(void);                         /* set before other threads exist */
static _Atomic(bool) are_chosen;                         /* lock: limit_lock; the program has set the limits */
static _Atomic(bool) is_told;                            /* hint: called since the heap was 1/16 below it */
static _Atomic(uint64_t) growth_counts_ms;               /* hint: growth ends the pause from then on */
static _Atomic(uint64_t) purge_due_ms;                   /* cas */
static _Atomic(uint32_t) purge_goes_on;                  /* hint; 1: threads can wait for its end */
static _Atomic(size_t) group_high = SIZE_MAX;            /* hint: the group's limits; SIZE_MAX: none */
static _Atomic(size_t) group_max = SIZE_MAX;             /* hint */
static _Atomic(size_t) beside;                           /* hint: what the process holds beside the heap */
static _Atomic(size_t) looked_held;                      /* hint: what the heap held at the last look at that */
static _Atomic(size_t) purge_held;                       /* hint: what was held when the last purge began or ended */

static void limit_set(size_t soft_bytes, size_t hard_bytes, bool chosen) {
    hz_hooks_enter();
    hz_lock_acquire(&limit_lock);
    if (chosen || !hz_load_rlx(&are_chosen)) /* relaxed, both: lock */
        hz_budget_limits_set(soft_bytes, hard_bytes, !chosen);
    if (chosen)
        hz_store_rlx(&are_chosen, true);
    hz_lock_release(&limit_lock);
    hz_hooks_leave();
}

void hz_heap_limit_set(size_t soft_bytes, size_t hard_bytes) {
    limit_set(soft_bytes, hard_bytes, true);
    hz_store_rlx(&is_told, false); /* relaxed: hint */
}

void hz_heap_limit_notify(void (*callback)(size_t held_bytes, void *context), void *context) {
    hz_hooks_enter();
    hz_lock_acquire(&limit_lock);
    notify = NULL;
    hz_signal_fence(); /* fork: a copy must not have a callback with the context of another */
    notify_context = context;
    hz_signal_fence();
    notify = callback;
    hz_lock_release(&limit_lock);
    hz_hooks_leave();
    hz_store_rlx(&is_told, false); /* relaxed: hint */
}

void hz_heap_limit_watch(void (*told)(void)) {
    limit_told = told;
}

/* Sets what the heap may hold of the group's limits, of which the process holds a part otherwise. */
static void default_set(void) {
    size_t high = hz_load_rlx(&group_high); /* relaxed, all: hint */
    size_t max = hz_load_rlx(&group_max);
    size_t limit = hz_min(high, max - max / HZ_LIMIT_GROUP_SHARE);
    size_t other = hz_min(hz_load_rlx(&beside), limit - limit / HZ_LIMIT_GROUP_SHARE);
    bool is_limited = high != SIZE_MAX || max != SIZE_MAX;
    limit_set(is_limited ? limit - other : 0, 0, false);
}

/* What the process holds beside the heap. If that cannot be read, it stays what it was. The heap can grow or shrink
   between the two figures; then less seems to be beside it, not more. */
static void beside_look(const char *statm) {
    size_t limit = hz_min(hz_load_rlx(&group_high), hz_load_rlx(&group_max)); /* relaxed, all: hint */
    size_t before = hz_arena_group_held_bytes(limit);
    size_t resident = limit != SIZE_MAX ? hz_process_private_bytes(statm) : 0;
    size_t held = hz_max(before, hz_arena_group_held_bytes(limit));
    hz_store_rlx(&looked_held, held);
    if (resident != SIZE_MAX)
        hz_store_rlx(&beside, resident - hz_min(resident, held));
}

void hz_heap_limit_default(const char *groups, const char *root, const char *statm) {
    size_t high;
    size_t max;
    if (!hz_cgroup_memory(groups, root, &high, &max)) /* perhaps the program has changed its root since the last look */
        return;
    hz_store_rlx(&group_high, high); /* relaxed, both: hint */
    hz_store_rlx(&group_max, max);
    beside_look(statm);
    default_set();
}

/* How much growth counts, since the heap held `before` bytes. */
static size_t growth_from(size_t before) {
    return hz_max(hz_budget_soft_limit(), before) / GROWTH_SHARE;
}

void hz_heap_limit_look(const char *statm) {
    if (hz_budget_soft_limit() == 0 || !hz_budget_limit_is_groups())
        return;
    size_t held = hz_arena_soft_held_bytes();
    size_t before = hz_load_rlx(&looked_held); /* relaxed, both: hint */
    if (held < before) {
        hz_store_rlx(&looked_held, held);
    } else if (held > before + hz_max(growth_from(before), LOOK_BYTES)) {
        beside_look(statm);
        default_set();
    }
}

void hz_heap_limit_forget_beside(void) {
    hz_store_rlx(&beside, 0); /* relaxed, both: hint */
    if (hz_budget_soft_limit() != 0 && hz_budget_limit_is_groups())
        default_set();
}

size_t hz_heap_limit_soft(bool *is_default) {
    *is_default = !hz_load_rlx(&are_chosen); /* relaxed: figure */
    return hz_budget_soft_limit();
}

bool hz_heap_limit_is_exceeded(void) {
    size_t soft = hz_budget_soft_limit();
    if (HZ_LIKELY(soft == 0))
        return false;
    size_t held = hz_arena_soft_held_bytes();
    if (held < soft - soft / REARM_SHARE && hz_load_rlx(&is_told)) /* relaxed, both: hint */
        hz_store_rlx(&is_told, false);
    return held > soft;
}

/* Whether the heap has grown so much since the last purge began or ended that nothing can wait for the clock. */
static bool has_grown(size_t held) {
    size_t before = hz_load_rlx(&purge_held); /* relaxed: hint */
    return hz_budget_soft_limit() != 0 && held > before + growth_from(before);
}

bool hz_heap_limit_purge_claim(uint64_t now_ms) {
    uint64_t due = hz_load_rlx(&purge_due_ms); /* relaxed, both: hint */
    size_t held = hz_arena_soft_held_bytes();
    bool is_due = now_ms >= due ||
                  (hz_load_rlx(&purge_goes_on) == 0 && now_ms >= hz_load_rlx(&growth_counts_ms) && has_grown(held));
    /* relaxed: the CAS picks one thread, and publishes nothing */
    if (!is_due || !hz_cas_rlx_rlx(&purge_due_ms, &due, now_ms + PURGE_MS_MAX))
        return false;
    hz_store_rlx(&purge_held, held); /* relaxed, both: hint */
    hz_store_rlx(&purge_goes_on, 1);
    return true;
}

void hz_heap_limit_purge_done(uint64_t claimed_ms, uint64_t now_ms) {
    uint64_t pause = hz_max(PURGE_SHARE * (now_ms - claimed_ms), PURGE_MS_MIN);
    hz_store_rlx(&purge_due_ms, now_ms + hz_min(pause, PURGE_MS_MAX)); /* relaxed, all: hint */
    hz_store_rlx(&growth_counts_ms, now_ms + (now_ms - claimed_ms));
    hz_store_rlx(&purge_held, hz_arena_soft_held_bytes());
    hz_store_rlx(&purge_goes_on, 0);
    hz_os_wake(&purge_goes_on, INT_MAX);
}

void hz_heap_limit_purge_wait(void) {
    if (hz_load_rlx(&purge_goes_on) != 0 && has_grown(hz_arena_soft_held_bytes())) /* relaxed: hint */
        hz_os_wait_ms(&purge_goes_on, 1, WAIT_MS_MAX);
}

void hz_heap_limit_tell(void) {
    static HZ_TLS bool is_telling; /* owner; the callback allocates, and may set the limits */
    bool told = false;
    /* relaxed: the CAS picks one thread, and publishes nothing */
    if (is_telling || !hz_arena_is_over_soft() || !hz_cas_rlx_rlx(&is_told, &told, true))
        return;
    if (limit_told != NULL)
        limit_told();
    hz_lock_acquire(&limit_lock);
    void (*callback)(size_t, void *) = notify;
    void *context = notify_context;
    hz_lock_release(&limit_lock);
    is_telling = true;
    struct hz_hooks_callback call;
    hz_hooks_callback_begin(&call);
    if (callback != NULL)
        callback(hz_arena_held_bytes(), context);
    hz_hooks_callback_end(&call);
    is_telling = false;
}

void hz_heap_limit_after_fork(void) {
    hz_lock_settle(&limit_lock);     /* the fields are sound after each step */
    hz_store_rlx(&purge_goes_on, 0); /* relaxed: hint; the thread that purged is not here */
    hz_heap_limit_forget_beside();   /* the child may unmap it, and perhaps nobody looks again */
}
