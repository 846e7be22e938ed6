/*
 * refill.c - see refill.h.
 *
 * Pointers to blocks are written above the bin's `top`, where nothing reads them. hz_bin_fill then adds them to the
 * bin.
 */
#include "heap/cache/refill.h"

#include "base/arena/arena.h"
#include "heap/cache/depot.h"
#include "heap/cache/room.h"
#include "heap/pages/supply.h"
#include "heap/seal.h"

/* base[1] .. base[got] are the new blocks. The last one is for the caller. */
static void *fill(struct hz_thread_block *self, unsigned size_class, uint32_t got) {
    if (hz_class_is_mid(size_class))
        hz_count(&self->counters.mid_moved, -(uint64_t)got);
    hz_room_ensure(self, size_class, got - 1);
    hz_bin_fill(&self->cache, size_class, got - 1);
    return hz_bin_base(&self->cache, size_class)[got];
}

/* Spreads the starts over all that the class allows. malloc moves a block nearer to its place if the size does not fit.
 */
static void spread_most(unsigned size_class, void **blocks, uint32_t count) {
    size_t grid = hz_class_grid(size_class);
    for (uint32_t i = 0; !HZ_BLOCKS_SEALED && i < count; i++) {
        char *place = hz_spread_place(blocks[i], grid);
        blocks[i] = place + hz_spread_within(hz_spread_key(place), grid - HZ_SPREAD_STEP);
    }
}

void *hz_refill_from_depot(struct hz_thread_block *self, unsigned size_class) {
    hz_assert(hz_bin_held(&self->cache, size_class) == 0);
    hz_count(&self->counters.refill, 1);
    if (hz_room_visit(self, size_class))
        hz_room_shrink(self, size_class);
    uint32_t got = hz_depot_pop(self, size_class, NULL);
    if (got == 0)
        return NULL;
    hz_count(&self->counters.refill_depot, 1);
    if (hz_class_is_mid(size_class))
        hz_count(&self->counters.mid_depot_hit, 1);
    if (size_class >= HZ_SPREAD_CLASS_FIRST) /* former sizes may have moved them */
        spread_most(size_class, hz_bin_base(&self->cache, size_class) + 1, got);
    return fill(self, size_class, got);
}

void *hz_refill_from_shard(struct hz_thread_block *self, unsigned size_class, uint64_t *fresh_units) {
    if (hz_arena_is_over_hard()) /* pages that were given back in parts could fill again without the arena */
        return NULL;
    void **base = hz_bin_base(&self->cache, size_class);
    uint32_t want = fresh_units == NULL ? hz_room_batch(self, size_class) : 1;
    uint32_t got = hz_supply_refill(self, size_class, base + 1, want, fresh_units);
    if (size_class >= HZ_SPREAD_CLASS_FIRST)
        spread_most(size_class, base + 1, got);
    return got > 0 ? fill(self, size_class, got) : NULL;
}
