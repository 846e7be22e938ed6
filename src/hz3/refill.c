/*
 * refill.c - an empty bin gets a batch. Called by malloc's slow path.
 *
 * Order: the depot (what other threads had too much of; no lock, no block touched), then the own shard under its
 * exclusive: what was sent home, then pages. Blocks are written above `top`, where nobody looks, and become the bin's
 * by the one store of `top`.
 */
#include "hz3/hz3.h"

static uint32_t refill_from_shard(struct hz3_thread *self, unsigned size_class, void **out) {
    struct hz3_shard *shard = self->shard;
    hz_lock_acquire(&shard->exclusive);
    uint32_t got = hz3_shard_refill_locked(self, shard, size_class, out, hz3_batch_count(size_class));
    hz_lock_release(&shard->exclusive);
    return got;
}

void *hz3_refill(struct hz3_thread *self, unsigned size_class) {
    struct hz3_bin *bin = &self->bins[size_class];
    void **base = hz3_bin_base(bin, size_class);
    hz_assert(hz_load_rlx(&bin->top) == base);
    hz3_count(&self->counters.refill, 1);
    uint32_t got = hz3_depot_pop(self, size_class, base);
    if (got > 0) {
        hz3_count(&self->counters.refill_depot, 1);
    } else {
        hz3_thread_reclaim_orphan(self);
        hz3_tick(self);
        got = refill_from_shard(self, size_class, base);
        if (got == 0) { /* no memory: what other classes do not use may do */
            hz3_purge();
            got = refill_from_shard(self, size_class, base);
        }
        if (got == 0)
            return NULL;
    }
    hz_store_rel(&bin->top, base + got - 1); /* release: as in hz_engine_free */
    return base[got - 1];
}
