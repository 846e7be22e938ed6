/*
 * purge.c - memory goes back: the depot ages, free pages are purged, hz_purge reaches everything that can be reached.
 */
#include "base/os.h"
#include "core/engine.h"

enum {
    TICK_VISITS = 32, /* slow-path visits between two looks at the clock */
    AGE_SHARE = 32,   /* a class gives one block in so many home each time */
    AGE_BUDGET = 64,  /* batches at once, so that no caller waits long */
};

static _Atomic(uint64_t) aged_at_ms;     /* hint */
static _Atomic(uint32_t) age_next_class; /* hint: where the budget ended last time */

/* Sends batches of the class home until those are `share` blocks, or so many batches; returns how many batches. */
static uint32_t depot_go_home(struct hz_thread_block *self, unsigned size_class, uint32_t share, uint32_t batches) {
    void *blocks[HZ_BATCH_COUNT];
    uint32_t sent = 0;
    uint32_t done = 0;
    uint32_t count;
    for (; sent < share && done < batches && (count = hz_depot_age(self, size_class, blocks)) > 0; done++) {
        hz_home_send(self, blocks, count);
        sent += count;
    }
    return done;
}

static void depot_age(struct hz_thread_block *self) {
    uint32_t left = AGE_BUDGET;
    uint32_t size_class = hz_load_rlx(&age_next_class); /* relaxed: hint */
    for (unsigned i = 1; i < HZ_CLASS_COUNT && left > 0; i++) {
        size_class = size_class + 1 < HZ_CLASS_COUNT ? size_class + 1 : 1;
        uint32_t share = (hz_depot_blocks(size_class) + AGE_SHARE - 1) / AGE_SHARE;
        left -= depot_go_home(self, size_class, share, left);
        hz_depot_forget_passing(size_class);
    }
    hz_store_rlx(&age_next_class, size_class); /* relaxed: hint */
}

void hz_tick(struct hz_thread_block *self) {
    if (++self->slow_count % TICK_VISITS != 0)
        return;
    hz_thread_arm(self);
    hz_arena_tick();
    uint64_t now = hz_os_now_ms();
    uint64_t last = hz_load_rlx(&aged_at_ms);                                       /* relaxed: hint */
    if (now >= last + HZ_DEPOT_AGE_MS && hz_cas_rlx_rlx(&aged_at_ms, &last, now)) { /* relaxed: one of many does it */
        depot_age(self);
        hz_pageq_gather(self);
    }
}

/* What was sent to the shard goes home. Class by class: its threads wait shortly. */
static void shard_drain(struct hz_thread_block *self, struct hz_shard *shard) {
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        hz_shard_lock(self, shard, HZ_TO_GIVE);
        struct hz_list strays = hz_shard_drain_locked(self, shard, size_class);
        hz_shard_unlock(shard);
        hz_blocks_put_home(self, &strays);
    }
}

static void shard_retire(struct hz_thread_block *self, struct hz_shard *shard) {
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        if (hz_load_rlx(&shard->classes[size_class].partial) == NULL) /* relaxed: hint */
            continue;
        hz_shard_lock(self, shard, HZ_TO_GIVE);
        uint32_t retired = hz_pages_retire_all_locked(shard, size_class);
        hz_shard_unlock(shard);
        hz_count(&self->counters.page_retire, retired);
    }
}

size_t hz_heap_purge(void) {
    struct hz_thread_block *self = hz_self;
    if (!hz_is_attached(self))
        return 0;
    while (hz_thread_reclaim_orphan(self)) {
    }
    hz_thread_flush(self);
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        depot_go_home(self, size_class, UINT32_MAX, UINT32_MAX);
    struct hz_shard *shard; /* they are made in order */
    for (unsigned index = 0; (shard = hz_shard_get(index)) != NULL; index++)
        shard_drain(self, shard);
    hz_pageq_gather(self);
    for (unsigned index = 0; (shard = hz_shard_get(index)) != NULL; index++)
        shard_retire(self, shard); /* when all are drained: strays have come to others' pages */
    return hz_arena_purge(0, SIZE_MAX);
}

void hz_engine_start(void) {
    if (!hz_is_attached(hz_self))
        hz_thread_attach(); /* no memory now: tried again by the first allocation */
}

size_t hz_engine_purge(void) {
    bool attached = hz_is_attached(hz_self);
    if (!attached && hz_thread_attach() == NULL)
        return 0;
    size_t bytes = hz_heap_purge();
    if (!attached && hz_thread_is_ending())
        hz_thread_detach(hz_self);
    return bytes;
}
