/*
 * purge.c - see purge.h. Called by hz_purge and malloc_trim, and by an allocation that finds no memory.
 */
#include "heap/purge.h"

#include "base/arena.h"
#include "heap/cache/age.h"
#include "heap/cache/flush.h"
#include "heap/orphan.h"
#include "heap/pages/drain.h"
#include "heap/pages/page.h"
#include "heap/pages/page_local.h"
#include "heap/thread.h"

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

static size_t purge(struct hz_thread_block *self) {
    size_t before = hz_arena_purged_bytes(); /* what the pages that come home give back counts too */
    while (hz_orphan_reclaim(self)) {
    }
    hz_thread_flush(self);
    hz_age_depot_fully(self);
    struct hz_shard *shard; /* shards are made in order */
    for (unsigned index = 0; (shard = hz_shard_get(index)) != NULL; index++)
        hz_shard_drain(self, shard);
    hz_page_local_gather(self);
    /* after all drains, because strays have gone to other shards' pages */
    for (unsigned index = 0; (shard = hz_shard_get(index)) != NULL; index++)
        shard_retire(self, shard);
    hz_arena_purge(0, SIZE_MAX);
    return hz_arena_purged_bytes() - before;
}

size_t hz_heap_purge(void) {
    bool attached = hz_is_attached(hz_self);
    if (!attached && hz_thread_attach() == NULL)
        return 0;
    size_t bytes = purge(hz_self);
    if (!attached && hz_thread_is_ending())
        hz_thread_detach(hz_self);
    return bytes;
}
