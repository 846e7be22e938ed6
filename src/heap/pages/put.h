/*
 * put.h - puts blocks into their pages, whichever shard has the pages by now. Any thread, holding no lock.
 */
#ifndef HZ_HEAP_PAGES_PUT_H
#define HZ_HEAP_PAGES_PUT_H

#include "heap/pages/shard.h"

/* One block. `self` may be hz_thread_none. */
void hz_block_put(struct hz_thread_block *self, void *block);

/* A list of blocks of any shards. `self` may be hz_thread_none. */
void hz_blocks_put(struct hz_thread_block *self, struct hz_list *list);

/* Blocks that belong to the thread's own shard, unless their page has just been moved. */
void hz_shard_put(struct hz_thread_block *self, void *const *blocks, uint32_t count);

/* A list of one class that was meant for `shard`, whose mailbox had no room. */
void hz_shard_put_list(struct hz_thread_block *self, struct hz_shard *shard, const struct hz_list *list);

#endif
