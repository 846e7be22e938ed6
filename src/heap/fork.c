/*
 * fork.c - see fork.h. No lock is taken before a fork, so other threads may have been at any point of the code. Each
 * structure is sound at each instant (see the notes where they are changed), and the few locked sections are repaired
 * here.
 *
 * Lost to the child, per vanished thread: the blocks that the thread had in its hands at that instant, that is, a bin's
 * blocks, a list's, or what it was taking home from one class of a shard.
 */
#include "heap/fork.h"

#include "base/arena.h"
#include "base/meta.h"
#include "heap/cache/allowance.h"
#include "heap/init.h"
#include "heap/keeper.h"
#include "heap/limit.h"
#include "heap/orphan.h"
#include "heap/pages/adopt.h"
#include "heap/pages/mail.h"
#include "heap/pages/page.h"
#include "heap/pages/shard.h"
#include "heap/park.h"

void hz_heap_after_fork(void) {
    hz_meta_after_fork();
    hz_arena_after_fork();
    hz_init_after_fork();
    struct hz_thread_block *self = hz_thread_mine;
    hz_park_after_fork();
    /* relaxed: one thread. A parked thread joins when it resumes; one that the keeper was about to park does not */
    hz_allowance_after_fork(self != NULL && !hz_load_rlx(&self->parking.parked));
    hz_keeper_after_fork(self != NULL && self->exit_armed);
    for (unsigned index = 0; index < HZ_NUM_SHARDS; index++) {
        struct hz_shard *shard = hz_shard_get(index);
        if (shard == NULL)
            continue;
        if (hz_lock_abandoned(&shard->exclusive)) {
            hz_pages_relink_locked(shard); /* no other thread exists, which is as good as holding the lock */
            hz_lock_reset(&shard->exclusive);
        }
        hz_store_rlx(&shard->threads, self != NULL && self->shard == shard ? 1 : 0); /* relaxed: one thread */
    }
    hz_heap_limit_after_fork();
    hz_orphan_bins_after_fork(self);
    hz_adopt_after_fork();
    hz_mail_after_fork();
    hz_registry_after_fork(self != NULL ? &self->registered : NULL);
    if (self != NULL) /* the thread has another number here. relaxed: one thread */
        hz_store_rlx(&self->registered.label, hz_thread_label_make(self->shard->index, 0));
}
