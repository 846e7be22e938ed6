/*
 * mail.c - how blocks of one class come to their shard: stash, then transfer, then central. Called by core/shard.c.
 *
 * No sender takes a lock. What may wait for a shard, per class: HZ_STASH_BYTES + 8 lists + HZ_CENTRAL_BYTES (one batch
 * at least in each), and once more what was last drained of it (carry). Edge "stash-publish": that of mpsc.h.
 */
#include "core/core.h"

static uint32_t stash_cap(unsigned size_class) {
    return (uint32_t)hz_min(hz_max(HZ_STASH_BYTES / hz_class_bytes(size_class), hz_batch_count(size_class)),
                            HZ_LIST_COUNT_MAX);
}

bool hz_mail_send(struct hz_thread_block *self, struct hz_mailbox *mail, unsigned size_class,
                  const struct hz_list *list) {
    if (hz_mpsc_send(&mail->stash, list, stash_cap(size_class))) /* sync: stash-publish, partner hz_mail_take */
        hz_count(&self->counters.stash_send, 1);
    else if (hz3_transfer_send(mail, list))
        hz_count(&self->counters.transfer_send, 1);
    else if (hz3_central_send(mail, size_class, list))
        hz_count(&self->counters.central_send, 1);
    else
        return false;
    return true;
}

hz_list_word hz_mail_take(struct hz_thread_block *self, struct hz_mailbox *mail) {
    hz_list_word word = hz_mpsc_take(&mail->stash); /* sync: stash-publish, partner hz_mail_send */
    _Atomic(uint64_t) *counter = &self->counters.refill_stash;
    if (word == 0) {
        word = hz3_transfer_take(mail);
        counter = &self->counters.refill_transfer;
    }
    if (word == 0) {
        word = hz3_central_take(mail);
        counter = &self->counters.refill_central;
    }
    if (word != 0)
        hz_count(counter, 1);
    return word;
}

uint32_t hz_mail_count(struct hz_mailbox *mail) {
    return hz_mpsc_count(&mail->stash) + hz3_transfer_count(mail) + hz3_central_count(mail);
}

void hz_mail_after_fork(void) {
    /* lists and slots are sound at each instant */
}
