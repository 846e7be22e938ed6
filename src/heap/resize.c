/*
 * resize.c - see resize.h. Only large blocks can be resized; a small one has the size of its class.
 */
#include "heap/resize.h"

#include "base/arena/large.h"
#include "base/profile/profile.h"
#include "heap/back/purge.h"
#include "heap/cache/sampler.h"
#include "heap/query.h"
#include "heap/threads/park.h"
#include "heap/threads/zone.h"

void *hz_resize(void *block, size_t size, bool may_move, const char *function) {
    if (hz_profile_has(block) || hz_query_class(block, function) != HZ_CLASS_LARGE)
        return NULL;
    size_t before = hz_large_bytes(block);
    bool is_of_zone = hz_zone_has(block);
    struct hz_thread_block *self = hz_thread_enter();
    struct hz_profile_record record;
    /* before the address can be another thread's; the profile does not see blocks of zones */
    bool is_watched = !is_of_zone && hz_profile_rate() != 0;
    if (HZ_UNLIKELY(is_watched))
        hz_profile_tell_free(block);
    bool was_sampled = is_watched && hz_profile_remove(block, &record);
    void *resized = is_of_zone ? hz_zone_large_resize(block, size, may_move) : hz_large_resize(block, size, may_move);
    if (resized == NULL && was_sampled)
        hz_profile_restore(block, &record);
    else if (resized != NULL && !is_of_zone && hz_sampler_is_on(self))
        hz_sampler_count_large(self, resized, size); /* for the profile, as a block of its own */
    hz_thread_leave(self);
    self = hz_thread_mine;
    if (resized != NULL && self != NULL) {
        size_t after = hz_large_bytes(resized);
        hz_count(&self->counters.large_acq, after > before ? after - before : 0);
        hz_count(&self->counters.large_rel, before > after ? before - after : 0);
        if (after > before)
            hz_heap_limit_tick();
    }
    return resized;
}
