/*
 * fork.c - what the child of a fork does. No lock is taken before a fork, so other threads may have been anywhere: each
 * structure is sound at each instant (see the notes where they are changed), and the few locked sections are repaired
 * here.
 *
 * Lost to the child, per vanished thread: what it had in its hands in that instant: a bin's blocks, a list's, or what
 * it was taking home from one class of a shard.
 */
#include "base/meta.h"
#include "core/core.h"

void hz_core_after_fork(void) {
    hz_meta_after_fork();
    hz_arena_after_fork();
    hz_thread_init_after_fork();
    struct hz_thread_block *self = hz_is_attached(hz_self) ? hz_self : NULL;
    for (unsigned index = 0; index < HZ_NUM_SHARDS; index++) {
        struct hz_shard *shard = hz_shard_get(index);
        if (shard == NULL)
            continue;
        if (hz_lock_abandoned(&shard->exclusive)) {
            hz_pages_relink_locked(shard); /* nobody else is here: as good as holding it */
            hz_lock_reset(&shard->exclusive);
        }
        hz_store_rlx(&shard->threads, self != NULL && self->shard == shard ? 1 : 0); /* relaxed: one thread */
    }
    hz_thread_bins_after_fork(self);
    hz_adopt_after_fork();
    hz_mail_after_fork();
    hz_thread_after_fork(self != NULL ? &self->registered : NULL);
}
