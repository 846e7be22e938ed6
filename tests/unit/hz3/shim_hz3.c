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
#define COUNTER(group, field, name, kind, text) .field = hz_load_rlx(&counters->field),
    return (struct unit_hz3_counters){
#include "engine_counters.def"
    };
#undef COUNTER
}
