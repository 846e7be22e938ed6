/*
 * shim_hz3.c - see shim.h. Nothing here decides anything.
 */
#include "unit/hz3/shim.h"

#include "central.h"
#include "heap/pages/shard.h"
#include "shadow.h"
#include "transfer.h"

const unsigned unit_transfer_slots = HZ3_TRANSFER_SLOTS;

const struct unit_transfer unit_transfers[2] = {
    {"lockfree", hz3_transfer_lockfree_send, hz3_transfer_lockfree_take},
    {"mutex", hz3_transfer_mutex_send, hz3_transfer_mutex_take},
};

const struct unit_central unit_centrals[2] = {
    {"lockfree", hz3_central_lockfree_send, hz3_central_lockfree_take},
    {"mutex", hz3_central_mutex_send, hz3_central_mutex_take},
};

const bool unit_central_is_shadowed = HZ3_CENTRAL_SHADOWED;

uint32_t unit_transfer_count(struct hz_mailbox *mail) {
    return hz3_transfer_count(mail);
}

uint32_t unit_central_count(struct hz_mailbox *mail) {
    return hz3_central_count(mail);
}

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

const bool unit_mail_is_of_pages = HZ_PAGE_LOCAL_REMOTE;
