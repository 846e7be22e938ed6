/*
 * age.c - see age.h. Called by tick.c and purge.c.
 */
#include "heap/cache/age.h"

#include "heap/cache/depot.h"
#include "heap/pages/send.h"

enum {
    AGE_SHARE = 32,  /* a class sends one in this many of its blocks home in each round */
    AGE_BUDGET = 64, /* most batches in one round, so that no caller waits long */
};

static _Atomic(uint32_t) age_next_class; /* hint: where the last round's budget ended */

/* Sends batches of the class home until it has sent `share` blocks or `batches` batches. Returns the batches sent. */
static uint32_t send_class_home(struct hz_thread_block *self, unsigned size_class, uint32_t share, uint32_t batches) {
    void *blocks[HZ_BATCH_COUNT];
    uint32_t sent = 0;
    uint32_t done = 0;
    uint32_t count;
    for (; sent < share && done < batches && (count = hz_depot_pop_home(self, size_class, blocks)) > 0; done++) {
        hz_blocks_send(self, blocks, count);
        sent += count;
    }
    return done;
}

void hz_age_depot(struct hz_thread_block *self) {
    uint32_t left = AGE_BUDGET;
    uint32_t size_class = hz_load_rlx(&age_next_class); /* relaxed: hint */
    for (unsigned i = 1; i < HZ_CLASS_COUNT && left > 0; i++) {
        size_class = size_class + 1 < HZ_CLASS_COUNT ? size_class + 1 : 1;
        uint32_t share = (hz_depot_blocks(size_class) + AGE_SHARE - 1) / AGE_SHARE;
        left -= send_class_home(self, size_class, share, left);
        hz_depot_forget_passing(size_class);
    }
    hz_store_rlx(&age_next_class, size_class); /* relaxed: hint */
}

/* Sends at most as many blocks of a class as rest when the class's turn comes. So the call ends even if other threads
   never stop pushing. */
void hz_age_depot_fully(struct hz_thread_block *self) {
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        send_class_home(self, size_class, hz_depot_blocks(size_class), UINT32_MAX);
}
