/*
 * flush.c - see flush.h.
 *
 * The surplus of a full bin goes to the depot in batches: for any thread, or, if the class is a home class, for threads
 * of the shard. It goes home instead if enough of the class rests in the depot already, if the class is sparse, or in
 * lanes without a depot. Of a full remote buffer, the blocks of a home class go to the stack of their shard
 * in the depot, unless they are few; all others go home. A fork's copy made during a flush must not have a block twice,
 * so the bin is emptied first, and what stays is put back last.
 */
#include "heap/cache/flush.h"

#include "heap/back/pressure.h"
#include "heap/cache/batches.h"
#include "heap/cache/depot.h"
#include "heap/cache/inspect.h"
#include "heap/pages/send.h"
#include "heap/seal.h"
#include "way.h"

#include <string.h>

/* Where blocks carry links on their way home, an address that is no block's start must be found before. */
static void rest_inspect(struct hz_thread_block *self, unsigned size_class, void **blocks, uint32_t count) {
    uint32_t batch = hz_class_shapes[size_class].batch;
    for (uint32_t done = 0; !HZ_WAY_IS_DIRECT && done < count; done += batch)
        hz_inspect_batch(self, size_class, blocks + done, (uint32_t)hz_min(count - done, batch));
}

void hz_blocks_pass(struct hz_thread_block *self, unsigned size_class, void **blocks, uint32_t count) {
    uint32_t batch = hz_class_shapes[size_class].batch;
    bool is_for_depot = HZ_HAS_DEPOT && !hz_class_is_sparse(size_class);
    uint32_t refused = 0;
    while (count > 0 && is_for_depot) {
        uint32_t part = (uint32_t)hz_min(count, batch);
        hz_inspect_batch(self, size_class, blocks, part);
        is_for_depot = hz_depot_push(self, size_class, blocks, part);
        refused = is_for_depot ? 0 : part;
        blocks += part - refused;
        count -= part - refused;
    }
    /* if the depot refused a batch, it would most likely refuse the rest */
    if (refused > 0)
        rest_inspect(self, size_class, blocks + refused, count - refused);
    hz_blocks_send(self, blocks, count);
}

void hz_bin_flush(struct hz_thread_block *self, unsigned size_class, uint32_t keep) {
    void **base = hz_bin_base(&self->cache, size_class);
    uint32_t held = hz_bin_held(&self->cache, size_class);
    if (held <= keep)
        return;
    uint32_t count = held - keep;
    hz_count(&self->counters.flush, 1);
    if (hz_class_is_mid(size_class)) {
        hz_count(&self->counters.mid_free_batch_flush, 1);
        hz_count(&self->counters.mid_moved, count);
    }
    (void)hz_bin_empty(&self->cache, size_class); /* before anything moves */
    if (HZ_BLOCKS_SEALED)
        hz_seals_check(base + 1, count, HZ_WRITTEN_IN_BIN);
    hz_blocks_pass(self, size_class, base + 1, count);
    memmove(base + 1, base + 1 + count, keep * sizeof(base[0]));
    hz_bin_fill(&self->cache, size_class, keep);
}

/* Empties the remote buffer into `blocks`, and returns their number. A copy, because statistics read the slots of the
 * buffer, which therefore must not be used as scratch. */
static uint32_t remote_take(struct hz_thread_block *self, void **blocks) {
    uint32_t count = hz_bin_empty(&self->cache, HZ_REMOTE_BIN); /* before any block is on its way home */
    if (count == 0)
        return 0;
    hz_count(&self->counters.remote_flush_calls, 1);
    hz_count(&self->counters.remote_free, count);
    memcpy(blocks, hz_bin_base(&self->cache, HZ_REMOTE_BIN) + 1, count * sizeof(blocks[0]));
    if (HZ_BLOCKS_SEALED)
        hz_seals_check(blocks, count, HZ_WRITTEN_IN_BUFFER);
    if (HZ_HAS_MID_HOME)
        hz_count(&self->counters.mid_moved, hz_blocks_count_mid(blocks, count));
    return count;
}

