/*
 * free.h - the slow path of free, and the choice of a bin that both paths share. Any thread, holding no lock.
 */
#ifndef HZ_HEAP_FREE_H
#define HZ_HEAP_FREE_H

#include "heap/seal.h"
#include "heap/thread_block.h"

/* For NULL, a full bin, a large block, a foreign pointer, a thread that is not attached, and always in tight mode. */
HZ_NOINLINE void hz_free_slow(void *block);

/* Seals a block that is about to be freed. Any pointer: what is not the start of a block of a class is left alone. */
HZ_NOINLINE void hz_free_seal(void *block);

/* Whether a block with this tag and bin offset is for the remote buffer: its class is a home class, and it is not of
   the thread's shard. An offset of 0 stands for no class. */
HZ_INLINE bool hz_free_goes_home(const struct hz_thread_block *self, const struct hz_pagetag *tag, size_t offset) {
    return HZ_HAS_HOME && hz_load_rlx(&tag->owner) != self->owner &&     /* sync: tag-publish, partner hz_pagetag_set */
           offset - hz_bin_offset(1) < hz_bin_offset(hz_home_classes()); /* a constant */
}

#endif
