/*
 * flow.c - see flow.h.
 */
#include "heap/report/flow.h"

#include "base/map/pagetag.h"
#include "base/os/random.h"
#include "base/profile/profile.h"
#include "base/profile/profile_flow.h"
#include "base/profile/profile_sites.h"
#include "base/watch/flowmap.h"

_Static_assert((int)HZ_SIZES <= (int)HZ_FLOWMAP_SIZES, "the map counts every size");

size_t hz_flow_block_bytes(unsigned size) {
    return size < HZ_CLASS_COUNT ? hz_class_bytes(size) : (size_t)1 << (size - HZ_CLASS_COUNT);
}

static unsigned size_of_large(size_t bytes) {
    return HZ_CLASS_COUNT + hz_log2(bytes - 1) + 1;
}

static unsigned size_of_weight(size_t weight) {
    return weight <= HZ_CLASS_BYTES_MAX ? hz_class_of(weight) : size_of_large(weight);
}

static uint64_t rounded(double value) {
    return value > 0 ? (uint64_t)(value + 0.5) : 0;
}

/* How many of the `live` blocks, or bytes, will cross if the same share does as of the blocks that were freed. */
static double expected(uint64_t passed, uint64_t freed, double live) {
    return freed > 0 ? live * (double)hz_min(passed, freed) / (double)freed : 0;
}

static void add_site(struct hz_flow *flow, const struct hz_profile_site *site) {
    double scale = 1 / hz_random_chance(site->weight, hz_profile_rate());
    /* relaxed, all: figures. Frees are read before allocations, so that `live` is rather too high than negative */
    uint64_t passed_blocks = hz_load_rlx(&site->passed_blocks);
    uint64_t passed_bytes = hz_load_rlx(&site->passed_bytes);
    uint64_t freed_blocks = hz_load_rlx(&site->freed_blocks);
    uint64_t freed_bytes = hz_load_rlx(&site->freed_bytes);
    double live_blocks = (double)(int64_t)(hz_load_rlx(&site->allocated_blocks) - freed_blocks);
    double live_bytes = (double)(int64_t)(hz_load_rlx(&site->allocated_bytes) - freed_bytes);
    struct hz_flow_size *size = &flow->sizes[size_of_weight(site->weight)];
    size->freed_blocks += rounded(scale * (double)freed_blocks);
    size->freed_bytes += rounded(scale * (double)freed_bytes);
    size->passed_blocks += rounded(scale * (double)passed_blocks);
    size->passed_bytes += rounded(scale * (double)passed_bytes);
    size->passed_samples += passed_blocks;
    size->in_flight_blocks += rounded(scale * expected(passed_blocks, freed_blocks, live_blocks));
    size->in_flight_bytes += rounded(scale * expected(passed_blocks, freed_blocks, live_bytes));
}

/* The figures of one size, in builds with statistics. */
static void size_get(struct hz_flow_size *size, const struct hz_figures *figures, unsigned index) {
    struct hz_flowmap_sums sums;
    struct hz_size_figures row;
    hz_flowmap_sums_get(index, &sums);
    if (!hz_figures_size(figures, index, &row))
        row = (struct hz_size_figures){0};
    *size = (struct hz_flow_size){
        .freed_blocks = sums.freed_blocks,
        .freed_bytes = sums.freed_bytes,
        .passed_blocks = sums.passed_blocks,
        .passed_bytes = sums.passed_bytes,
        .in_flight_blocks = rounded(expected(sums.passed_blocks, sums.freed_blocks, (double)row.live_blocks)),
        .in_flight_bytes = rounded(expected(sums.passed_blocks, sums.freed_blocks, (double)row.live_bytes)),
    };
}

bool hz_flow_get(struct hz_flow *flow, const struct hz_figures *figures) {
    *flow = (struct hz_flow){.is_sampled = !HZ_CONFIG_STATS};
    for (unsigned index = 1; HZ_CONFIG_STATS && index < HZ_SIZES; index++)
        size_get(&flow->sizes[index], figures, index);
    uint32_t count = !HZ_CONFIG_STATS && hz_profile_rate() != 0 ? hz_profile_site_count() : 0;
    for (uint32_t number = 1; number <= count; number++)
        add_site(flow, hz_profile_site_at(number));
    return HZ_CONFIG_STATS || hz_profile_rate() != 0;
}

void hz_flow_count_free(const void *block) {
    if (!hz_flowmap_has(block))
        return;
    unsigned size_class = hz_pagetag_class(block);
    if (size_class == HZ_CLASS_LARGE) {
        size_t bytes = hz_large_bytes(block);
        hz_flowmap_remove(block, size_of_large(bytes), bytes);
    } else if (size_class != HZ_CLASS_NONE) {
        hz_flowmap_remove(block, size_class, hz_class_bytes(size_class));
    }
}

/* ---- pairs ----------------------------------------------------------------------------------------- */

static bool counted_pair_next(uint32_t *number, struct hz_flow_pair *out) {
    while (*number < hz_flowmap_pair_count()) {
        struct hz_flowmap_pair pair;
        if (!hz_flowmap_pair_get((*number)++, &pair))
            continue;
        *out = (struct hz_flow_pair){.from = pair.from,
                                     .to = pair.to,
                                     .size = (unsigned)hz_min(pair.size, HZ_SIZES),
                                     .blocks = pair.blocks,
                                     .bytes = pair.bytes};
        return true;
    }
    return false;
}

static bool sampled_pair_next(uint32_t *number, struct hz_flow_pair *out) {
    uint32_t count = hz_profile_rate() != 0 ? hz_profile_pair_count() : 0;
    while (*number < count) {
        const struct hz_profile_pair *pair = hz_profile_pair_at(++*number);
        uint64_t blocks = hz_load_rlx(&pair->blocks) >> HZ_PROFILE_BLOCK_LOG2; /* relaxed, both: figures */
        if (pair->to == HZ_PROFILE_NOBODY || (pair->to == pair->from && pair->to != HZ_PROFILE_OTHERS) || blocks == 0)
            continue;
        *out = (struct hz_flow_pair){.from = pair->from,
                                     .to = pair->to,
                                     .size = HZ_SIZES,
                                     .blocks = blocks,
                                     .bytes = hz_load_rlx(&pair->bytes), /* relaxed, both: figures */
                                     .samples = hz_load_rlx(&pair->samples)};
        return true;
    }
    return false;
}

bool hz_flow_pair_next(uint32_t *number, struct hz_flow_pair *pair) {
    return HZ_CONFIG_STATS ? counted_pair_next(number, pair) : sampled_pair_next(number, pair);
}
