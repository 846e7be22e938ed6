/*
 * put.h - puts blocks into their pages, whichever shard has the pages by now. Any thread, holding no lock.
 */
#ifndef HZ_HEAP_PAGES_PUT_H
#define HZ_HEAP_PAGES_PUT_H

#include "heap/pages/shard.h"

/* Whether a block that the program frees is known to be in its page already. Waits for no lock: false while another
   thread holds the lock of the page's shard. */
bool hz_block_is_home(void *block);

/* Locks the shard that has the page of a block, and returns it. `self` may be hz_thread_none. */
struct hz_shard *hz_block_home_lock(struct hz_thread_block *self, void *block);

/* Puts one block. `self` may be hz_thread_none. */
void hz_block_put(struct hz_thread_block *self, void *block);

/* Puts blocks of the shard. Those whose page has just moved to another shard go there. Overwrites the array. */
void hz_shard_put(struct hz_thread_block *self, struct hz_shard *shard, void **blocks, uint32_t count);

#endif
