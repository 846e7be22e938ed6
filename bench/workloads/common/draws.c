/*
 * draws.c - see draws.h.
 */
#include "draws.h"

#include "machine.h"

struct size_mix size_mix_uniform(uint32_t min, uint32_t max) {
    struct size_mix mix = {.min = min, .max = max, .part_count = 1};
    mix.parts[0].low = min;
    mix.parts[0].high = max;
    mix.parts[0].weight = 1;
    return mix;
}

uint32_t size_mix_draw(const struct size_mix *mix, uint64_t *rng) {
    uint32_t weights = 0;
    for (unsigned p = 0; p < mix->part_count; p++) {
        weights += mix->parts[p].weight;
    }
    uint32_t point = rng_below(rng, weights);
    unsigned part = 0;
    while (point >= mix->parts[part].weight) {
        point -= mix->parts[part++].weight;
    }
    uint32_t low = mix->parts[part].low;
    uint32_t size = low + rng_below(rng, mix->parts[part].high - low + 1);
    return size < mix->min ? mix->min : size > mix->max ? mix->max : size;
}

void draw_cursor_open(struct draw_cursor *cursor, uint64_t seed, uint64_t index, uint32_t slot_count,
                      const struct size_mix *mix, uint32_t remote_percent) {
    uint64_t rng = rng_stream(seed, index);
    struct draw *table = machine_map(DRAW_COUNT, sizeof *table);
    for (uint32_t i = 0; i < DRAW_COUNT; i++) {
        table[i].slot = rng_below(&rng, slot_count);
        table[i].size = size_mix_draw(mix, &rng) & INT32_MAX;
        table[i].remote = rng_below(&rng, 100) < remote_percent;
    }
    *cursor = (struct draw_cursor){.table = table, .rng = rng, .slot_count = slot_count};
}
