/*
 * density.c - see density.h.
 */
#include "heap/back/density.h"

#include "heap/pages/page.h"

enum {
    DENSE_SHARE = 2, /* a class is sparse if less than one in this many of its blocks is out */
    OUT_AGE_SHARE = 8,
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
    struct hz_shard *shard;
    for (unsigned index = 0; (shard = hz_shard_get(index)) != NULL; index++) { /* shards are made in order */
        size_t slack = hz_load_rlx(&shard->free_bytes);                        /* relaxed, both: hint */
        totals.slack += slack <= PTRDIFF_MAX ? slack : 0;                      /* read between two changes, below 0 */
        totals.purged += hz_load_rlx(&shard->purged_bytes);
    }
    return totals;
}

size_t hz_density_slack(void) {
    return totals_get().slack;
}

bool hz_class_is_sparse(unsigned size_class) {
    return (hz_load_rlx(&sparse[size_class / 64]) >> (size_class % 64) & 1) != 0; /* relaxed: hint */
}

bool hz_class_look(unsigned size_class) {
    size_t blocks = hz_class_blocks(size_class);
    size_t unused = 0;
    struct hz_shard *shard;
    for (unsigned index = 0; (shard = hz_shard_get(index)) != NULL; index++)
        unused += hz_load_rlx(&shard->classes[size_class].free_blocks); /* relaxed: hint */
    size_t out = blocks - hz_min(blocks, unused);
    uint64_t bit = UINT64_C(1) << (size_class % 64);
    if (out * DENSE_SHARE < blocks)
        hz_or_rlx(&sparse[size_class / 64], bit);
    else if (hz_class_is_sparse(size_class))
        hz_and_rlx(&sparse[size_class / 64], ~bit);
    return out * DENSE_SHARE < blocks;
}

static size_t out_of(struct totals totals) {
    size_t held = hz_pages_bytes();
    return held - hz_min(held, totals.slack + totals.purged);
}

size_t hz_density_out(void) {
    return out_of(totals_get());
}

size_t hz_density_recent_out(void) {
    return hz_load_rlx(&recent_out); /* relaxed: hint */
}

size_t hz_density_recent_out_short(void) {
    size_t out = hz_density_recent_out();
    return out - hz_min(out, hz_pages_long_bytes());
}

void hz_density_look(void) {
    size_t out = hz_density_out();
    if (out > hz_density_recent_out())
        hz_store_rlx(&recent_out, out); /* relaxed: hint */
}

void hz_density_age(void) {
    size_t recent = hz_density_recent_out();
    hz_store_rlx(&recent_out, hz_max(recent - recent / OUT_AGE_SHARE, hz_density_out())); /* relaxed: hint */
}

bool hz_density_is_low(size_t resting, struct hz_density_bound bound) {
    return hz_density_slack() + resting > bound.bytes + hz_density_recent_out() / bound.share;
}

void hz_classes_forget_sparse(void) {
    for (unsigned word = 0; word < SPARSE_WORDS; word++)
        if (hz_load_rlx(&sparse[word]) != 0) /* relaxed, both: hint */
            hz_store_rlx(&sparse[word], 0);
}
