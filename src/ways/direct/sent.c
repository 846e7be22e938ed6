/*
 * sent.c - the way home of lanes without mailboxes: straight into the pages.
 */
#include "sent.h"

#include "heap/pages/put.h"
#include "heap/pages/send.h"

void hz_shard_send(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class, void **blocks,
                   uint32_t count) {
    (void)size_class;
    hz_count(&self->counters.home_blocks, count);
    hz_shard_put(self, shard, blocks, count);
}
