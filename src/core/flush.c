/*
 * flush.c - a full bin gives up its oldest blocks. Called by free's slow path; the remote buffer also at the end of
 * threads and by purge.
 *
 * They go to the depot for any thread, in batches; home if the class has enough there, or does not use it. The remote
 * buffer goes home as a whole. A fork that copies the bin in
 * the middle must not find a block twice: the bin is emptied first, and what stays is put back last.
 */
#include "core/core.h"

#include <string.h>

static void give(struct hz_thread_block *self, unsigned size_class, void **blocks, uint32_t count) {
    uint32_t batch = hz_batch_count(size_class);
    while (count > 0) {
        uint32_t part = (uint32_t)hz_min(count, batch);
        if (!hz_class_is_shared(size_class) || !hz_depot_push(self, size_class, blocks, part))
            hz_home_send(self, blocks, part);
        blocks += part;
        count -= part;
    }
}

void hz_bin_flush(struct hz_thread_block *self, unsigned size_class, uint32_t keep) {
    void **base = hz_bin_base(self, size_class);
    void *oldest[HZ_BIN_COUNT];
    uint32_t held = hz_bin_held(self, size_class);
    if (held <= keep)
        return;
    uint32_t count = held - keep;
    hz_count(&self->counters.flush, 1);
    if (hz_class_is_mid(size_class)) {
        hz_count(&self->counters.mid_free_batch_flush, 1);
        hz_count(&self->counters.mid_moved, count);
    }
    (void)hz_bin_empty(self, size_class); /* before anything moves */
    memcpy(oldest, base + 1, count * sizeof(oldest[0]));
    memmove(base + 1, base + 1 + count, keep * sizeof(oldest[0]));
    give(self, size_class, oldest, count);
    hz_bin_fill(self, size_class, keep);
}

void hz_remote_flush(struct hz_thread_block *self) {
    void *blocks[HZ_REMOTE_COUNT];                      /* statistics read the slots: they are not for scratch */
    uint32_t count = hz_bin_empty(self, HZ_REMOTE_BIN); /* what is on its way home is in no buffer */
    if (count == 0)
        return;
    hz_count(&self->counters.remote_flush_calls, 1);
    hz_count(&self->counters.remote_free, count);
    memcpy(blocks, hz_bin_base(self, HZ_REMOTE_BIN) + 1, count * sizeof(blocks[0]));
    hz_home_send(self, blocks, count);
}
