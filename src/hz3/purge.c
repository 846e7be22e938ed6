/*
 * purge.c - memory goes back: the depot ages, free pages are purged, hz_purge reaches everything that can be reached.
 */
#include "base/os.h"
#include "hz3/engine.h"

enum { TICK_VISITS = 32 }; /* slow-path visits between two looks at the clock */

static _Atomic(uint64_t) aged_at_ms; /* hint */

/* Sends up to `batches` of the class's batches home. */
static void depot_go_home(struct hz3_thread *self, unsigned size_class, uint32_t batches) {
    void *blocks[HZ3_BATCH_COUNT];
    uint32_t count;
    while (batches-- > 0 && (count = hz3_depot_pop(self, size_class, blocks)) > 0)
        hz3_home_send(self, blocks, count);
}

static void depot_age(struct hz3_thread *self) {
    for (unsigned size_class = 1; size_class < HZ3_CLASS_COUNT; size_class++)
        depot_go_home(self, size_class, (hz3_depot_batches(size_class) + 3) / 4);
}

void hz3_tick(struct hz3_thread *self) {
    if (++self->slow_count % TICK_VISITS != 0)
        return;
    hz_arena_tick();
    uint64_t now = hz_os_now_ms();
    uint64_t last = hz_load_rlx(&aged_at_ms);                                      /* relaxed: hint */
    if (now - last >= HZ3_DEPOT_AGE_MS && hz_cas_rlx_rlx(&aged_at_ms, &last, now)) /* relaxed: one of many does it */
        depot_age(self);
}

static void shard_give_back(struct hz3_thread *self, struct hz3_shard *shard) {
    hz_lock_acquire(&shard->exclusive);
    for (unsigned size_class = 1; size_class < HZ3_CLASS_COUNT; size_class++) {
        hz3_shard_drain_locked(self, shard, size_class);
        hz3_count(&self->counters.page_retire, hz3_pages_retire_all_locked(shard, size_class));
    }
    hz_lock_release(&shard->exclusive);
}

size_t hz3_purge(void) {
    struct hz3_thread *self = hz3_self;
    if (!hz3_is_attached(self))
        return 0;
    hz3_thread_reclaim_orphan(self);
    hz3_thread_flush(self);
    for (unsigned size_class = 1; size_class < HZ3_CLASS_COUNT; size_class++)
        depot_go_home(self, size_class, UINT32_MAX);
    for (unsigned index = 0; index < HZ3_NUM_SHARDS; index++)
        if (hz3_shard_get(index) != NULL)
            shard_give_back(self, hz3_shard_get(index));
    return hz_arena_purge(0, SIZE_MAX);
}

size_t hz_engine_purge(void) {
    bool attached = hz3_is_attached(hz3_self);
    if (!attached && hz3_thread_attach() == NULL)
        return 0;
    size_t bytes = hz3_purge();
    if (!attached && hz3_thread_is_ending())
        hz3_thread_detach(hz3_self);
    return bytes;
}
