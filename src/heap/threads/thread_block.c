/*
 * thread_block.c - makes thread blocks, and defines the one that stands in while a thread is not attached.
 */
#include "heap/threads/thread_block.h"

#include "base/arena/arena.h"
#include "base/map/meta.h"
#include "base/os/anatomy.h"
#include "base/os/os.h"
#include "base/profile/profile.h"
#include "base/watch/guard_pool.h"

static const struct hz_pagetag untagged;

struct hz_thread_block hz_thread_none = {
    .tags = &untagged,
    .tag_mask = 0,
};

HZ_TLS _Atomic(struct hz_thread_block *) hz_self_word = &hz_thread_none;

HZ_ANATOMY(thread_block, HZ_ANATOMY_FIELD(hz_thread_block, cache), HZ_ANATOMY_FIELD(hz_thread_block, parking.parked),
           HZ_ANATOMY_FIELD(hz_thread_block, parking.gone), HZ_ANATOMY_FIELD(hz_thread_block, busy),
           HZ_ANATOMY_FIELD(hz_thread_block, counters), HZ_ANATOMY_FIELD(hz_thread_block, counters.refill),
           HZ_ANATOMY_FIELD(hz_thread_block, counters.flush), HZ_ANATOMY_FIELD(hz_cache, bins),
           HZ_ANATOMY_FIELD(hz_cache, bases), HZ_ANATOMY_SIZE(hz_bin), HZ_ANATOMY_FIELD(hz_bin, newest),
           HZ_ANATOMY_FIELD(hz_bin, top), HZ_ANATOMY_NUMBER(HZ_REMOTE_BIN),
           HZ_ANATOMY_OBJECT(threads_ended, hz_thread_blocks_ended));

/* Makes a bin empty. Walks may look meanwhile, in which an empty bin has its top below its base. */
static void cache_begin(struct hz_cache *cache, unsigned index, uint32_t offset) {
    hz_slot_store_rlx(&cache->bases[index], offset); /* relaxed, both: not shared yet, or a figure */
    hz_store_rlx(&cache->bins[index].top, offset);   /* the first slot stays NULL */
    cache->bins[index].limit = offset;
}

struct hz_slot_places hz_slot_places;

/* The arrays of slots of all bins lie behind the thread block: the first ones, which every thread uses, a table that
   few threads use, the short ones, and the long ones. */
static void places_find(struct hz_slot_places *places) {
    const uint32_t slot_bytes = sizeof(void *);
    uint32_t offset = sizeof(struct hz_thread_block);
    for (unsigned index = 1; index < HZ_BINS; index++) { /* bin 0 has no slots: it is empty and full */
        places->new_bases[index] = offset;
        offset += hz_bin_slots_first(index) > 0 ? (1 + hz_bin_slots_first(index)) * slot_bytes : 0;
    }
    places->countings = offset;
    offset += (uint32_t)hz_round_up(HZ_COUNTINGS * sizeof(struct hz_counting), slot_bytes);
    for (unsigned index = 1; index < HZ_BINS; index++) {
        places->short_bases[index] = offset;
        if (hz_bin_slots_first(index) == 0)
            places->new_bases[index] = offset;
        offset += (1 + hz_bin_slots_short(index)) * slot_bytes;
    }
    for (unsigned index = 1; index < HZ_BINS; index++) {
        places->long_bases[index] = hz_bin_slots_long(index) > 0 ? offset : 0;
        offset += hz_bin_slots_long(index) * slot_bytes;
    }
    places->behind = offset;
}

void hz_thread_blocks_init(void) {
    places_find(&hz_slot_places);
}

size_t hz_thread_block_bytes(void) {
    struct hz_slot_places places;
    places_find(&places);
    return places.behind;
}

bool hz_sampling_is_on(void) {
    return hz_guard_rate() != 0 || hz_profile_is_on();
}

void hz_thread_block_aim(struct hz_thread_block *thread) {
    for (size_t granules = 1; granules <= HZ_SMALL_MAX / HZ_GRANULE_BYTES; granules++)
        thread->bin_of[granules] = (uint16_t)hz_bin_offset(hz_class_of(granules * HZ_GRANULE_BYTES));
    thread->mid_max = HZ_SPREAD_ABOVE_BYTES;
    thread->spread_max = HZ_CLASS_BYTES_MAX;
}

