/*
 * profile_events.h - tells the program about sampled blocks: keeps the callback of hz_sampling_notify, and calls it.
 *
 * A registration has a number. A sampled block notes the number of the registration that was told of its allocation, so
 * that no other registration is told of its free. The callback runs outside the profile's lock, and may allocate and
 * free; it is not told about what happens inside of it. profile.c calls all of this.
 */
#ifndef HZ_BASE_PROFILE_PROFILE_EVENTS_H
#define HZ_BASE_PROFILE_PROFILE_EVENTS_H

#include "hakozuna/hakozuna.h"

#include "base/os/compiler.h"

/* A call of the callback that is to be made once the lock is released. */
struct hz_profile_notice {
    hz_sampling_callback *callback; /* NULL: none */
    void *context;
    struct hz_sampling_event event;
};

/* Registers the callback; NULL removes it. Under the profile's lock. */
void hz_profile_callback_set_locked(hz_sampling_callback *callback, void *context);

/* Whether there is a callback, for a thread that does not hold the lock. True for the free of a block that the present
   registration was told of. */
bool hz_profile_is_heard(void);

/* The number of the registration to tell about what the calling thread does now; 0: none. Under the profile's lock. */
uint32_t hz_profile_listener_locked(void);

/* Fills the notice if `listener` is still the registration to tell. Under the profile's lock. */
void hz_profile_notice_make_locked(struct hz_profile_notice *notice, uint32_t listener,
                                   const struct hz_sampling_event *event);

/* Makes the call that the notice holds, if any. The caller holds no lock, and its structures are consistent, since the
   callback may do whatever a program may do. Keeps errno. */
void hz_profile_notice_give(const struct hz_profile_notice *notice);

#endif
