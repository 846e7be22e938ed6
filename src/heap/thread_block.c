/*
 * thread_block.c - makes thread blocks, and defines the one that stands in while a thread is not attached. Called by
 * thread.c.
 */
#include "heap/thread_block.h"

#include "base/anatomy.h"
#include "base/arena.h"
#include "base/guard_pool.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/profile.h"

static const struct hz_pagetag untagged;

struct hz_thread_block hz_thread_none = {
    .tags = &untagged,
    .tag_mask = 0,
};

HZ_TLS _Atomic(struct hz_thread_block *) hz_self_word = &hz_thread_none;

HZ_ANATOMY(thread_block, HZ_ANATOMY_FIELD(hz_thread_block, cache), HZ_ANATOMY_FIELD(hz_thread_block, registered),
           HZ_ANATOMY_FIELD(hz_thread_block, parking.parked), HZ_ANATOMY_FIELD(hz_thread_block, parking.gone),
           HZ_ANATOMY_FIELD(hz_thread_block, busy), HZ_ANATOMY_FIELD(hz_thread_block, counters),
           HZ_ANATOMY_FIELD(hz_thread_block, counters.refill), HZ_ANATOMY_FIELD(hz_thread_block, counters.flush),
           HZ_ANATOMY_FIELD(hz_cache, bins), HZ_ANATOMY_FIELD(hz_cache, bases), HZ_ANATOMY_SIZE(hz_bin),
           HZ_ANATOMY_FIELD(hz_bin, newest), HZ_ANATOMY_FIELD(hz_bin, top), HZ_ANATOMY_NUMBER(HZ_REMOTE_BIN));

static size_t slot_count(void) {
    size_t count = 0;
    for (unsigned index = 1; index < HZ_BINS; index++)
        count += 1 + hz_bin_slots_short(index) + hz_bin_slots_long(index);
    return count;
}

size_t hz_thread_block_bytes(void) {
    return sizeof(struct hz_thread_block) + slot_count() * sizeof(void *);
}

bool hz_sampling_is_on(void) {
    return hz_guard_rate() != 0 || hz_profile_rate() != 0;
}

struct hz_thread_block *hz_thread_block_make(void) {
    struct hz_thread_block *thread = hz_meta_alloc(hz_thread_block_bytes());
    if (thread == NULL)
        return NULL;
    thread->tags = hz_pagetags.tags;
    thread->tag_mask = hz_pagetags.mask;
    for (size_t granules = 1; granules <= HZ_SMALL_MAX / HZ_GRANULE_BYTES; granules++)
        thread->bin_of[granules] = (uint16_t)hz_bin_offset(hz_class_of(granules * HZ_GRANULE_BYTES));
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        thread->bin_of_class[size_class] = (uint16_t)hz_bin_offset(size_class);
    struct hz_cache *cache = &thread->cache;
    uint32_t offset = (uint32_t)sizeof(*thread);
    for (unsigned index = 1; index < HZ_BINS; index++) { /* bin 0 has no slots: it is empty and full */
        hz_store_rlx(&cache->bins[index].top, offset);   /* relaxed: not shared yet. The first slot stays NULL */
        cache->bases[index] = offset;
        cache->bins[index].limit = offset;
        offset += (hz_bin_slots_short(index) + 1) * (uint32_t)sizeof(void *);
    }
    for (unsigned index = 1; index < HZ_BINS; index++) {
        cache->long_bases[index] = hz_bin_slots_long(index) > 0 ? offset : 0;
        offset += hz_bin_slots_long(index) * (uint32_t)sizeof(void *);
        hz_bin_room_set(cache, index, index == HZ_REMOTE_BIN ? HZ_REMOTE_COUNT : HZ_BIN_NEW_COUNT);
    }
    hz_registry_add(&thread->registered);
    return thread;
}

/* From the groups on, zeros are a sound beginning: the slots of empty bins, and a table that no epoch has used. */
static size_t thread_block_purge(struct hz_thread_block *thread) {
    uintptr_t os_page = hz_os_page_bytes();
    uintptr_t begin = hz_round_up((uintptr_t)&thread->groups, os_page);
    uintptr_t behind = ((uintptr_t)thread + hz_thread_block_bytes()) & ~(os_page - 1);
    return begin < behind && hz_os_purge((void *)begin, behind - begin) ? behind - begin : 0;
}

size_t hz_thread_blocks_purge(void) {
    size_t bytes = 0;
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next) {
        struct hz_thread_block *thread = hz_thread_block_from(each);
        if (!hz_registry_claim_this(each))
            continue;
        if (!thread->is_hollow)
            bytes += thread_block_purge(thread);
        thread->is_hollow = true;
        hz_registry_release(each);
    }
    hz_arena_count_purged(bytes);
    return bytes;
}
