/*
 * thread.c - threads come and go. A thread attaches at its first slow path, detaches in its exit hook; what it does
 * after that hook (destructors that run later) is served one operation at a time.
 */
#include "base/thread.h"

#include "base/meta.h"
#include "core/engine.h"

enum init_state { INIT_NONE, INIT_DONE };

static _Atomic(uint32_t) init_state; /* sync: init */
static struct hz_lock init_lock = HZ_LOCK_INIT(HZ_RANK_INIT);
static HZ_TLS bool thread_ending;

/* The tables, once. May fail for lack of memory and is tried again then. */
static bool init(void) {
    if (hz_load_acq(&init_state) == INIT_DONE) /* sync: init, partner below */
        return true;
    hz_lock_acquire(&init_lock);
    bool done = hz_load_rlx(&init_state) == INIT_DONE; /* relaxed: lock */
    if (!done && (hz_pagetags.mask != 0 || hz_pagetag_init()) && hz_arena_init()) {
        hz_depot_init();
        hz_store_rel(&init_state, INIT_DONE); /* sync: init, partner above */
        done = true;
    }
    hz_lock_release(&init_lock);
    return done;
}

static size_t slot_count(void) {
    size_t count = 0;
    for (unsigned index = 1; index < HZ_BINS; index++)
        count += 1 + hz_bin_slots(index);
    return count;
}

size_t hz_thread_bytes(void) {
    return sizeof(struct hz_thread_block) + slot_count() * sizeof(void *);
}

static struct hz_thread_block *block_make(void) {
    struct hz_thread_block *thread = hz_meta_alloc(hz_thread_bytes());
    if (thread == NULL)
        return NULL;
    thread->tags = hz_pagetags.tags;
    thread->tag_mask = hz_pagetags.mask;
    for (size_t granules = 1; granules <= HZ_SMALL_MAX / HZ_GRANULE_BYTES; granules++)
        thread->bin_of[granules] = (uint16_t)hz_bin_offset(hz_class_of(granules * HZ_GRANULE_BYTES));
    uint32_t offset = sizeof(*thread);
    for (unsigned index = 1; index < HZ_BINS; index++) { /* bin 0 has no slot, and is full and empty */
        struct hz_bin *bin = &thread->bins[index];
        hz_store_rlx(&bin->top, offset); /* relaxed: not shared yet. The first slot stays NULL */
        thread->bases[index] = offset;
        hz_bin_room_set(thread, index, index == HZ_REMOTE_BIN ? HZ_REMOTE_COUNT : hz_bin_start(index));
        offset += (hz_bin_slots(index) + 1) * (uint32_t)sizeof(void *);
    }
    hz_thread_publish(&thread->registered);
    return thread;
}

static void thread_exit(void *value) {
    if (value == hz_self)
        hz_thread_detach(hz_self);
    thread_ending = true;
}

bool hz_thread_is_ending(void) {
    return thread_ending;
}

void hz_thread_arm(struct hz_thread_block *self) {
    if (self->exit_armed || thread_ending)
        return;
    hz_thread_hooks_install(thread_exit, hz_core_after_fork);
    self->exit_armed = hz_thread_exit_arm(self);
}

void hz_thread_init_after_fork(void) {
    if (hz_lock_abandoned(&init_lock))
        hz_lock_reset(&init_lock); /* each step of init can be done again */
}

/* Only what needs it is written: pages are shared with the parent. */
void hz_thread_bins_after_fork(const struct hz_thread_block *self) {
    for (struct hz_thread *each = hz_thread_first(); each != NULL; each = each->next) {
        struct hz_thread_block *thread = hz_thread_from(each);
        for (unsigned index = 1; thread != self && index < HZ_BINS; index++) {
            struct hz_bin *bin = &thread->bins[index];
            if (hz_bin_held(thread, index) == 0 &&
                hz_slot_load_rlx(&bin->newest) != NULL) /* relaxed, all: one thread */
                hz_slot_store_rlx(&bin->newest, NULL);
        }
    }
}

struct hz_thread_block *hz_thread_attach(void) {
    if (!init())
        return NULL;
    struct hz_thread *recycled = hz_thread_claim();
    struct hz_thread_block *thread = recycled != NULL ? hz_thread_from(recycled) : block_make();
    if (thread == NULL)
        return NULL;
    thread->shard = hz_shard_claim();
    if (thread->shard == NULL) {
        hz_thread_release(&thread->registered);
        return NULL;
    }
    thread->owner = (uint8_t)thread->shard->index;
    hz_self = thread; /* from here on the thread can allocate, as the next calls may */
    thread->exit_armed = false;
    hz_thread_arm(thread);
    return thread;
}

void hz_thread_flush(struct hz_thread_block *thread) {
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        uint32_t count = hz_bin_empty(thread, size_class); /* what is on its way home is in no bin */
        if (count == 0)
            continue;
        if (hz_class_is_mid(size_class))
            hz_count(&thread->counters.mid_moved, count);
        hz_home_send(thread, hz_bin_base(thread, size_class) + 1, count);
    }
    hz_remote_flush(thread);
    hz_depot_spare_release(thread);
}

void hz_thread_detach(struct hz_thread_block *thread) {
    hz_thread_flush(thread);
    hz_shard_release(thread, thread->shard);
    hz_self = &hz_thread_none;
    hz_thread_release(&thread->registered);
}

bool hz_thread_reclaim_orphan(struct hz_thread_block *self) {
    struct hz_thread *orphan = hz_thread_claim_orphan();
    if (HZ_LIKELY(orphan == NULL))
        return false;
    struct hz_thread_block *thread = hz_thread_from(orphan);
    thread->shard = self->shard; /* a shard whose lists are sound; only the blocks' own shards matter */
    thread->owner = self->owner;
    hz_thread_flush(thread);
    hz_thread_release(orphan);
    return true;
}
