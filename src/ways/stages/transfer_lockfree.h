/*
 * transfer_lockfree.h - transfer without a lock. See transfer.h.
 */
#ifndef HZ_WAYS_STAGES_TRANSFER_LOCKFREE_H
#define HZ_WAYS_STAGES_TRANSFER_LOCKFREE_H

#include "list.h"

struct hz_mailbox;

bool hz_transfer_lockfree_send(struct hz_mailbox *mail, const struct hz_list *list);
hz_list_word hz_transfer_lockfree_take(struct hz_mailbox *mail);

#endif
