/*
 * mail.c - how blocks of one class come to their shard: lists posted to the inbox, or, with HZ_REMOTE_INBOX=0, each
 * block to its page and the page to the shard's queue. Called by core/shard.c.
 *
 * No sender takes a lock. What may wait in an inbox is HZ_INBOX_BYTES (one list at least), and once more what
 * was last taken from it (carry). In pages there is no such bound but the pages themselves. Edge "inbox-publish": that
 * of mpsc.h; those of the pages are in core/pageq.c.
 */
#include "core/core.h"

_Static_assert(HZ_EXCLUSIVE_ALWAYS || HZ_REMOTE_INBOX,
               "HZ_REMOTE_INBOX=0: needs HZ_EXCLUSIVE_ALWAYS=1, since the queue of pages has one taker at a time");

/* A list at least: of the remote buffer, or of a bin. */
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
        hz_pageq_send(self, &mail->pages, list);
    }
    return true;
}

hz_list_word hz_mail_take(struct hz_thread_block *self, struct hz_mailbox *mail) {
    if (!HZ_REMOTE_INBOX)
        return hz_pageq_take(self, &mail->pages);
    hz_list_word word = hz_mpsc_take(&mail->inbox); /* sync: inbox-publish, partner hz_mail_send */
    if (word != 0)
        hz_count(&self->counters.inbox_consume, 1);
    return word;
}

uint32_t hz_mail_count(struct hz_mailbox *mail) {
    return hz_mpsc_count(&mail->inbox); /* what waits in pages is counted with the pages */
}

void hz_mail_after_fork(void) {
    if (!HZ_REMOTE_INBOX) /* else lists are sound at each instant */
        hz_pageq_after_fork();
}