void hz_remote_flush(struct hz_thread_block *self) {
    void *blocks[HZ_REMOTE_COUNT];
    hz_blocks_send(self, blocks, remote_take(self, blocks));
}

/* Gives blocks of a home class to the stack of their shard. Returns how many the stack took. */
static uint32_t stack_fill(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class,
                           void *const *blocks, uint32_t count) {
    uint32_t done = 0;
    while (done < count) {
        uint32_t part = (uint32_t)hz_min(count - done, hz_class_shapes[size_class].batch);
        hz_inspect_batch(self, size_class, blocks + done, part);
        if (!hz_depot_send(self, shard, size_class, blocks + done, part))
            break;
        done += part;
    }
    hz_count(&self->counters.home_blocks, done);
    return done;
}

/* A lane that sends blocks to their pages sends all blocks there: it exists for the comparison. */
enum { HAS_STACKS = HZ_HAS_DEPOT && !HZ_WAY_IS_QUEUES };

enum { STACK_MIN = 4 }; /* fewer blocks of one shard and class go into their pages: a batch would cost more */

/* Gives blocks of a shard and class to its stack in the depot, and moves the rest to the front. Returns their number.
 */
static uint32_t pass_to_stack(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class, void **blocks,
                              uint32_t count) {
    /* relaxed: hint. In the stacks of a shard without threads they would rest until they age */
    if (count < STACK_MIN || size_class - 1 >= hz_home_classes() || hz_load_rlx(&shard->threads) == 0 ||
        !HZ_HAS_DEPOT || hz_class_is_sparse(size_class))
        return count;
    uint32_t done = stack_fill(self, shard, size_class, blocks, count);
    memmove(blocks, blocks + done, (count - done) * sizeof(blocks[0]));
    return count - done;
}

/* Passes on blocks of one shard: to its stacks in the depot, or else home. */
static void shard_pass(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class, void **blocks,
                       uint32_t count) {
    struct hz_groups groups;
    void *group[HZ_HOME_COUNT];
    void *rest[HZ_HOME_COUNT];
    uint32_t rest_count = 0;
    if (size_class != HZ_CLASS_NONE) {
        rest_count = pass_to_stack(self, shard, size_class, blocks, count);
        if (rest_count > 0)
            hz_shard_send(self, shard, size_class, blocks, rest_count);
        return;
    }
    hz_groups_by_class(&groups, blocks, count);
    for (uint32_t i = 0; i < groups.key_count; i++) {
        uint32_t in_group = count;
        void **found = hz_group_get(&groups, groups.keys[i], blocks, &in_group, group);
        uint32_t left = pass_to_stack(self, shard, groups.keys[i], found, in_group);
        memcpy(rest + rest_count, found, left * sizeof(found[0]));
        rest_count += left;
    }
    if (rest_count > 0)
        hz_shard_send(self, shard, HZ_CLASS_NONE, rest, rest_count);
}

void hz_remote_pass(struct hz_thread_block *self) {
    void *blocks[HZ_REMOTE_COUNT];
    hz_blocks_send_by(self, blocks, remote_take(self, blocks), HAS_STACKS ? shard_pass : hz_shard_send);
}

void hz_bin_send_home(struct hz_thread_block *self, unsigned index) {
    if (index == HZ_REMOTE_BIN) {
        hz_remote_flush(self);
        return;
    }
    uint32_t count = hz_bin_empty(&self->cache, index); /* before any block is on its way home */
    if (count == 0)
        return;
    if (HZ_BLOCKS_SEALED)
        hz_seals_check(hz_bin_base(&self->cache, index) + 1, count, HZ_WRITTEN_IN_BIN);
    if (hz_class_is_mid(index))
        hz_count(&self->counters.mid_moved, count);
    hz_blocks_send(self, hz_bin_base(&self->cache, index) + 1, count);
}

void hz_thread_flush(struct hz_thread_block *thread) {
    for (unsigned index = 1; index < HZ_BINS; index++)
        if (hz_bin_held(&thread->cache, index) > 0) /* most bins are empty */
            hz_bin_send_home(thread, index);
    hz_spares_return(thread);
}
