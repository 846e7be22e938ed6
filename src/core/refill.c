/*
 * refill.c - an empty bin gets a batch. Called by malloc's slow path.
 *
 * Order: the depot (what other threads had too much of; no lock, no block touched), then the own shard under its
 * exclusive: what was sent home, then pages. Blocks are written above `top`, where nobody looks, and become the bin's
 * by hz_bin_fill.
 */
#include "core/core.h"

void *hz_refill(struct hz_thread_block *self, unsigned size_class) {
    void **base = hz_bin_base(self, size_class);
    hz_assert(hz_bin_held(self, size_class) == 0);
    hz_count(&self->counters.refill, 1);
    hz_room_visit(self, size_class);
    uint32_t got = hz_class_is_shared(size_class) ? hz_depot_pop(self, size_class, base + 1) : 0;
    if (got > 0) {
        hz_count(&self->counters.refill_depot, 1);
        for (uint32_t i = got; i > 0; i--)
            HZ_PREFETCH_WRITE(base[i]); /* another processor may have written it last, and the program writes it soon */
        if (hz_class_is_mid(size_class))
            hz_count(&self->counters.mid_depot_hit, 1);
    } else {
        hz_thread_reclaim_orphan(self);
        hz_tick(self);
        if (HZ_UNLIKELY(hz_bin_held(self, size_class) != 0)) { /* arming the exit hook in the tick has allocated */
            if (HZ_CONFIG_STATS && hz_class_is_mid(size_class))
                hz_count(&self->counters.mid_cache_hit, 1);
            return hz_bin_pop(self, &self->bins[size_class]);
        }
        uint32_t want = hz_room_batch(self, size_class);
        got = hz_shard_refill(self, size_class, base + 1, want);
        if (got == 0) { /* no memory: what other classes do not use may do */
            hz_heap_purge();
            got = hz_shard_refill(self, size_class, base + 1, want);
        }
        if (got == 0)
            return NULL;
    }
    if (hz_class_is_mid(size_class))
        hz_count(&self->counters.mid_moved, -(uint64_t)got);
    hz_room_for(self, size_class, got);
    hz_bin_fill(self, size_class, got - 1);
    return base[got];
}
