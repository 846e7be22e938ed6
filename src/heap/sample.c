/*
 * sample.c - see sample.h. Called by front/override_load.c.
 */
#include "heap/sample.h"

#include "base/guard.h"
#include "base/profile.h"
#include "heap/park.h"
#include "heap/thread.h"

static void detach_self(void) {
    struct hz_thread_block *self = hz_thread_enter();
    if (hz_is_attached(self)) {
        hz_thread_detach(self);
        hz_hooks_leave();
    } else {
        hz_thread_leave(self);
    }
}

bool hz_sample_start(uint32_t rate) {
    bool is_on = hz_guard_start(rate);
    if (is_on)
        detach_self();
    return is_on;
}

bool hz_sample_start_profile(uint64_t rate) {
    bool is_on = hz_profile_start(rate);
    if (is_on)
        detach_self();
    return is_on;
}
