/*
 * central.h - the overflow list of (shard, class) behind stash and transfer. Two implementations, the knob
 * HZ_CENTRAL_LOCKFREE chooses; both are compiled and tested.
 *
 * When it has reached its cap too, the sender takes the shard's exclusive and puts the blocks into their pages itself
 * (core/send.c): what waits for a shard is bounded. In a fork's child it is one sound list, in both.
 */
#ifndef HZ3_CENTRAL_H
#define HZ3_CENTRAL_H

#include "core/knobs.h"
#include "mailbox.h"

/* False when it would hold more than `cap` blocks then; only the link of the list's last block has changed. Any thread.
 */
bool hz3_central_lockfree_send(struct hz_mailbox *mail, const struct hz_list *list, uint32_t cap);
bool hz3_central_mutex_send(struct hz_mailbox *mail, const struct hz_list *list, uint32_t cap);

/* Everything, as one list; 0 when there is nothing. */
hz_list_word hz3_central_lockfree_take(struct hz_mailbox *mail);
hz_list_word hz3_central_mutex_take(struct hz_mailbox *mail);

HZ_INLINE bool hz3_central_send(struct hz_mailbox *mail, const struct hz_list *list, uint32_t cap) {
    return HZ_CENTRAL_LOCKFREE ? hz3_central_lockfree_send(mail, list, cap) : hz3_central_mutex_send(mail, list, cap);
}

HZ_INLINE hz_list_word hz3_central_take(struct hz_mailbox *mail) {
    return HZ_CENTRAL_LOCKFREE ? hz3_central_lockfree_take(mail) : hz3_central_mutex_take(mail);
}

/* Blocks waiting, at some recent moment. */
HZ_INLINE uint32_t hz3_central_count(struct hz_mailbox *mail) {
    return hz_mpsc_count(&mail->central);
}

#endif
