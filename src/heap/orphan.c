/*
 * orphan.c - see orphan.h. Called by slow paths of the child, one orphan at a time, and by purge.c.
 */
#include "heap/orphan.h"

#include "heap/cache/flush.h"
#include "heap/park.h"

bool hz_orphan_reclaim(struct hz_thread_block *self) {
    struct hz_registered *orphan = hz_registry_claim_orphan();
    if (HZ_LIKELY(orphan == NULL))
        return false;
    struct hz_thread_block *thread = hz_thread_block_from(orphan);
    thread->shard = self->shard; /* any sound shard will do: blocks go home by their own page tags */
    thread->owner = self->owner;
    hz_park_reset(thread);
    hz_thread_flush(thread);
    hz_registry_release(orphan);
    return true;
}
