/*
 * sampler.c - see sampler.h.
 */
#include "heap/cache/sampler.h"

#include "base/os/os.h"
#include "base/os/random.h"
#include "base/profile/profile.h"
#include "base/watch/guard_pool.h"

/* Not what the thread's block says: a signal handler can end sampling in the middle of a choice, by a fork. */
static bool is_for_profile(void) {
    return hz_guard_rate() == 0;
}

static uint64_t gap(struct hz_sampling *sampling) {
    return is_for_profile() ? hz_random_gap(&sampling->random, hz_profile_prepared_rate())
                            : hz_random_tries(&sampling->random, hz_guard_rate()) - 1;
}

static uint64_t weight_of(unsigned size_class) {
    return is_for_profile() ? hz_class_bytes(size_class) : 1;
}

/* Counts one allocation. True if it is chosen. */
static bool count_one(struct hz_sampling *sampling, uint64_t weight) {
    if (sampling->countdown >= weight) {
        sampling->countdown -= weight;
        return false;
    }
    sampling->countdown = gap(sampling);
    return true;
}

static void draw_anew(struct hz_sampling *sampling) {
    hz_os_random(&sampling->random, sizeof(sampling->random));
    sampling->countdown = gap(sampling);
}

/* A signal handler may allocate between any two steps: the fast path sends it here only when all is ready. */
static void sampler_start(struct hz_thread_block *self) {
    self->sampling.is_by_bytes = is_for_profile();
    draw_anew(&self->sampling);
    for (size_t granules = 1; granules <= HZ_SMALL_MAX / HZ_GRANULE_BYTES; granules++) {
        unsigned size_class = hz_class_of(granules * HZ_GRANULE_BYTES);
        self->sampling.of[granules].bin = (uint16_t)hz_bin_offset(size_class);
        self->sampling.of[granules].weight = (uint16_t)weight_of(size_class);
    }
    hz_signal_fence();
    hz_store_rlx(&self->sampling.is_on, true); /* relaxed: owner */
    hz_signal_fence();
    self->mid_max = 0;
    self->spread_max = 0;
    for (size_t granules = 1; granules <= HZ_SMALL_MAX / HZ_GRANULE_BYTES; granules++)
        self->bin_of[granules] = (uint16_t)hz_bin_offset(HZ_CLASS_NONE);
}

static void sampler_stop(struct hz_thread_block *self) {
    hz_thread_block_aim(self);
    hz_signal_fence();
    hz_store_rlx(&self->sampling.is_on, false); /* relaxed: owner */
    self->sampling.is_by_bytes = false;
}

bool hz_sampler_is_settled(const struct hz_thread_block *thread) {
    return hz_load_rlx(&thread->sampling.is_on) == hz_sampling_is_on(); /* relaxed: owner, or hint */
}

/* Again, if it has changed meanwhile: whoever has changed it may have looked before. */
void hz_sampler_settle(struct hz_thread_block *self) {
    while (!hz_sampler_is_settled(self)) {
        if (hz_sampler_is_on(self))
            sampler_stop(self);
        else
            sampler_start(self);
        hz_signal_fence(); /* sync: park, partner switch_to, whose barrier orders store and load */
    }
}

void *hz_sampler_alloc(struct hz_thread_block *self, unsigned size_class, size_t alignment, size_t size) {
    struct hz_sampling *sampling = &self->sampling;
    if (!is_for_profile()) {
        bool is_chosen = size <= HZ_GUARD_BLOCK_MAX && count_one(sampling, 1);
        return is_chosen ? hz_guard_alloc(size, hz_max(alignment, HZ_GRANULE_BYTES)) : NULL;
    }
    bool is_chosen = size_class != HZ_CLASS_NONE && count_one(sampling, weight_of(size_class));
    return is_chosen ? hz_profile_alloc(hz_class_bytes(size_class), size) : NULL;
}

void hz_sampler_count_large(struct hz_thread_block *self, const void *block, size_t size) {
    size_t weight = hz_profile_weight(size);
    if (self->sampling.is_by_bytes && count_one(&self->sampling, weight))
        hz_profile_add(block, size, weight);
}

void hz_sampler_forget(struct hz_thread_block *self) {
    self->sampling.countdown = gap(&self->sampling);
}

void hz_sampler_settle_fork(struct hz_thread_block *self) {
    if (hz_sampler_is_on(self))
        draw_anew(&self->sampling);
}
