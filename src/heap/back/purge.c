/*
 * purge.c - see purge.h.
 */
#include "heap/back/purge.h"

#include "base/arena/arena.h"
#include "base/map/budget.h"
#include "base/os/os.h"
#include "heap/back/chores.h"
#include "heap/back/keeper.h"
#include "heap/back/limit.h"
#include "heap/back/surroundings.h"
#include "heap/cache/flush.h"
#include "heap/threads/park.h"
#include "heap/threads/thread.h"

enum {
    LEARN_SEGMENTS = 4,        /* a process with one thread asks for its group's limit when the heap has 16 MiB */
    VAIN_BYTES_MIN = 64 << 20, /* a purge in vain for a smaller request does not stop the next purge */
    VAIN_SHARE = 16,           /* after a purge in vain the next one waits so many times as long as it took, */
    VAIN_MS_MIN = 20,          /* at least this long */
    VAIN_MS_MAX = 1000,        /* and at most this long, */
    VAIN_FREED_SHARE = 8,      /* unless the program has freed 1/8 of what it wants */
};

static _Atomic(size_t) vain_bytes;      /* hint: what was refused after a purge; 0: nothing was */
static _Atomic(size_t) vain_used_bytes; /* hint: what was in use then */
static _Atomic(uint64_t) vain_end_ms;   /* hint */

static size_t purge(struct hz_thread_block *self, size_t keep, bool anew) {
    size_t before = hz_arena_purged_bytes(); /* a free that exceeds the dirty budget purges too */
    struct hz_turn turn = {
        .driver = HZ_DEMAND,
        .can_park = hz_keeper_runs(), /* it has prepared the barrier */
        .anew = anew,
        .keep_bytes = keep,
    };
    hz_chores_do(self, &turn);
    hz_arena_trim();
    return hz_arena_purged_bytes() - before;
}

static size_t heap_purge(size_t keep, bool anew) {
    struct hz_thread_block *self = hz_thread_enter();
    bool attached = hz_is_attached(self);
    if (!attached) {
        hz_thread_leave(self);
        if (hz_thread_attach() == NULL)
            return 0;
        self = hz_thread_enter();
    }
    size_t bytes = purge(self, keep, anew);
    if (!attached && hz_thread_is_ending()) {
        hz_thread_detach(self);
        hz_hooks_leave();
    } else {
        hz_thread_leave(self);
    }
    return bytes;
}

size_t hz_heap_trim(size_t keep) {
    return heap_purge(keep, true);
}

size_t hz_heap_purge(void) {
    return heap_purge(0, false);
}

/* Whether a purge for so large a request was in vain a moment ago, and would be again. */
static bool is_in_vain(size_t size) {
    size_t least = hz_load_rlx(&vain_bytes); /* relaxed, all: hints */
    return least != 0 && size >= least &&
           hz_arena_used_bytes() + size / VAIN_FREED_SHARE > hz_load_rlx(&vain_used_bytes) &&
           hz_os_now_ms() < hz_load_rlx(&vain_end_ms);
}

bool hz_heap_purge_for(size_t size) {
    /* a purge can give back no more than is handed out */
    if ((size >= HZ_SEGMENT_BYTES && size > hz_arena_used_bytes()) || is_in_vain(size))
        return false;
    uint64_t begin = hz_os_now_ms();
    (void)hz_heap_purge();
    uint64_t now = hz_os_now_ms();
    /* relaxed: hint */
    hz_store_rlx(&vain_end_ms, now + hz_min(hz_max(VAIN_SHARE * (now - begin), VAIN_MS_MIN), VAIN_MS_MAX));
    return true;
}

void hz_heap_purge_was_vain(size_t size) {
    if (size < VAIN_BYTES_MIN)
        return;
    hz_store_rlx(&vain_bytes, size); /* relaxed, both: hints */
    hz_store_rlx(&vain_used_bytes, hz_arena_used_bytes());
}

/* A process with one thread has read nothing yet. A small one never does: most of its life would be the reading. */
static void limit_learn(void) {
    if (HZ_UNLIKELY(!hz_surroundings_are_known()) && hz_arena_segment_count() >= LEARN_SEGMENTS)
        hz_keeper_read_alone();
}

void hz_heap_limit_tick(void) {
    limit_learn();
    if (HZ_LIKELY(hz_budget_soft_limit() == 0))
        return;
    bool looks_itself = hz_surroundings_are_known() && hz_os_is_single_threaded(); /* there is no keeper that would */
    if (looks_itself)
        hz_surroundings_memory_look();
    if (HZ_LIKELY(!hz_heap_limit_is_exceeded()))
        return;
    if (looks_itself)
        hz_surroundings_follow();
    uint64_t now = hz_os_now_ms();
    if (hz_heap_limit_purge_claim(now)) {
        (void)hz_heap_purge();
        hz_heap_limit_purge_done(now, hz_os_now_ms());
    } else {
        hz_heap_limit_purge_wait();
    }
    hz_heap_limit_tell();
}

void hz_heap_thread_idle(void) {
    struct hz_thread_block *self = hz_thread_enter();
    if (hz_is_attached(self))
        hz_thread_flush(self);
    hz_thread_leave(self);
}
