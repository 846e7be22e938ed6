/*
 * central_mutex.h - central behind a lock. See central.h.
 */
#ifndef HZ_WAYS_STAGES_CENTRAL_MUTEX_H
#define HZ_WAYS_STAGES_CENTRAL_MUTEX_H

#include "list.h"

struct hz_mailbox;

bool hz_central_mutex_send(struct hz_mailbox *mail, const struct hz_list *list, uint32_t cap);
hz_list_word hz_central_mutex_take(struct hz_mailbox *mail);

#endif
