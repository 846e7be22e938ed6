/*
 * mail.c - hz4's way to send blocks home: lists sent to the shard's inbox, or, with HZ_REMOTE_INBOX=0, each block
 * sent to its page and the page queued for the shard. Called by heap/pages/send.c and drain.c.
 *
 * No sender takes a lock. At most HZ_INBOX_BYTES of a class wait in an inbox (or one list, if that is more), and the
 * carry can have as much again, left over from the last take. Nothing but the pages' own size bounds what waits in
 * pages. Edge "inbox-publish" is mpsc.h's send-take. The pages' edges are in heap/pages/page_local.c.
 */
#include "heap/pages/mail.h"

#include "heap/pages/page_local.h"

_Static_assert(HZ_EXCLUSIVE_ALWAYS || HZ_REMOTE_INBOX,
               "HZ_REMOTE_INBOX=0: needs HZ_EXCLUSIVE_ALWAYS=1, because the queue of pages allows one taker at a time");

/* Most blocks that may wait in an inbox: at least one list, of the remote buffer or of a bin. */
static uint32_t inbox_cap(unsigned size_class) {
    uint32_t list = hz_class_is_home(size_class) ? HZ_HOME_COUNT : hz_batch_count(size_class);
    return (uint32_t)hz_min(hz_max(HZ_INBOX_BYTES / hz_class_bytes(size_class), list), HZ_LIST_COUNT_MAX);
}

bool hz_mail_send(struct hz_thread_block *self, struct hz_mailbox *mail, unsigned size_class,
                  const struct hz_list *list) {
    if (HZ_REMOTE_INBOX) {
        if (!hz_mpsc_send(&mail->inbox, list, inbox_cap(size_class))) /* sync: inbox-publish, partner hz_mail_take */
            return false;
        hz_count(&self->counters.inbox_push_list, 1);
    } else {
        hz_page_local_send(self, &mail->pages, list);
    }
    return true;
}

hz_list_word hz_mail_take(struct hz_thread_block *self, struct hz_mailbox *mail) {
    if (!HZ_REMOTE_INBOX)
        return hz_page_local_take(self, &mail->pages);
    hz_list_word word = hz_mpsc_take(&mail->inbox); /* sync: inbox-publish, partner hz_mail_send */
    if (word != 0)
        hz_count(&self->counters.inbox_consume, 1);
    return word;
}

uint32_t hz_mail_count(struct hz_mailbox *mail) {
    return hz_mpsc_count(&mail->inbox); /* statistics count what waits in pages with the pages */
}

const struct hz_mail_part hz_mail_parts[HZ_MAIL_PARTS] = {
    {"inbox_bytes", hz_mail_count},
};

void hz_mail_after_fork(void) {
    /* no sender takes a lock */
}

void hz_mail_settle_fork(void) {
    if (!HZ_REMOTE_INBOX) /* with the inbox, the lists are sound at each instant */
        hz_page_local_settle_fork();
}
