/*
 * send.c - blocks on their way to a shard. Callers: home.c, free.c, purge.c, shard.c; none holds a lock.
 *
 * Whose a block is, is said by its page tag; but a page can be taken over by another shard (adopt.c) while a block of
 * it is on its way, so the last word has the page itself, under the lock of the shard it names. Blocks that turn out to
 * be another's ("strays") are sent on, one by one.
 */
#include "core/core.h"

/* The mark is a hint. Relaxed: a mark that a drain at the same time overlooks is found by the next thread's refill, or
 * by purge, which asks no marks. */
bool hz_shard_was_sent(struct hz_shard *shard, unsigned size_class) {
    return (hz_load_rlx(&shard->sent[size_class / 64]) >> (size_class % 64) & 1) != 0;
}

void hz_shard_mark_sent(struct hz_shard *shard, unsigned size_class) {
    if (!hz_shard_was_sent(shard, size_class))
        hz_or_rlx(&shard->sent[size_class / 64], UINT64_C(1) << (size_class % 64));
}

void hz_shard_forget_sent(struct hz_shard *shard, unsigned size_class) {
    if (hz_shard_was_sent(shard, size_class))
        hz_and_rlx(&shard->sent[size_class / 64], ~(UINT64_C(1) << (size_class % 64)));
}

/* The shard that has the page of a block, locked. */
static struct hz_shard *lock_home_of(struct hz_thread_block *self, struct hz_page *page) {
    for (;;) {
        struct hz_shard *shard =
            hz_shard_get(hz_load_acq(&page->shard)); /* sync: page-move; checked again under the lock */
        hz_shard_lock(self, shard, HZ_TO_GIVE);
        if (hz_page_is_of(page, shard))
            return shard;
        hz_shard_unlock(shard);
    }
}

void hz_block_put_home(struct hz_thread_block *self, void *block) {
    struct hz_shard *shard = lock_home_of(self, hz_page_of(block));
    uint32_t retired = hz_page_put_locked(shard, block);
    hz_shard_unlock(shard);
    if (hz_is_attached(self))
        hz_count(&self->counters.page_retire, retired);
}

void hz_blocks_put_home(struct hz_thread_block *self, struct hz_list *list) {
    void *block = list->head;
    for (uint32_t left = list->count; left > 0; left--) {
        void *next = hz_block_next(block); /* before the block is home: its page may go */
        hz_block_put_home(self, block);
        block = next;
    }
}

void hz_shard_put(struct hz_thread_block *self, void *const *blocks, uint32_t count) {
    struct hz_shard *shard = self->shard;
    struct hz_list strays = {0};
    uint32_t retired = 0;
    hz_shard_lock(self, shard, HZ_TO_GIVE);
    for (uint32_t i = 0; i < count; i++) {
        if (HZ_LIKELY(hz_page_is_of(hz_page_of(blocks[i]), shard)))
            retired += hz_page_put_locked(shard, blocks[i]);
        else
            hz_list_push(&strays, blocks[i]);
    }
    hz_shard_unlock(shard);
    hz_count(&self->counters.home_blocks, count);
    hz_count(&self->counters.page_retire, retired);
    hz_blocks_put_home(self, &strays);
}

static void put_list(struct hz_thread_block *self, struct hz_shard *shard, const struct hz_list *list) {
    struct hz_list strays = {0};
    hz_shard_lock(self, shard, HZ_TO_GIVE);
    uint32_t retired = hz_pages_put_list_locked(shard, list->head, list->count, &strays);
    hz_shard_unlock(shard);
    hz_count(&self->counters.direct_home, 1);
    hz_count(&self->counters.page_retire, retired);
    hz_blocks_put_home(self, &strays);
}

void hz_shard_send(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class, struct hz_list *list) {
    hz_count(&self->counters.home_blocks, list->count);
    if (HZ_LISTS_CHECKED)
        hz_list_check(size_class, list->head, list->count);
    /* relaxed: hint; nobody would look into the mailbox soon */
    if (shard != self->shard && hz_load_rlx(&shard->threads) > 0 &&
        hz_mail_send(self, &shard->classes[size_class].mail, size_class, list))
        hz_shard_mark_sent(shard, size_class);
    else
        put_list(self, shard, list);
}
