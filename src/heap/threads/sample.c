/*
 * sample.c - see sample.h.
 */
#include "heap/threads/sample.h"

#include "base/profile/profile.h"
#include "base/watch/guard.h"
#include "cpu_bins.h"
#include "heap/cache/sampler.h"
#include "heap/threads/park.h"

/* A thread that is not attached yet is sampled from the moment it attaches. */
static bool begin_here(bool is_on) {
    struct hz_thread_block *self = hz_thread_enter();
    if (is_on && hz_is_attached(self)) {
        hz_cpu_bins_leave(self); /* what is taken from the bins of CPUs is not counted */
        hz_sampler_start(self);
    }
    hz_thread_leave(self);
    return is_on;
}

bool hz_sample_start(uint32_t rate) {
    return begin_here(hz_guard_start(rate));
}

bool hz_sample_start_profile(uint64_t rate) {
    return begin_here(hz_profile_start(rate));
}
