/*
 * orphan.c - see orphan.h.
 */
#include "heap/threads/orphan.h"

#include "heap/cache/flush.h"
#include "heap/threads/park.h"
#include "sent.h"

bool hz_orphan_reclaim(struct hz_thread_block *self) {
    struct hz_registered *orphan = hz_registry_claim_orphan();
    if (HZ_LIKELY(orphan == NULL))
        return false;
    struct hz_thread_block *thread = hz_thread_block_get(orphan);
    thread->shard = self->shard; /* any sound shard will do: blocks go home by their own page tags */
    thread->owner = self->owner;
    hz_park_reset(thread);
    hz_thread_flush(thread);
    hz_registry_release(orphan);
    return true;
}

void hz_orphan_bury(struct hz_thread_block *self, struct hz_thread_block *thread) {
    if (!hz_park_is_lost(thread))
        return;
    struct hz_registered *registered = hz_thread_registered(thread);
    /* relaxed, both: the thread's mutex was taken after its end, so all that it stored is visible */
    if (hz_load_rlx(&thread->busy) != 0 || hz_load_rlx(&thread->popping) != 0)
        return;
    hz_sent_leave(self, thread->shard);
    hz_shard_release(thread->shard);
    hz_registry_orphan(registered);
}

void hz_orphans_bury(struct hz_thread_block *self) {
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next)
        if (each != hz_thread_registered(self) && hz_load_rlx(&each->state) == HZ_THREAD_USED) /* relaxed: hint */
            hz_orphan_bury(self, hz_thread_block_from(each));
}
