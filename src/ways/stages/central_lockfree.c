/*
 * central_lockfree.c - central is a queue of mpsc.h, and edge "central-publish" is its send-take. See central.h.
 */
#include "central_lockfree.h"

#include "mailbox.h"

bool hz_central_lockfree_send(struct hz_mailbox *mail, const struct hz_list *list, uint32_t cap) {
    /* sync: central-publish, partner hz_central_lockfree_take */
    return hz_mpsc_send(&mail->central, list, cap);
}

hz_list_word hz_central_lockfree_take(struct hz_mailbox *mail) {
    return hz_mpsc_take(&mail->central); /* sync: central-publish, partner hz_central_lockfree_send */
}
