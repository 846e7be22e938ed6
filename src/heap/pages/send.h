/*
 * send.h - the way home: blocks that a thread no longer keeps go to the shards that have their pages.
 */
#ifndef HZ_HEAP_PAGES_SEND_H
#define HZ_HEAP_PAGES_SEND_H

#include "heap/pages/shard.h"

enum { HZ_HOME_COUNT = 128 }; /* most blocks grouped in one step */

/* Blocks grouped by a key of one byte. Blocks are numbered from 1 in the order in which they were given. */
struct hz_groups {
    uint32_t key_count;
    uint8_t keys[HZ_HOME_COUNT];     /* those that occur, in the order in which they came */
    uint8_t first[256];              /* by key: the number of its first block; 0: no block has the key */
    uint8_t last[256];               /* by key: the number of its last block, if it has a first one */
    uint8_t next[HZ_HOME_COUNT + 1]; /* by number: that of the next block with the same key; 0: none */
};

/* Groups up to HZ_HOME_COUNT blocks, at least one, by class. */
void hz_groups_by_class(struct hz_groups *groups, void *const *blocks, uint32_t count);

/* The blocks that have the key, in their order: `blocks` itself if all of them have it, else a copy in `out`. *count is
   the number of all blocks before, and of these afterwards. */
void **hz_group_get(const struct hz_groups *groups, uint8_t key, void **blocks, uint32_t *count, void **out);

/* Sends up to HZ_HOME_COUNT blocks to their shard. Overwrites the array. `size_class`: of all of them; HZ_CLASS_NONE:
   not known, or of several. Any thread, holding no lock. */
typedef void hz_shard_sender(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class, void **blocks,
                             uint32_t count);

/* The way home. Each sent.c below src/ways implements it: straight into the pages, or as lists through mailboxes. */
hz_shard_sender hz_shard_send;

/* Calls `send` for the blocks of each shard that their page tags name. Overwrites the array. Ends the program if a
   block's page was retired: then the block was free already. Any thread, holding no lock. */
void hz_blocks_send_by(struct hz_thread_block *self, void **blocks, uint32_t count, hz_shard_sender *send);

/* Sends home blocks of any classes and shards. Overwrites the array. Any thread, holding no lock. */
HZ_INLINE void hz_blocks_send(struct hz_thread_block *self, void **blocks, uint32_t count) {
    hz_blocks_send_by(self, blocks, count, hz_shard_send);
}

/* The number of mid blocks among blocks of a remote buffer. */
HZ_INLINE uint32_t hz_blocks_count_mid(void *const *blocks, uint32_t count) {
    uint32_t mid = 0;
    for (uint32_t i = 0; HZ_HAS_MID_HOME && i < count; i++)
        mid += hz_class_is_mid(hz_pagetag_class(blocks[i]));
    return mid;
}

#endif
