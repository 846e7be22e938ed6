/*
 * transfer_mutex.h - transfer behind a lock. See transfer.h.
 */
#ifndef HZ_WAYS_STAGES_TRANSFER_MUTEX_H
#define HZ_WAYS_STAGES_TRANSFER_MUTEX_H

#include "list.h"

struct hz_mailbox;

bool hz_transfer_mutex_send(struct hz_mailbox *mail, const struct hz_list *list);
hz_list_word hz_transfer_mutex_take(struct hz_mailbox *mail);

#endif
