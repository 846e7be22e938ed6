/*
 * draws.h - the random choices of a workload, made before the clock starts.
 *
 * Each thread has a table of DRAW_COUNT choices and uses it repeatedly, which bounds its memory (128 KiB). A cursor
 * turns the table into an endless sequence: every round through it shifts the slots by a new random offset. So any
 * number of slots is reached, and a slot's history does not repeat (a branch predictor would learn a plain repetition).
 */
#ifndef WORKLOADS_DRAWS_H
#define WORKLOADS_DRAWS_H

#include <stdint.h>

#include "rng.h"

enum { DRAW_COUNT = 1 << 14, DRAW_PARTS_MAX = 3 };

struct draw {
    uint32_t slot;
    uint32_t remote : 1; /* if the slot is occupied: send the block to another thread */
    uint32_t size : 31;
};

/* A size is drawn from a part chosen by weight, uniformly within it, and clamped to min..max. */
struct size_mix {
    uint32_t min, max;
    unsigned part_count;
    struct {
        uint32_t low, high, weight;
    } parts[DRAW_PARTS_MAX];
};

struct draw_cursor {
    const struct draw *table; /* DRAW_COUNT entries, owner: one thread */
    uint64_t rng;
    uint32_t next, offset, slot_count;
};

/* A mix of one part, uniform from min to max. */
struct size_mix size_mix_uniform(uint32_t min, uint32_t max);

/* Draws a size below 2^31. */
uint32_t size_mix_draw(const struct size_mix *mix, uint64_t *rng);

/* Builds a table and a cursor on it, from the random stream of (seed, index). */
void draw_cursor_open(struct draw_cursor *cursor, uint64_t seed, uint64_t index, uint32_t slot_count,
                      const struct size_mix *mix, uint32_t remote_percent);

/* Call when `next` has reached DRAW_COUNT. */
static inline void draw_cursor_rewind(struct draw_cursor *cursor) {
    cursor->next = 0;
    cursor->offset = rng_below(&cursor->rng, cursor->slot_count);
}

static inline struct draw draw_next(struct draw_cursor *cursor) {
    if (cursor->next == DRAW_COUNT) {
        draw_cursor_rewind(cursor);
    }
    struct draw draw = cursor->table[cursor->next++];
    uint32_t slot = draw.slot + cursor->offset;
    draw.slot = slot >= cursor->slot_count ? slot - cursor->slot_count : slot;
    return draw;
}

#endif /* WORKLOADS_DRAWS_H */
