/*
 * send.c - see send.h.
 */
#include "heap/pages/send.h"

#include "heap/misuse.h"

#include <string.h>

static uintptr_t page_number(const void *block) {
    return (uintptr_t)block >> HZ_PAGE_LOG2;
}

static unsigned shard_of(const void *block) {
    unsigned size_class = hz_pagetag_class(block);
    unsigned shard = hz_pagetag_owner(block);
    if (HZ_UNLIKELY(size_class == HZ_CLASS_NONE || size_class >= HZ_CLASS_COUNT || shard == HZ_SHARD_OF_ZONE))
        hz_misuse(HZ_TEXT_DOUBLE_FREE, block, HZ_FOUND_LATER);
    return shard;
}

/* The number of blocks, from the first one on, whose page tags say what the first one's says. */
static uint32_t alike_count(void *const *blocks, uint32_t count, unsigned shard, unsigned size_class) {
    uintptr_t page = page_number(blocks[0]);
    uint32_t alike = 1;
    for (; alike < count; alike++) {
        if (page_number(blocks[alike]) == page) /* often the case: no need to read the tag */
            continue;
        page = page_number(blocks[alike]);
        if (hz_pagetag_class(blocks[alike]) != size_class || hz_pagetag_owner(blocks[alike]) != shard)
            break;
    }
    return alike;
}

/* Groups the blocks by what the function says of each page. */
HZ_INLINE void groups_make(struct hz_groups *groups, void *const *blocks, uint32_t count,
                           unsigned (*key_of)(const void *block)) {
    uintptr_t page = 0; /* number of the page that gave the key */
    uint8_t key = 0;
    hz_assert(count <= HZ_HOME_COUNT);
    memset(groups->first, 0, sizeof(groups->first));
    groups->key_count = 0;
    for (uint8_t number = 1; number <= count; number++) {
        const void *block = blocks[number - 1];
        if (page_number(block) != page) {
            page = page_number(block);
            key = (uint8_t)key_of(block);
        }
        if (groups->first[key] == 0) {
            groups->first[key] = number;
            groups->keys[groups->key_count++] = key;
        } else {
            groups->next[groups->last[key]] = number;
        }
        groups->last[key] = number;
        groups->next[number] = 0;
    }
}

void hz_groups_by_class(struct hz_groups *groups, void *const *blocks, uint32_t count) {
    groups_make(groups, blocks, count, hz_pagetag_class);
}

void **hz_group_get(const struct hz_groups *groups, uint8_t key, void **blocks, uint32_t *count, void **out) {
    if (groups->key_count == 1)
        return blocks;
    *count = 0;
    for (uint32_t number = groups->first[key]; number != 0; number = groups->next[number])
        out[(*count)++] = blocks[number - 1];
    return out;
}

/* `count`: at most HZ_HOME_COUNT. */
static void send_some(struct hz_thread_block *self, void **blocks, uint32_t count, hz_shard_sender *send) {
    struct hz_groups groups;
    void *out[HZ_HOME_COUNT];
    unsigned shard = shard_of(blocks[0]);
    unsigned size_class = hz_pagetag_class(blocks[0]);
    if (alike_count(blocks, count, shard, size_class) == count) {
        send(self, hz_shard_get(shard), size_class, blocks, count);
        return;
    }
    groups_make(&groups, blocks, count, shard_of);
    for (uint32_t i = 0; i < groups.key_count; i++) {
        uint32_t in_group = count;
        void **group = hz_group_get(&groups, groups.keys[i], blocks, &in_group, out);
        send(self, hz_shard_get(groups.keys[i]), HZ_CLASS_NONE, group, in_group);
    }
}

void hz_blocks_send_by(struct hz_thread_block *self, void **blocks, uint32_t count, hz_shard_sender *send) {
    for (uint32_t done = 0; done < count; done += HZ_HOME_COUNT)
        send_some(self, blocks + done, (uint32_t)hz_min(count - done, HZ_HOME_COUNT), send);
}
