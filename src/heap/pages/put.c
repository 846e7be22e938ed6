/*
 * put.c - see put.h.
 *
 * The page tag says whose a block is, but another shard can adopt the page (adopt.c) while the block is on its way.
 * So the page itself decides, under the lock of the shard that it names. A block that turns out to be another shard's
 * is a stray, and goes home on its own.
 */
#include "heap/pages/put.h"

#include "heap/pages/page.h"

struct hz_shard *hz_block_home_lock(struct hz_thread_block *self, void *block) {
    struct hz_page *page = hz_page_of(block);
    for (;;) {
        struct hz_shard *shard = hz_page_shard(page); /* asked again under the lock */
        hz_shard_lock(self, shard, HZ_TO_GIVE);
        if (hz_page_is_of(page, shard))
            return shard;
        hz_shard_unlock(shard);
    }
}

bool hz_block_is_home(void *block) {
    struct hz_page *page = hz_page_of(block);
    struct hz_shard *shard = hz_page_shard(page); /* asked again under the lock */
    if (!hz_lock_try_acquire(&shard->exclusive))
        return false;
    bool is_home = hz_page_is_of(page, shard) && hz_page_has_block_locked(page, block);
    hz_shard_unlock(shard);
    return is_home;
}

void hz_block_put(struct hz_thread_block *self, void *block) {
    struct hz_shard *shard = hz_block_home_lock(self, block);
    uint32_t retired = hz_page_put_locked(shard, block);
    hz_shard_unlock(shard);
    if (hz_is_attached(self))
        hz_count(&self->counters.page_retire, retired);
}

void hz_shard_put(struct hz_thread_block *self, struct hz_shard *shard, void **blocks, uint32_t count) {
    uint32_t retired = 0;
    hz_shard_lock(self, shard, HZ_TO_GIVE);
    uint32_t strays = hz_pages_put_locked(shard, blocks, count, &retired);
    hz_shard_unlock(shard);
    hz_count(&self->counters.page_retire, retired);
    if (shard != self->shard)
        hz_count(&self->counters.direct_home, 1);
    for (uint32_t i = 0; i < strays; i++)
        hz_block_put(self, blocks[i]);
}
