/*
 * purge.c - see purge.h.
 */
#include "heap/back/purge.h"

#include "base/arena/arena.h"
#include "base/arena/trim.h"
#include "base/os/os.h"
#include "cpu_bins.h"
#include "heap/back/keeper.h"
#include "heap/back/limit.h"
#include "heap/cache/age.h"
#include "heap/cache/flush.h"
#include "heap/pages/drain.h"
#include "heap/pages/mail.h"
#include "heap/pages/page.h"
#include "heap/pages/page_purge.h"
#include "heap/threads/orphan.h"
#include "heap/threads/park.h"
#include "heap/threads/thread.h"
#include "heap/threads/zone.h"

enum {
    VAIN_BYTES_MIN = 64 << 20, /* smaller requests are never refused without a purge */
    VAIN_SHARE = 16,           /* after a purge in vain the next one waits so many times as long as it took, */
    VAIN_MS_MIN = 20,          /* at least this long */
    VAIN_MS_MAX = 1000,        /* and at most this long, */
    VAIN_FREED_SHARE = 8,      /* unless the program has freed 1/8 of what it wants */
};

static _Atomic(size_t) vain_bytes;      /* hint: what was refused after a purge; 0: nothing was */
static _Atomic(size_t) vain_used_bytes; /* hint: what was in use then */
static _Atomic(uint64_t) vain_end_ms;   /* hint */

static void shard_retire(struct hz_thread_block *self, struct hz_shard *shard) {
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        if (hz_load_rlx(&shard->classes[size_class].partial) == NULL) /* relaxed: hint */
            continue;
        hz_shard_lock(self, shard, HZ_TO_GIVE);
        uint32_t retired = hz_pages_retire_all_locked(shard, size_class);
        hz_shard_unlock(shard);
        hz_count(&self->counters.page_retire, retired);
    }
}

/* Empties the other threads' bins, as far as park.h allows. */
static void others_empty(struct hz_thread_block *self) {
    if (!hz_keeper_runs()) /* it has prepared the barrier */
        return;
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next) {
        struct hz_thread_block *thread = hz_thread_block_from(each);
        if (thread != self && hz_load_rlx(&each->state) == HZ_THREAD_USED && hz_park(thread)) /* relaxed: hint */
            hz_park_empty(self, thread);
    }
}

static size_t purge(struct hz_thread_block *self, size_t keep, bool anew) {
    size_t before = hz_arena_purged_bytes(); /* a free that exceeds the dirty budget purges too */
    hz_orphans_bury(self);
    while (hz_orphan_reclaim(self)) {
    }
    hz_thread_flush(self);
    others_empty(self);
    (void)hz_cpu_bins_close(); /* if the kernel refuses, the blocks stay where threads find them */
    (void)hz_cpu_bins_reclaim(self);
    hz_age_depot_fully(self);
    struct hz_shard *shard; /* shards are made in order */
    for (unsigned index = 0; (shard = hz_shard_get(index)) != NULL; index++)
        hz_shard_drain(self, shard);
    hz_mail_gather(self);
    /* after all drains, because strays have gone to other shards' pages */
    for (unsigned index = 0; (shard = hz_shard_get(index)) != NULL; index++)
        shard_retire(self, shard);
    hz_zones_settle(self);
    hz_pages_purge_all(self, anew);
    hz_thread_blocks_purge();
    size_t resting = hz_arena_resting_bytes();
    if (keep == 0 && anew)
        hz_trim_free();
    else if (keep == 0)
        hz_arena_purge(0, SIZE_MAX);
    else if (resting > keep)
        hz_arena_purge(0, (resting - keep) >> HZ_PAGE_LOG2);
    hz_trim_meta();
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

void hz_heap_limit_tick(void) {
    if (HZ_LIKELY(!hz_heap_limit_is_exceeded()))
        return;
    uint64_t now = hz_os_now_ms();
    if (hz_heap_limit_purge_claim(now)) {
        (void)hz_heap_purge();
        hz_heap_limit_purge_done(now, hz_os_now_ms());
    }
    hz_heap_limit_tell();
}

void hz_heap_thread_idle(void) {
    struct hz_thread_block *self = hz_thread_enter();
    if (hz_is_attached(self))
        hz_thread_flush(self);
    hz_thread_leave(self);
}
