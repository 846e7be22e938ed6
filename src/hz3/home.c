/*
 * home.c - sending blocks to their shards, grouped so that each shard gets one list per class. Also the remote buffer.
 * Called by flush, purge, the end of threads, and frees of home classes.
 */
#include "hz3/hz3.h"

enum { GROUPS = 32 };

struct group {
    unsigned owner;
    unsigned size_class;
    struct hz_list list;
};

static void groups_send(struct hz3_thread *self, struct group *groups, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        hz3_shard_send(self, hz3_shard_get(groups[i].owner), groups[i].size_class, &groups[i].list);
}

void hz3_home_send(struct hz3_thread *self, void **blocks, uint32_t count) {
    struct group groups[GROUPS];
    unsigned used = 0;
    uint32_t own_count = 0; /* own blocks are gathered at the array's start: they need no list, and are not touched */
    for (uint32_t i = 0; i < count; i++) {
        void *block = blocks[i];
        unsigned owner = hz_pagetag_owner(block);
        if (owner == self->shard->index) {
            blocks[own_count++] = block;
            continue;
        }
        unsigned size_class = hz_pagetag_class(block);
        unsigned at = 0;
        while (at < used && (groups[at].owner != owner || groups[at].size_class != size_class))
            at++;
        if (at == GROUPS) {
            groups_send(self, groups, used);
            used = at = 0;
        }
        if (at == used)
            groups[used++] = (struct group){.owner = owner, .size_class = size_class};
        hz_list_push(&groups[at].list, block);
    }
    groups_send(self, groups, used);
    if (own_count > 0)
        hz3_shard_put(self, self->shard, blocks, own_count);
}

void hz3_remote_push(struct hz3_thread *self, void *block) {
    if (self->remote_count == HZ3_REMOTE_COUNT)
        hz3_remote_flush(self);
    self->remote[self->remote_count] = block;
    hz_signal_fence(); /* fork: the count never covers an unwritten entry */
    self->remote_count++;
    hz3_count(&self->counters.remote_free, 1);
}

void hz3_remote_flush(struct hz3_thread *self) {
    uint32_t count = self->remote_count;
    self->remote_count = 0;
    hz_signal_fence(); /* fork: what is on its way home is in no buffer any more */
    hz3_home_send(self, self->remote, count);
}
