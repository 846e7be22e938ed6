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

void hz_blocks_put(struct hz_thread_block *self, struct hz_list *list) {
    void *block = list->head;
    for (uint32_t left = list->count; left > 0; left--) {
        void *next = hz_block_next(block); /* read first: the page may go with this block */
        hz_block_put(self, block);
        block = next;
    }
}

void hz_shard_put(struct hz_thread_block *self, void *const *blocks, uint32_t count) {
    struct hz_shard *shard = self->shard;
    struct hz_list strays = {0};
    hz_shard_lock(self, shard, HZ_TO_GIVE);
    uint32_t retired = hz_pages_put_locked(shard, blocks, count, &strays);
    hz_shard_unlock(shard);
    hz_count(&self->counters.home_blocks, count);
    hz_count(&self->counters.page_retire, retired);
    hz_blocks_put(self, &strays);
}

void hz_shard_put_list(struct hz_thread_block *self, struct hz_shard *shard, const struct hz_list *list) {
    struct hz_list strays = {0};
    hz_shard_lock(self, shard, HZ_TO_GIVE);
    uint32_t retired = hz_pages_put_list_locked(shard, list->head, list->count, &strays);
    hz_shard_unlock(shard);
    hz_count(&self->counters.direct_home, 1);
    hz_count(&self->counters.page_retire, retired);
    hz_blocks_put(self, &strays);
}
