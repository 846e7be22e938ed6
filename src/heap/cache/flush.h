/*
 * flush.h - takes blocks out of a thread's bins, for the depot or home. Owner of the thread block only; holding no
 * lock.
 */
#ifndef HZ_HEAP_CACHE_FLUSH_H
#define HZ_HEAP_CACHE_FLUSH_H

#include "heap/threads/thread_block.h"

/* Takes the oldest blocks out of a bin until `keep` are left. */
void hz_bin_flush(struct hz_thread_block *self, unsigned size_class, uint32_t keep);

/* Gives blocks of one class, which have left a bin, to the depot in batches, or sends them home. */
void hz_blocks_pass(struct hz_thread_block *self, unsigned size_class, void **blocks, uint32_t count);

/* Sends home all blocks of a bin. `index`: a class or HZ_REMOTE_BIN. */
void hz_bin_send_home(struct hz_thread_block *self, unsigned index);

/* Sends home what is in the remote buffer. */
void hz_remote_flush(struct hz_thread_block *self);

/* Empties the remote buffer as well. Blocks of a shard and home class go to the depot, in batches for threads of that
   shard, if they are more than a few and the depot takes them. All others go home. */
void hz_remote_pass(struct hz_thread_block *self);

/* Sends home all blocks that the thread block holds, and returns its spare batches. Does not detach the thread. */
void hz_thread_flush(struct hz_thread_block *thread);

#endif
