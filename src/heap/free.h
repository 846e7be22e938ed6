/*
 * free.h - the slow path of free, and the choice of a bin that both paths share. Any thread, holding no lock.
 */
#ifndef HZ_HEAP_FREE_H
#define HZ_HEAP_FREE_H

#include "heap/seal.h"
#include "heap/threads/thread_block.h"

/* For NULL, a full bin, a large block, a foreign pointer, a thread that is not attached, and always in tight mode. */
HZ_NOINLINE void hz_free_slow(void *block);

/* Seals a block that is about to be freed. Any pointer: what is not the start of a block of a class is left alone. */
HZ_NOINLINE void hz_free_seal(void *block);

/* The offset of the bin into which a thread frees a block with this tag and bin offset: that of the remote buffer if
   the block's class is a home class and the block is not of the thread's shard. An offset of 0 stands for no class.
   As long as a thread frees only blocks of its own shard, it takes one branch, which the processor predicts. Where
   threads adopt each other's larger blocks, the processor cannot predict who owns a block. So after the thread has
   freed a block of another shard, it expects no owner until its next tick: each free falls through to the code below
   the branch, which has no branches. */
HZ_INLINE size_t hz_free_offset(struct hz_thread_block *self, const struct hz_pagetag *tag, size_t offset) {
    if (!HZ_HAS_HOME)
        return offset;
    unsigned owner = hz_load_rlx(&tag->owner); /* sync: tag-publish, partner hz_pagetag_set */
    if (owner == self->owner_expected)
        return offset;
    self->owner_expected = HZ_OWNER_NONE; /* never reached by hz_thread_none: its only tag has its owner */
    bool is_home = offset - hz_bin_offset(1) < hz_bin_offset(hz_home_classes()); /* a constant */
    size_t foreign = is_home ? hz_bin_offset(HZ_REMOTE_BIN) : offset;
    size_t own = offset;
    HZ_HIDE_VALUE(own); /* otherwise compilers see that this is the value returned above, and branch to there */
    return owner != self->owner ? foreign : own;
}

#endif
