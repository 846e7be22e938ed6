/*
 * fork.c - see fork.h. No lock is taken before a fork, so other threads may have been at any point of the code, and the
 * forking thread too, if a signal handler interrupted it. Each structure is sound at each instant (see the notes where
 * they are changed), and the few locked sections are repaired here.
 *
 * hz_heap_after_fork makes the child usable, so that the thread can finish what it was doing. It changes
 * only fields whose lock the thread does not hold, so the thread expects other threads to change them at any time.
 * Repairs that need every operation to be finished, above all counts, are left to hz_heap_settle_fork.
 *
 * Lost to the child, per vanished thread: what the thread had in its hands at that instant, that is, a bin's blocks, a
 * list's, or what it was taking home from one class of a shard; runs that it had claimed or was purging; a piece of
 * metadata (docs/memory.md has the bounds).
 */
#include "heap/threads/fork.h"

#include "base/arena/arena.h"
#include "base/arena/arena_figures.h"
#include "base/map/meta.h"
#include "base/os/os.h"
#include "base/process/startup.h"
#include "base/profile/profile.h"
#include "base/watch/guard_pool.h"
#include "base/watch/guard_report.h"
#include "cpu_bins.h"
#include "heap/back/keeper.h"
#include "heap/back/limit.h"
#include "heap/back/pressure.h"
#include "heap/cache/sampler.h"
#include "heap/pages/adopt.h"
#include "heap/pages/page.h"
#include "heap/pages/shard.h"
#include "heap/threads/init.h"
#include "heap/threads/park.h"
#include "heap/threads/zone.h"
#include "sent.h"

void hz_heap_after_fork(void) {
    hz_meta_after_fork();
    hz_guard_after_fork();
    hz_guard_report_after_fork();
    hz_profile_after_fork();
    hz_altered_after_fork();
    hz_arena_after_fork();
    hz_init_after_fork();
    hz_heap_limit_after_fork();
    hz_park_after_fork();
    hz_cpu_bins_after_fork();
    for (struct hz_shard *shard = hz_shard_get(0); shard != NULL; shard = hz_shard_next(shard)) {
        if (!hz_lock_abandoned(&shard->exclusive))
            continue;
        hz_pages_relink_locked(shard); /* no other thread exists, which is as good as holding the lock */
        hz_lock_reset(&shard->exclusive);
    }
    hz_zones_after_fork(hz_thread_mine);
    hz_sent_after_fork();
}

void hz_heap_settle_fork(void) {
    struct hz_thread_block *self = hz_thread_mine;
    struct hz_arena_figures figures;
    hz_arena_figures_get(&figures);
    hz_arena_recount_after_fork(figures.direct_bytes);
    hz_park_settle_fork();
    hz_cpu_bins_settle_fork();
    /* relaxed, all: one thread. A parked thread joins when it resumes, but not one that the keeper was about to park */
    hz_pressure_after_fork(self != NULL && !hz_load_rlx(&self->parking.parked));
    if (hz_startup_get()->is_known) /* else nothing was noted for the parent either */
        hz_os_note_single_thread();
    hz_keeper_after_fork();
    for (struct hz_shard *shard = hz_shard_get(0); shard != NULL; shard = hz_shard_next(shard))
        hz_store_rlx(&shard->threads, self != NULL && self->shard == shard ? 1 : 0);
    hz_adopt_settle_fork();
    hz_sent_settle_fork();
    hz_pages_recount_after_fork();
    hz_registry_after_fork(self != NULL ? hz_thread_registered(self) : NULL);
    if (self == NULL)
        return;
    hz_sampler_settle_fork(self);
    /* the thread's kernel id has changed */
    hz_store_rlx(&hz_thread_registered(self)->label, hz_thread_label_make(self->shard->index, 0));
}
