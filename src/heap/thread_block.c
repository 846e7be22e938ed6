/*
 * thread_block.c - makes thread blocks, and defines the one that stands in while a thread is not attached. Called by
 * thread.c.
 */
#include "heap/thread_block.h"

#include "base/meta.h"

static const struct hz_pagetag untagged;

struct hz_thread_block hz_thread_none = {
    .tags = &untagged,
    .tag_mask = 0,
};

HZ_TLS struct hz_thread_block *hz_self = &hz_thread_none;

static size_t slot_count(void) {
    size_t count = 0;
    for (unsigned index = 1; index < HZ_BINS; index++)
        count += 1 + hz_bin_slots(index);
    return count;
}

size_t hz_thread_block_bytes(void) {
    return sizeof(struct hz_thread_block) + slot_count() * sizeof(void *);
}

struct hz_thread_block *hz_thread_block_make(void) {
    struct hz_thread_block *thread = hz_meta_alloc(hz_thread_block_bytes());
    if (thread == NULL)
        return NULL;
    thread->tags = hz_pagetags.tags;
    thread->tag_mask = hz_pagetags.mask;
    for (size_t granules = 1; granules <= HZ_SMALL_MAX / HZ_GRANULE_BYTES; granules++)
        thread->bin_of[granules] = (uint16_t)hz_bin_offset(hz_class_of(granules * HZ_GRANULE_BYTES));
    uint32_t offset = sizeof(*thread);
    for (unsigned index = 1; index < HZ_BINS; index++) { /* bin 0 has no slots: it is empty and full */
        struct hz_cache *cache = &thread->cache;
        hz_store_rlx(&cache->bins[index].top, offset); /* relaxed: not shared yet. The first slot stays NULL */
        cache->bases[index] = offset;
        hz_bin_room_set(cache, index, index == HZ_REMOTE_BIN ? HZ_REMOTE_COUNT : hz_bin_start(index));
        offset += (hz_bin_slots(index) + 1) * (uint32_t)sizeof(void *);
    }
    hz_registry_add(&thread->registered);
    return thread;
}
