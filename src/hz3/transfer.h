/*
 * transfer.h - hand-over of whole lists to a shard, in a few slots. Stands behind the stash: used when that has reached
 * its cap, or is off. Two implementations, the knob HZ_TRANSFER_LOCKFREE chooses; both are compiled and tested.
 *
 * A sender puts a list into an empty slot and touches no block but its last; a taker empties a slot. A slot never
 * changes from one list to another directly. In a fork's child every slot has a list or none, in both.
 */
#ifndef HZ3_TRANSFER_H
#define HZ3_TRANSFER_H

#include "core/knobs.h"
#include "mailbox.h"

/* False when every slot is taken. Any thread. */
bool hz3_transfer_lockfree_send(struct hz_mailbox *mail, const struct hz_list *list);
bool hz3_transfer_mutex_send(struct hz_mailbox *mail, const struct hz_list *list);

/* One list; 0 when there is none. Any thread. */
hz_list_word hz3_transfer_lockfree_take(struct hz_mailbox *mail);
hz_list_word hz3_transfer_mutex_take(struct hz_mailbox *mail);

enum { HZ3_TRANSFER_CHECKED = HZ_TRANSFER_FAILFAST || HZ_CONFIG_CHECKS };

/* Ends the program unless the list that was taken has as many blocks as it says; names the last that is sound. */
void hz3_transfer_check(hz_list_word word);

HZ_INLINE bool hz3_transfer_send(struct hz_mailbox *mail, const struct hz_list *list) {
    return HZ_TRANSFER_LOCKFREE ? hz3_transfer_lockfree_send(mail, list) : hz3_transfer_mutex_send(mail, list);
}

HZ_INLINE hz_list_word hz3_transfer_take(struct hz_mailbox *mail) {
    hz_list_word word = HZ_TRANSFER_LOCKFREE ? hz3_transfer_lockfree_take(mail) : hz3_transfer_mutex_take(mail);
    if (HZ3_TRANSFER_CHECKED)
        hz3_transfer_check(word);
    return word;
}

/* Blocks waiting, at some recent moment. */
HZ_INLINE uint32_t hz3_transfer_count(struct hz_mailbox *mail) {
    uint32_t count = 0;
    for (unsigned slot = 0; slot < HZ3_TRANSFER_SLOTS; slot++)
        count += hz_list_word_count(hz_load_rlx(&mail->transfer[slot])); /* relaxed: figure */
    return count;
}

#endif
