/*
 * central.c - the overflow list of (shard, class) behind stash and transfer, lock-free. When it has reached its cap
 * too, the sender takes the shard's exclusive and puts the blocks into their pages itself (shard.c): what waits for a
 * shard is bounded.
 *
 * Edge "central-publish": that of mpsc.h.
 */
#include "core/core.h"

static uint32_t central_cap(unsigned size_class) {
    return (uint32_t)hz_min(hz_max(HZ_CENTRAL_BYTES / hz_class_bytes(size_class), hz_batch_count(size_class)),
                            HZ_LIST_COUNT_MAX);
}

bool hz3_central_send(struct hz_mailbox *mail, unsigned size_class, const struct hz_list *list) {
    return hz_mpsc_send(&mail->central, list, central_cap(size_class));
}

hz_list_word hz3_central_take(struct hz_mailbox *mail) {
    return hz_mpsc_take(&mail->central);
}

uint32_t hz3_central_count(struct hz_mailbox *mail) {
    return hz_mpsc_count(&mail->central);
}
