/*
 * shim_hz3.c - see shim.h. Nothing here decides anything.
 */
#include "unit/hz3/shim.h"

#include "core/core.h"

const unsigned unit_transfer_slots = HZ3_TRANSFER_SLOTS;

uint32_t unit_stash_count(struct hz_mailbox *mail) {
    return hz_mpsc_count(&mail->stash);
}

struct unit_hz3_counters unit_hz3_counters_of(struct hz_thread_block *thread) {
    struct hz_counters *counters = &thread->counters;
    return (struct unit_hz3_counters){
        .refill_stash = hz_load_rlx(&counters->refill_stash),
        .refill_transfer = hz_load_rlx(&counters->refill_transfer),
        .refill_central = hz_load_rlx(&counters->refill_central),
        .stash_send = hz_load_rlx(&counters->stash_send),
        .transfer_send = hz_load_rlx(&counters->transfer_send),
        .central_send = hz_load_rlx(&counters->central_send),
    };
}
