/*
 * density.c - see density.h. Called by tick.c and, for the answer, by the cache.
 */
#include "heap/pages/density.h"

#include "heap/pages/page.h"

enum {
    DENSE_SHARE = 2, /* a class is sparse if less than one in this many of its blocks is out */
    SPARSE_WORDS = (HZ_CLASS_COUNT + 63) / 64,
};

static _Atomic(uint64_t) sparse[SPARSE_WORDS]; /* hint: a bit per class */

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

bool hz_density_is_low(size_t resting, struct hz_density_bound bound) {
    struct totals totals = totals_get();
    size_t held = hz_pages_bytes();
    size_t out = held - hz_min(held, totals.slack + totals.purged);
    if (totals.slack + resting > bound.bytes + out / bound.share)
        return true;
    for (unsigned word = 0; word < SPARSE_WORDS; word++)
        if (hz_load_rlx(&sparse[word]) != 0) /* relaxed, both: hint */
            hz_store_rlx(&sparse[word], 0);
    return false;
}
