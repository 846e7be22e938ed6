/*
 * age.c - see age.h.
 */
#include "heap/cache/age.h"

#include "heap/back/pressure.h"
#include "heap/cache/depot.h"
#include "heap/pages/send.h"
#include "policy.h"

static _Atomic(uint32_t) due_blocks[HZ_CLASS_COUNT]; /* hint: blocks that are still to go home in this round */
static _Atomic(uint32_t) due_class;                  /* hint: no class before this one has something due */

/* Sends a batch of the class home and returns its blocks; 0 when none rests. */
static uint32_t send_batch_home(struct hz_thread_block *self, unsigned size_class) {
    void *blocks[HZ_BATCH_COUNT];
    uint32_t count = hz_depot_pop_home(self, size_class, blocks);
    if (count > 0)
        hz_blocks_send(self, blocks, count);
    return count;
}

void hz_age_depot_begin(void) {
    if (hz_load_rlx(&due_class) != 0) /* relaxed: hint */
        return;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        uint32_t rest = hz_depot_blocks(size_class);
        bool idle = !hz_depot_was_used(size_class);
        uint32_t all = idle || hz_class_is_sparse(size_class) ? rest : hz_depot_idle_blocks(size_class);
        uint32_t used = rest - (uint32_t)hz_min(all, rest);
        hz_store_rlx(&due_blocks[size_class],
                     all + (used + HZ_DEPOT_AGE_SHARE - 1) / HZ_DEPOT_AGE_SHARE); /* relaxed: hint */
        hz_depot_forget_passing(size_class);
        hz_depot_halve_swing(size_class);
    }
    hz_store_rlx(&due_class, 1); /* relaxed: hint */
}

bool hz_age_depot_step(struct hz_thread_block *self, uint32_t batches) {
    uint32_t size_class = hz_load_rlx(&due_class); /* relaxed, all: hint; two threads may do some work twice */
    if (size_class == 0)
        return false;
    for (; size_class < HZ_CLASS_COUNT && batches > 0; size_class++) {
        uint32_t left = hz_load_rlx(&due_blocks[size_class]);
        for (; left > 0 && batches > 0; batches--) {
            uint32_t sent = send_batch_home(self, size_class);
            left = sent == 0 ? 0 : left - (uint32_t)hz_min(sent, left);
        }
        hz_store_rlx(&due_blocks[size_class], left);
        hz_depot_forget_use(size_class); /* the pops above */
        if (left > 0)
            break;
    }
    hz_store_rlx(&due_class, size_class < HZ_CLASS_COUNT ? size_class : 0);
    return size_class < HZ_CLASS_COUNT;
}

void hz_age_depot_class(struct hz_thread_block *self, unsigned size_class, uint32_t batches) {
    uint32_t left = hz_depot_blocks(size_class); /* what rests now: the call ends even if others never stop pushing */
    hz_depot_forget_swing(size_class);           /* else refills of what is emptied here would raise the limit */
    for (uint32_t sent = 1; left > 0 && sent > 0 && batches > 0; batches--) {
        sent = send_batch_home(self, size_class);
        left -= (uint32_t)hz_min(sent, left);
    }
}

void hz_age_surplus_leave(struct hz_thread_block *self) {
    void *blocks[HZ_BATCH_COUNT];
    if (!HZ_HAS_HOME)
        return;
    for (unsigned size_class = 1; size_class <= hz_home_classes(); size_class++) {
        uint32_t left = hz_depot_blocks(size_class); /* no less than rests there; senders may never stop */
        uint32_t count;
        while (left > 0 && hz_load_rlx(&self->shard->threads) == 1 && /* relaxed: hint */
               (count = hz_depot_pop(self, size_class, blocks)) > 0) {
            hz_blocks_send(self, blocks, count);
            left -= (uint32_t)hz_min(count, left);
        }
    }
}

size_t hz_age_resting_bytes(void) {
    size_t bytes = 0;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        bytes += (size_t)hz_depot_blocks(size_class) * hz_class_shapes[size_class].bytes;
    return bytes;
}

void hz_age_depot_fully(struct hz_thread_block *self) {
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        hz_age_depot_class(self, size_class, UINT32_MAX);
}
