/*
 * mail.c - the way home by stages: stash, then transfer, then central.
 *
 * Per class, a shard's stash holds up to HZ_STASH_BYTES, its central up to HZ_CENTRAL_BYTES (each at least one list),
 * its transfer up to 8 lists, and its carry what is left of the list last taken. Without a stash (HZ_STASH_BYTES=0)
 * transfer comes first. No sender takes the shard's lock. Transfer and central use locks of their own only in variants
 * with the mutex twins. Edge "stash-publish" is mpsc.h's send-take.
 */
#include "mail.h"

#include "base/os/anatomy.h"
#include "box.h"
#include "central.h"
#include "heap/pages/shard.h"
#include "transfer.h"

enum { HAS_STASH = HZ_INBOX_MAX_BYTES > 0 };

static bool stash_send(struct hz_mailbox *mail, unsigned size_class, const struct hz_list *list) {
    /* sync: stash-publish, partner stash_take */
    return HAS_STASH && hz_mpsc_send(&mail->stash, list, hz_mail_cap(HZ_INBOX_MAX_BYTES, size_class));
}

static hz_list_word stash_take(struct hz_mailbox *mail) {
    return HAS_STASH ? hz_mpsc_take(&mail->stash) : 0; /* sync: stash-publish, partner stash_send */
}

bool hz_mail_send(struct hz_thread_block *self, struct hz_mailbox *mail, unsigned size_class,
                  const struct hz_list *list) {
    if (stash_send(mail, size_class, list))
        hz_count(&self->counters.inbox_send, 1);
    else if (hz_transfer_send(mail, list))
        hz_count(&self->counters.transfer_send, 1);
    else if (hz_central_send(mail, list, hz_mail_cap(HZ_CENTRAL_BYTES, size_class)))
        hz_count(&self->counters.central_send, 1);
    else
        return false;
    return true;
}

hz_list_word hz_mail_take(struct hz_thread_block *self, struct hz_mailbox *mail) {
    hz_list_word word = stash_take(mail);
    _Atomic(uint64_t) *counter = &self->counters.inbox_take;
    if (word == 0) {
        word = hz_transfer_take(mail);
        counter = &self->counters.refill_transfer;
    }
    if (word == 0) {
        word = hz_central_take(mail);
        counter = &self->counters.refill_central;
    }
    if (word != 0)
        hz_count(counter, 1);
    return word;
}

static uint32_t stash_count(struct hz_mailbox *mail) {
    return hz_mpsc_count(&mail->stash);
}

uint32_t hz_mail_count(struct hz_mailbox *mail) {
    return stash_count(mail) + hz_transfer_count(mail) + hz_central_count(mail);
}

const struct hz_mail_part hz_mail_parts[HZ_MAIL_PARTS] = {
    {HZ_INBOX_FIGURE, stash_count},
    {HZ_TRANSFER_FIGURE, hz_transfer_count},
    {HZ_CENTRAL_FIGURE, hz_central_count},
};

HZ_ANATOMY(mail, {"mail." HZ_INBOX_FIGURE, {.number = offsetof(struct hz_mailbox, stash)}, sizeof(struct hz_mpsc)},
           {"mail." HZ_TRANSFER_FIGURE,
            {.number = offsetof(struct hz_mailbox, transfer)},
            sizeof(((struct hz_mailbox *)NULL)->transfer)},
           {"mail." HZ_CENTRAL_FIGURE, {.number = offsetof(struct hz_mailbox, central)}, sizeof(struct hz_mpsc)});

void hz_mail_gather(struct hz_thread_block *self) {
    (void)self; /* all that waits is in the mailbox */
}

/* Lists and slots are sound at each instant, but threads that vanished may have held locks. */
void hz_mail_after_fork(void) {
    if (HZ_TRANSFER_LOCKFREE && HZ_CENTRAL_LOCKFREE)
        return;
    for (struct hz_shard *shard = hz_shard_get(0); shard != NULL; shard = hz_shard_next(shard))
        for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
            hz_lock_settle(&hz_box_of(shard, size_class)->mail.transfer_lock);
            hz_lock_settle(&hz_box_of(shard, size_class)->mail.central_lock);
        }
}

void hz_mail_settle_fork(void) {
    /* lists and slots are sound at each instant */
}
