/*
 * profile_events.c - see profile_events.h.
 */
#include "base/profile/profile_events.h"

#include "base/os/atomic.h"
#include "base/os/hooks.h"

#include <errno.h>

enum { REGISTRATION_MAX = INT32_MAX }; /* a node has 31 bits for it */

static hz_sampling_callback *sampling_callback; /* lock of the profile, all */
static void *sampling_context;
static uint32_t registration;      /* number of the last registration */
static _Atomic(bool) has_callback; /* hint */
static HZ_TLS bool is_in_callback; /* owner */

void hz_profile_callback_set_locked(hz_sampling_callback *callback, void *context) {
    sampling_callback = NULL;
    hz_signal_fence(); /* fork: the child must not have a callback with another one's context */
    registration = registration % REGISTRATION_MAX + 1;
    sampling_context = context;
    hz_signal_fence();
    sampling_callback = callback;
    hz_store_rlx(&has_callback, callback != NULL); /* relaxed: hint */
}

/* The hint is enough: a block that the registration was told of was allocated after it, and the program orders the free
   after the allocation. */
bool hz_profile_is_heard(void) {
    return hz_load_rlx(&has_callback); /* relaxed: as above */
}

uint32_t hz_profile_listener_locked(void) {
    return sampling_callback != NULL && !is_in_callback ? registration : 0;
}

void hz_profile_notice_make_locked(struct hz_profile_notice *notice, uint32_t listener,
                                   const struct hz_sampling_event *event) {
    if (listener == 0 || listener != hz_profile_listener_locked())
        return;
    *notice = (struct hz_profile_notice){.callback = sampling_callback, .context = sampling_context, .event = *event};
}

void hz_profile_notice_give(const struct hz_profile_notice *notice) {
    if (notice->callback == NULL)
        return;
    int saved = errno;
    struct hz_hooks_callback call;
    hz_hooks_callback_begin(&call);
    is_in_callback = true;
    notice->callback(&notice->event, notice->context);
    is_in_callback = false;
    hz_hooks_callback_end(&call);
    errno = saved;
}
