/*
 * sample.c - see sample.h. Called by front/override_load.c.
 */
#include "heap/sample.h"

#include "base/guard.h"
#include "heap/park.h"
#include "heap/thread.h"

bool hz_sample_start(uint32_t rate) {
    if (!hz_guard_start(rate))
        return false;
    struct hz_thread_block *self = hz_thread_enter();
    if (hz_is_attached(self)) {
        hz_thread_detach(self);
        hz_hooks_leave();
    } else {
        hz_thread_leave(self);
    }
    return true;
}
