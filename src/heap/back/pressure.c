/*
 * pressure.c - see pressure.h.
 */
#include "heap/back/pressure.h"

#include "base/arena/arena.h"
#include "heap/pages/page.h"
#include "policy.h"

enum {
    SPARSE_WORDS = (HZ_CLASS_COUNT + 63) / 64,
};

static _Atomic(uint64_t) sparse[SPARSE_WORDS]; /* hint: a bit per class */

static _Atomic(size_t) recent_out; /* hint */

struct totals {
    size_t slack;
    size_t purged;
};

static struct totals totals_get(void) {
    struct totals totals = {0};
    for (struct hz_shard *shard = hz_shard_get(0); shard != NULL; shard = hz_shard_next(shard)) {
        size_t slack = hz_load_rlx(&shard->free_bytes);   /* relaxed, both: hint */
        totals.slack += slack <= PTRDIFF_MAX ? slack : 0; /* read between two changes, below 0 */
        totals.purged += hz_load_rlx(&shard->purged_bytes);
    }
    return totals;
}

size_t hz_pressure_slack(void) {
    return totals_get().slack;
}

bool hz_class_is_sparse(unsigned size_class) {
    return (hz_load_rlx(&sparse[size_class / 64]) >> (size_class % 64) & 1) != 0; /* relaxed: hint */
}

bool hz_class_look(unsigned size_class, uint32_t spare) {
    size_t blocks = hz_class_blocks(size_class);
    size_t unused = spare;
    for (struct hz_shard *shard = hz_shard_get(0); shard != NULL; shard = hz_shard_next(shard))
        unused += hz_load_rlx(&shard->classes[size_class].free_blocks); /* relaxed: hint */
    size_t out = blocks - hz_min(blocks, unused);
    uint64_t bit = UINT64_C(1) << (size_class % 64);
    if (out * HZ_SPARSE_SHARE < blocks)
        hz_or_rlx(&sparse[size_class / 64], bit);
    else if (hz_class_is_sparse(size_class))
        hz_and_rlx(&sparse[size_class / 64], ~bit);
    return out * HZ_SPARSE_SHARE < blocks;
}

static size_t out_of(struct totals totals) {
    size_t held = hz_pages_bytes();
    return held - hz_min(held, totals.slack + totals.purged);
}

size_t hz_pressure_out(void) {
    return out_of(totals_get());
}

size_t hz_pressure_recent_out(void) {
    return hz_load_rlx(&recent_out); /* relaxed: hint */
}

size_t hz_pressure_recent_out_short(void) {
    size_t out = hz_pressure_recent_out();
    return out - hz_min(out, hz_pages_long_bytes());
}

void hz_pressure_look(void) {
    size_t out = hz_pressure_out();
    if (out > hz_pressure_recent_out())
        hz_store_rlx(&recent_out, out); /* relaxed: hint */
}

void hz_pressure_age(void) {
    size_t recent = hz_pressure_recent_out();
    hz_store_rlx(&recent_out, hz_max(recent - recent / HZ_OUT_AGE_SHARE, hz_pressure_out())); /* relaxed: hint */
}

enum bound_name {
#define POLICY(name, value, unit, decision, what)
#define BOUND(name, bytes, thread_bytes, most, share, when) BOUND_##name,
#include "policy.def"
};

struct bound {
    size_t bytes;
    size_t thread_bytes;
    size_t most;
    size_t share;
};

static const struct bound bounds[] = {
#define POLICY(name, value, unit, decision, what)
#define BOUND(name, bytes, thread_bytes, most, share, when) {bytes, thread_bytes, most, share},
#include "policy.def"
};

_Static_assert((int)BOUND_TICK_BESIDE == (int)HZ_TICK_BESIDE && (int)BOUND_TICK_ALONE == (int)HZ_TICK_ALONE &&
                   (int)BOUND_ROUND == (int)HZ_ROUND,
               "policy.def begins with a bound for each driver");

static bool is_above(size_t bytes, enum bound_name name, size_t out) {
    const struct bound *bound = &bounds[name];
    size_t fixed = hz_min(bound->bytes + bound->thread_bytes * hz_pressure_threads(), bound->most);
    return bytes > fixed + out / bound->share;
}

enum hz_pressure hz_pressure_get(enum hz_driver driver, size_t resting) {
    hz_assert(driver < HZ_DEMAND);
    size_t slack = hz_pressure_slack();
    size_t recent = hz_pressure_recent_out();
    if (hz_arena_is_over_soft() && is_above(slack + resting, BOUND_SOFT, recent))
        return HZ_OVER;
    if (is_above(slack + resting, (enum bound_name)driver, recent))
        return HZ_LOW;
    return driver == HZ_ROUND && is_above(slack, BOUND_WALK, hz_pressure_out()) ? HZ_LOOSE : HZ_CALM;
}

static _Atomic(uint32_t) sharing; /* hint */

size_t hz_pressure_threads(void) {
    return hz_max(hz_load_rlx(&sharing), 1); /* relaxed: hint */
}

void hz_pressure_join(void) {
    hz_add_rlx(&sharing, 1); /* relaxed: hint */
}

void hz_pressure_leave(void) {
    hz_sub_rlx(&sharing, 1); /* relaxed: hint */
}

void hz_pressure_after_fork(uint32_t threads) {
    hz_store_rlx(&sharing, threads); /* relaxed: hint */
}

void hz_classes_forget_sparse(void) {
    for (unsigned word = 0; word < SPARSE_WORDS; word++)
        if (hz_load_rlx(&sparse[word]) != 0) /* relaxed, both: hint */
            hz_store_rlx(&sparse[word], 0);
}
