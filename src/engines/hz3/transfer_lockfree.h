/*
 * transfer_lockfree.h - transfer without a lock. See transfer.h.
 */
#ifndef HZ3_TRANSFER_LOCKFREE_H
#define HZ3_TRANSFER_LOCKFREE_H

#include "base/list.h"

struct hz_mailbox;

bool hz3_transfer_lockfree_send(struct hz_mailbox *mail, const struct hz_list *list);
hz_list_word hz3_transfer_lockfree_take(struct hz_mailbox *mail);

#endif
