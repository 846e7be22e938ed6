/*
 * profile_flow.c - see profile_flow.h.
 */
#include "base/profile/profile_flow.h"

enum { PAIR_BUCKETS_LOG2 = 11 };

static struct {
    struct hz_profile_pair pairs[HZ_PROFILE_PAIRS]; /* lock: the profile's, all but a pair's sums */
    uint32_t count;
    uint32_t buckets[1 << PAIR_BUCKETS_LOG2]; /* number of a pair; 0: none */
} flow_table;

static struct hz_profile_pair *pair_at(uint32_t number) {
    return &flow_table.pairs[number - 1];
}

const struct hz_profile_pair *hz_profile_pair_at(uint32_t number) {
    return pair_at(number);
}

uint32_t hz_profile_pair_count_locked(void) {
    return flow_table.count;
}

static uint32_t *pair_bucket(uint32_t from, uint32_t to) {
    uint64_t both = (uint64_t)from << 32 | to;
    return &flow_table.buckets[both * UINT64_C(0x9E3779B97F4A7C15) >> (64 - PAIR_BUCKETS_LOG2)];
}

/* The number of a pair, which is made if there is room; else 0. */
static uint32_t pair_get_locked(uint32_t from, uint32_t to) {
    uint32_t *bucket = pair_bucket(from, to);
    for (uint32_t number = *bucket; number != 0; number = pair_at(number)->next)
        if (pair_at(number)->from == from && pair_at(number)->to == to)
            return number;
    uint32_t number = flow_table.count + 1;
    if (number > HZ_PROFILE_PAIRS)
        return 0;
    *pair_at(number) = (struct hz_profile_pair){.from = from, .to = to, .next = *bucket};
    hz_signal_fence();
    flow_table.count = number;
    hz_signal_fence(); /* fork: a child must not make a pair with a number that a bucket has */
    *bucket = number;
    return number;
}

void hz_profile_flow_start(void) {
    (void)pair_get_locked(HZ_PROFILE_OTHERS, HZ_PROFILE_NOBODY); /* the table is empty */
    (void)pair_get_locked(HZ_PROFILE_OTHERS, HZ_PROFILE_OTHERS);
}

void hz_profile_flow_count_locked(uint32_t from, uint32_t to, size_t size, double scale, bool is_undone) {
    uint32_t number = pair_get_locked(from, to);
    if (number == 0)
        number = pair_get_locked(HZ_PROFILE_OTHERS, to == HZ_PROFILE_NOBODY ? HZ_PROFILE_NOBODY : HZ_PROFILE_OTHERS);
    struct hz_profile_pair *pair = pair_at(number);
    uint64_t sign = is_undone ? UINT64_MAX : 1;
    /* relaxed, all: counter */
    hz_add_rlx(&pair->samples, sign);
    hz_add_rlx(&pair->blocks, sign * (uint64_t)(scale * (1 << HZ_PROFILE_BLOCK_LOG2) + 0.5));
    hz_add_rlx(&pair->bytes, sign * (uint64_t)(scale * (double)size + 0.5));
}
