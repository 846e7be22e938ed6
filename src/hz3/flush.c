/*
 * flush.c - a full bin gives up its oldest blocks. Called by free's slow path, the end of threads and purge.
 *
 * They go to the depot for any thread, in batches; when the class has enough there, home. A fork that copies the bin in
 * the middle must not find a block twice: the bin is emptied first, and what stays is put back last.
 */
#include "hz3/hz3.h"

#include <string.h>

static void give(struct hz3_thread *self, unsigned size_class, void **blocks, uint32_t count) {
    uint32_t batch = hz3_batch_count(size_class);
    while (count > 0) {
        uint32_t part = (uint32_t)hz_min(count, batch);
        if (hz3_class_is_home(size_class) || !hz3_depot_push(self, size_class, blocks, part))
            hz3_home_send(self, blocks, part);
        blocks += part;
        count -= part;
    }
}

void hz3_bin_flush(struct hz3_thread *self, unsigned size_class, uint32_t keep) {
    struct hz3_bin *bin = &self->bins[size_class];
    void **base = hz3_bin_base(bin, size_class);
    void *oldest[HZ3_BIN_COUNT];
    uint32_t held = (uint32_t)(hz_load_rlx(&bin->top) - base); /* relaxed: owner */
    if (held <= keep)
        return;
    uint32_t count = held - keep;
    hz3_count(&self->counters.flush, 1);
    hz_store_rel(&bin->top, base); /* fork: empty for the copy ... */
    hz_signal_fence();             /* ... before anything moves */
    memcpy(oldest, base, count * sizeof(oldest[0]));
    memmove(base, base + count, keep * sizeof(oldest[0]));
    give(self, size_class, oldest, count);
    hz_store_rel(&bin->top, base + keep); /* release: as in hz_engine_free */
}