/* Zeros become the state of a thread block that has no blocks. */
static void block_fill(struct hz_thread_block *thread, struct hz_registered *registered) {
    thread->tags = hz_pagetags.tags;
    thread->tag_mask = hz_pagetags.mask;
    hz_thread_block_aim(thread);
    for (unsigned index = 1; index < HZ_BINS; index++)
        cache_begin(&thread->cache, index, hz_slot_places.new_bases[index]);
    thread->sampling.of = (struct hz_counting *)(void *)((char *)thread + hz_slot_places.countings);
    for (unsigned index = 1; index < HZ_BINS; index++)
        hz_bin_room_set(&thread->cache, index, index == HZ_REMOTE_BIN ? HZ_REMOTE_COUNT : hz_bin_new(index));
    hz_store_rel(&thread->registered, registered); /* release: a fork's copy must not have it without the rest */
}

/* Whole system pages, so that a purge can give back all of it. */
static size_t block_bytes(void) {
    return hz_round_up(hz_thread_block_bytes(), hz_os_page_bytes());
}

struct hz_thread_block *hz_thread_block_make(void) {
    static _Atomic(struct hz_registered *) spare; /* cas: one for whose block there was no memory */
    struct hz_registered *registered = hz_xchg_ar(&spare, NULL);
    if (registered == NULL)
        registered = hz_meta_alloc(sizeof(*registered));
    struct hz_thread_block *thread = registered != NULL ? hz_meta_alloc(block_bytes()) : NULL;
    if (thread == NULL) {
        (void)hz_xchg_ar(&spare, registered); /* if two threads fail at once, 64 bytes are lost */
        return NULL;
    }
    block_fill(thread, registered);
    registered->block = thread;
    hz_registry_add(registered);
    return thread;
}

struct hz_thread_block *hz_thread_block_get(struct hz_registered *registered) {
    struct hz_thread_block *thread = registered->block;
    registered->is_locked = false;
    if (hz_load_rlx(&registered->is_hollow)) {    /* relaxed: the caller has claimed it */
        if (hz_thread_registered(thread) == NULL) /* else a fork came before the memory was given back */
            block_fill(thread, registered);
        hz_store_rel(&registered->is_hollow, false); /* sync: thread-fill, partner is_hollow in figures.c */
    }
    return thread;
}

/* ---- purge ----------------------------------------------------------------------------------------- */

struct hz_counters hz_thread_blocks_ended;

static void counter_move_sum(_Atomic(uint64_t) *to, _Atomic(uint64_t) *from) {
    hz_add_rlx(to, hz_load_rlx(from)); /* relaxed, all: counters */
    hz_store_rlx(from, 0);
}

static void counter_move_max(_Atomic(uint64_t) *to, _Atomic(uint64_t) *from) {
    uint64_t value = hz_load_rlx(from); /* relaxed, all: counters; cas */
    uint64_t seen = hz_load_rlx(to);
    while (value > seen && !hz_cas_rlx_rlx(to, &seen, value)) {
    }
    hz_store_rlx(from, 0);
}

#define COUNTER_MOVE_SUM                        counter_move_sum
#define COUNTER_MOVE_HOT                        counter_move_sum
#define COUNTER_MOVE_MAX                        counter_move_max
#define COUNTER(group, field, name, kind, text) COUNTER_MOVE_##kind(&hz_thread_blocks_ended.field, &from->field);
static void counters_keep(struct hz_counters *from) {
#include "engine_counters.def"
#include "heap/counters.def"
    counter_move_sum(&hz_thread_blocks_ended.mid_moved, &from->mid_moved);
}
#undef COUNTER

/* The caller has claimed the block. A block that shares system pages with other memory stays. */
static size_t block_purge(struct hz_registered *registered) {
    struct hz_thread_block *thread = registered->block;
    if ((uintptr_t)thread % hz_os_page_bytes() != 0)
        return 0;
    counters_keep(&thread->counters);
    hz_store_rlx(&registered->is_hollow, true); /* relaxed: walks that miss it find an empty block */
    hz_signal_fence();                          /* fork: a copy must not lack the note */
    if (hz_os_purge(thread, block_bytes()))
        return block_bytes();
    (void)hz_thread_block_get(registered); /* the program may have locked the memory: a part may have gone back */
    registered->is_locked = true;          /* no need to try again and again */
    return 0;
}

size_t hz_thread_blocks_purge(void) {
    size_t bytes = 0;
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next) {
        if (hz_load_rlx(&each->is_hollow) || !hz_registry_claim_this(each)) /* relaxed: hint */
            continue;
        bool stays = hz_load_rlx(&each->is_hollow) || each->is_locked; /* relaxed: the caller has claimed it */
        bytes += stays ? 0 : block_purge(each);
        hz_registry_release(each);
    }
    hz_arena_count_purged(bytes);
    return bytes;
}
