/*
 * central.h - the overflow list of (shard, class) behind stash and transfer. There are two implementations, and the
 * knob HZ_CENTRAL_LOCKFREE chooses; both are compiled and tested.
 *
 * When central has reached its cap too, the sender takes the shard's exclusive and puts the blocks into their pages
 * itself (heap/pages/send.c). So what waits for a shard is bounded. In a fork's child central is one sound list, in
 * both implementations.
 */
#ifndef HZ_WAYS_STAGES_CENTRAL_H
#define HZ_WAYS_STAGES_CENTRAL_H

#include "central_lockfree.h"
#include "central_mutex.h"
#include "heap/knobs.h"

/* False when central would come to hold more than `cap` blocks; in that case at most the link of the list's last block
   has changed. Any thread. */
HZ_INLINE bool hz_central_send(struct hz_mailbox *mail, const struct hz_list *list, uint32_t cap) {
    return HZ_CENTRAL_LOCKFREE ? hz_central_lockfree_send(mail, list, cap) : hz_central_mutex_send(mail, list, cap);
}

/* Everything, as one list; 0 when there is nothing. Any thread. */
HZ_INLINE hz_list_word hz_central_take(struct hz_mailbox *mail) {
    return HZ_CENTRAL_LOCKFREE ? hz_central_lockfree_take(mail) : hz_central_mutex_take(mail);
}

#endif
