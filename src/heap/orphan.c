/*
 * orphan.c - see orphan.h. Called by slow paths of the child, one orphan at a time, by purge.c and by fork.c.
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

/* Writes only where it must, since the child shares its memory with the parent until it writes. */
void hz_orphan_bins_after_fork(const struct hz_thread_block *self) {
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next) {
        struct hz_thread_block *thread = hz_thread_block_from(each);
        for (unsigned index = 1; thread != self && index < HZ_BINS; index++) {
            struct hz_bin *bin = &thread->cache.bins[index];
            /* relaxed, all: one thread */
            if (hz_bin_held(&thread->cache, index) == 0 && hz_slot_load_rlx(&bin->newest) != NULL)
                hz_slot_store_rlx(&bin->newest, NULL);
        }
    }
}
