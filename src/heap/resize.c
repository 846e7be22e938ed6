/*
 * resize.c - see resize.h. Called by realloc and hz_expand. Only large blocks can be resized; a small one has the size
 * of its class.
 */
#include "heap/resize.h"

#include "base/large.h"
#include "heap/park.h"
#include "heap/purge.h"
#include "heap/query.h"
#include "heap/zone.h"

void *hz_resize(void *block, size_t size, bool may_move, const char *function) {
    if (hz_query_class(block, function) != HZ_CLASS_LARGE)
        return NULL;
    size_t before = hz_large_usable(block);
    hz_hooks_enter();
    void *resized =
        hz_zone_has(block) ? hz_zone_large_resize(block, size, may_move) : hz_large_resize(block, size, may_move);
    hz_hooks_leave();
    struct hz_thread_block *self = hz_thread_mine;
    if (resized != NULL && self != NULL) {
        size_t after = hz_large_usable(resized);
        hz_count(&self->counters.large_acq, after > before ? after - before : 0);
        hz_count(&self->counters.large_rel, before > after ? before - after : 0);
        if (after > before)
            hz_heap_limit_tick();
    }
    return resized;
}
