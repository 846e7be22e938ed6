/*
 * mail.c - the way home by inbox: lists sent to the shard's inbox, which hz3 calls stash.
 *
 * No sender takes a lock. At most HZ_INBOX_MAX_BYTES of a class wait in an inbox (or one list, if that is more), and
 * the carry can have as much again, left over from the last take. Edge "inbox-publish" is mpsc.h's send-take.
 */
#include "mail.h"

#include "base/os/anatomy.h"

bool hz_mail_send(struct hz_thread_block *self, struct hz_mailbox *mail, unsigned size_class,
                  const struct hz_list *list) {
    uint32_t cap = hz_mail_cap(HZ_INBOX_MAX_BYTES, size_class);
    if (!hz_mpsc_send(&mail->inbox, list, cap)) /* sync: inbox-publish, partner hz_mail_take */
        return false;
    hz_count(&self->counters.inbox_send, 1);
    return true;
}

hz_list_word hz_mail_take(struct hz_thread_block *self, struct hz_mailbox *mail) {
    hz_list_word word = hz_mpsc_take(&mail->inbox); /* sync: inbox-publish, partner hz_mail_send */
    if (word != 0)
        hz_count(&self->counters.inbox_take, 1);
    return word;
}

uint32_t hz_mail_count(struct hz_mailbox *mail) {
    return hz_mpsc_count(&mail->inbox);
}

const struct hz_mail_part hz_mail_parts[HZ_MAIL_PARTS] = {
    {HZ_INBOX_FIGURE, hz_mail_count},
};

HZ_ANATOMY(mail, {"mail." HZ_INBOX_FIGURE, {.number = offsetof(struct hz_mailbox, inbox)}, sizeof(struct hz_mpsc)});

void hz_mail_gather(struct hz_thread_block *self) {
    (void)self; /* all that waits is in the inbox */
}

void hz_mail_after_fork(void) {
    /* no sender takes a lock */
}

void hz_mail_settle_fork(void) {
    /* a list is sound at each instant */
}
