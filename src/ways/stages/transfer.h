/*
 * transfer.h - hands whole lists to a shard in a few slots. It stands behind the stash, for when the stash has reached
 * its cap or is off. There are two implementations, and the knob HZ_TRANSFER_LOCKFREE chooses; both are compiled and
 * tested.
 *
 * A sender puts a list into an empty slot and touches no block but its last. A taker empties a slot. A slot never
 * changes directly from one list to another. In a fork's child every slot has a list or none, in both implementations.
 */
#ifndef HZ_WAYS_STAGES_TRANSFER_H
#define HZ_WAYS_STAGES_TRANSFER_H

#include "heap/knobs.h"
#include "transfer_check.h"
#include "transfer_lockfree.h"
#include "transfer_mutex.h"

/* False when every slot is full. Any thread. */
HZ_INLINE bool hz_transfer_send(struct hz_mailbox *mail, const struct hz_list *list) {
    return HZ_TRANSFER_LOCKFREE ? hz_transfer_lockfree_send(mail, list) : hz_transfer_mutex_send(mail, list);
}

/* One list; 0 when there is none. Any thread. */
HZ_INLINE hz_list_word hz_transfer_take(struct hz_mailbox *mail) {
    hz_list_word word = HZ_TRANSFER_LOCKFREE ? hz_transfer_lockfree_take(mail) : hz_transfer_mutex_take(mail);
    if (HZ_TRANSFER_CHECKED)
        hz_transfer_check(word);
    return word;
}

#endif
