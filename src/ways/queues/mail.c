/*
 * mail.c - the way home by page queues: each block is sent to its page, and the page queued for the shard
 * (page_local.c).
 *
 * No sender takes a lock. Nothing but the pages' own size bounds what waits.
 */
#include "mail.h"

#include "page_local.h"

bool hz_mail_send(struct hz_thread_block *self, struct hz_mailbox *mail, unsigned size_class,
                  const struct hz_list *list) {
    (void)size_class;
    hz_page_local_send(self, &mail->pages, list);
    return true;
}

hz_list_word hz_mail_take(struct hz_thread_block *self, struct hz_mailbox *mail) {
    return hz_page_local_take(self, &mail->pages);
}

uint32_t hz_mail_count(struct hz_mailbox *mail) {
    (void)mail; /* statistics count what waits in pages with the pages */
    return 0;
}

const struct hz_mail_part hz_mail_parts[HZ_MAIL_PARTS] = {{NULL, NULL}};

void hz_mail_gather(struct hz_thread_block *self) {
    hz_page_local_gather(self);
}

void hz_mail_after_fork(void) {
    /* no sender takes a lock */
}

void hz_mail_settle_fork(void) {
    hz_page_local_settle_fork();
}
