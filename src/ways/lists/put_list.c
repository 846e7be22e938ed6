/*
 * put_list.c - see put_list.h.
 */
#include "put_list.h"

#include "block_link.h"
#include "heap/pages/page.h"
#include "heap/pages/put.h"

enum { LIST_STEP = 32 }; /* blocks whose links are read before any of them is put */

uint32_t hz_list_put_locked(struct hz_shard *shard, hz_list_word word, struct hz_list *strays) {
    void *blocks[LIST_STEP];
    uint32_t retired = 0;
    uint32_t count = hz_list_word_count(word);
    void *block = hz_list_word_head(word);
    unsigned size_class = count > 0 ? hz_pagetag_class(block) : HZ_CLASS_NONE;
    while (count > 0) {
        uint32_t step = (uint32_t)hz_min(count, LIST_STEP);
        for (uint32_t i = 0; i < step; i++, count--) { /* reads all links first: a put may retire the page */
            blocks[i] = block;
            block = count > 1 ? hz_link_follow(size_class, block) : NULL;
        }
        uint32_t stray_count = hz_pages_put_locked(shard, blocks, step, &retired);
        for (uint32_t i = 0; i < stray_count; i++)
            hz_list_push(strays, blocks[i]);
    }
    return retired;
}

void hz_list_put(struct hz_thread_block *self, struct hz_shard *shard, const struct hz_list *list) {
    struct hz_list strays = {0};
    hz_shard_lock(self, shard, HZ_TO_GIVE);
    uint32_t retired = hz_list_put_locked(shard, hz_list_word_make(list->head, list->count), &strays);
    hz_shard_unlock(shard);
    hz_count(&self->counters.direct_home, 1);
    hz_count(&self->counters.page_retire, retired);
    hz_strays_put(self, &strays);
}

void hz_strays_put(struct hz_thread_block *self, const struct hz_list *strays) {
    void *block = strays->head;
    for (uint32_t left = strays->count; left > 0; left--) {
        void *next = hz_block_next(block); /* read first: the page may go with this block */
        hz_block_put(self, block);
        block = next;
    }
}
