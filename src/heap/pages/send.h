/*
 * send.h - sends blocks home: groups them by shard and class, and hands each group to the shard's mailbox.
 */
#ifndef HZ_HEAP_PAGES_SEND_H
#define HZ_HEAP_PAGES_SEND_H

#include "heap/pages/shard.h"

/* Sends blocks of any classes and shards. Blocks of the thread's own shard go into their pages. Overwrites the array.
   Holding no lock. */
void hz_blocks_send(struct hz_thread_block *self, void **blocks, uint32_t count);

/* Sends a list of one class to `shard`. Any thread, holding no lock. */
void hz_shard_send(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class, struct hz_list *list);

/* The number of mid blocks among blocks of a remote buffer. */
HZ_INLINE uint32_t hz_blocks_count_mid(void *const *blocks, uint32_t count) {
    uint32_t mid = 0;
    for (uint32_t i = 0; HZ_HAS_MID_HOME && i < count; i++)
        mid += hz_class_is_mid(hz_pagetag_class(blocks[i]));
    return mid;
}

#endif
