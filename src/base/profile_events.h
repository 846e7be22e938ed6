/*
 * profile_events.h - tells the program of what is sampled: the callback of hz_sampling_notify, and who is called.
 *
 * A registration has a number. A sampled block notes the number of the registration that was told of it, so its free is
 * told to the same registration and to no other. The callback runs outside the profile's lock, and may allocate and
 * free; what happens inside of it is not told. profile.c calls all of this.
 */
#ifndef HZ_BASE_PROFILE_EVENTS_H
#define HZ_BASE_PROFILE_EVENTS_H

#include "hakozuna/hakozuna.h"

#include "base/compiler.h"

/* A call that is to be made. */
struct hz_profile_notice {
    hz_sampling_callback *callback; /* NULL: none */
    void *context;
    struct hz_sampling_event event;
};

/* Under the profile's lock. NULL: nobody is told any more. */
void hz_profile_callback_set_locked(hz_sampling_callback *callback, void *context);

/* Whether there is a callback, for a thread that does not hold the lock. True for the free of a block that the present
   registration was told of. */
bool hz_profile_is_heard(void);

/* The number of the registration that is told of what the calling thread does now; 0: none. Under the profile's lock.
 */
uint32_t hz_profile_listener_locked(void);

/* Fills the notice, if the registration `listener` is still the one to tell. Under the profile's lock. */
void hz_profile_notice_make_locked(struct hz_profile_notice *notice, uint32_t listener,
                                   const struct hz_sampling_event *event);

/* Calls the callback, if there is one. Holding no lock; the caller's structures are whole, since the callback may do
   what a program may do. Keeps errno. */
void hz_profile_notice_give(const struct hz_profile_notice *notice);

#endif
