/*
 * central.c - the overflow list of (shard, class) behind stash and transfer, lock-free. When it has reached its cap
 * too, the sender takes the shard's exclusive and puts the blocks into their pages itself (shard.c): what waits for a
 * shard is bounded.
 *
 * Edge "central-publish": that of mpsc.h.
 */
#include "hz3/hz3.h"

static uint32_t central_cap(unsigned size_class) {
    return (uint32_t)hz_min(hz_max(HZ3_CENTRAL_BYTES / hz_class_bytes(size_class), hz3_batch_count(size_class)),
                            HZ_LIST_COUNT_MAX);
}

bool hz3_central_send(struct hz3_shard_class *home, unsigned size_class, const struct hz_list *list) {
    return hz_mpsc_send(&home->central, list, central_cap(size_class));
}

hz_list_word hz3_central_take(struct hz3_shard_class *home) {
    return hz_mpsc_take(&home->central);
}

uint32_t hz3_central_count(struct hz3_shard_class *home) {
    return hz_mpsc_count(&home->central);
}
