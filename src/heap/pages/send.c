/*
 * send.c - see send.h.
 *
 * A small hash table in the thread block finds the groups. Raising its epoch clears it. Blocks of the thread's own
 * shard need no list and are not touched.
 */
#include "heap/pages/send.h"

#include "heap/back/pressure.h"
#include "heap/misuse.h"
#include "heap/pages/list_check.h"
#include "heap/pages/mail.h"
#include "heap/pages/put.h"

#include <string.h>

void hz_shard_send(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class, struct hz_list *list) {
    hz_count(&self->counters.home_blocks, list->count);
    if (HZ_LISTS_CHECKED)
        hz_list_check(size_class, list->head, list->count);
    /* relaxed: hint. A shard without threads would not look into its mailbox soon. Blocks of a sparse class, and
     * those that the keeper sends home, must not wait */
    if (shard != self->shard && hz_load_rlx(&shard->threads) > 0 && !hz_class_is_sparse(size_class) &&
        !self->is_keeper && hz_mail_send(self, &shard->classes[size_class].mail, size_class, list)) {
        hz_count(&self->counters.mail_blocks, list->count);
        hz_shard_mark_sent(shard, size_class);
    } else {
        hz_shard_put_list(self, shard, list);
    }
}

static void groups_clear(struct hz_groups *groups) {
    if (++groups->epoch == 0) { /* once in 2^32 times: old epochs would become valid again */
        memset(groups, 0, sizeof(*groups));
        groups->epoch = 1;
    }
}

/* The group of (owner, class). A new group is also added to `used`. */
static struct hz_group *group_find(struct hz_groups *groups, unsigned owner, unsigned size_class, uint8_t *used,
                                   uint32_t *used_count) {
    uint32_t at = (size_class + owner * 37) % HZ_GROUPS; /* neighbours in class stay neighbours, shards spread */
    for (;; at = (at + 1) % HZ_GROUPS) {
        struct hz_group *group = &groups->slots[at];
        if (group->epoch != groups->epoch) {
            *group =
                (struct hz_group){.epoch = groups->epoch, .owner = (uint8_t)owner, .size_class = (uint8_t)size_class};
            used[(*used_count)++] = (uint8_t)at;
            return group;
        }
        if (group->owner == owner && group->size_class == size_class)
            return group;
    }
}

/* Sends up to HZ_HOME_COUNT blocks. */
static void send_some(struct hz_thread_block *self, void **blocks, uint32_t count) {
    struct hz_groups *groups = self->groups;
    uint8_t used[HZ_HOME_COUNT];
    uint32_t used_count = 0;
    uint32_t own_count = 0; /* own blocks move to the array's start */
    uintptr_t page = 0;     /* number of the page whose tag gave the next two values */
    unsigned owner = 0;
    unsigned size_class = HZ_CLASS_NONE;
    groups_clear(groups);
    for (uint32_t i = 0; i < count; i++) {
        void *block = blocks[i];
        if ((uintptr_t)block >> HZ_PAGE_LOG2 != page) {
            page = (uintptr_t)block >> HZ_PAGE_LOG2;
            owner = hz_pagetag_owner(block);
            size_class = hz_pagetag_class(block);
        }
        if (HZ_UNLIKELY(size_class == HZ_CLASS_NONE || size_class >= HZ_CLASS_COUNT || owner == HZ_SHARD_OF_ZONE))
            hz_misuse(HZ_TEXT_DOUBLE_FREE, block, HZ_FOUND_LATER); /* it went home earlier, and its page was retired */
        if (owner == self->owner) {
            blocks[own_count++] = block;
            continue;
        }
        struct hz_group *group = group_find(groups, owner, size_class, used, &used_count);
        if (HZ_HAS_MID_HOME && hz_class_is_mid(size_class) && group->list.count == hz_mail_list_max(size_class)) {
            hz_shard_send(self, hz_shard_get(owner), size_class, &group->list);
            group->list = (struct hz_list){0};
            page = 0; /* its last block may have gone home by that */
        }
        hz_list_push(&group->list, block);
    }
    for (uint32_t i = 0; i < used_count; i++) {
        struct hz_group *group = &groups->slots[used[i]];
        hz_shard_send(self, hz_shard_get(group->owner), group->size_class, &group->list);
    }
    if (own_count > 0)
        hz_shard_put(self, blocks, own_count);
}

void hz_blocks_send(struct hz_thread_block *self, void **blocks, uint32_t count) {
    for (uint32_t done = 0; done < count; done += HZ_HOME_COUNT)
        send_some(self, blocks + done, (uint32_t)hz_min(count - done, HZ_HOME_COUNT));
}
