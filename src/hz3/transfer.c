/*
 * transfer.c - hand-over of whole lists to a shard, lock-free. Stands behind the stash: used when that has reached its
 * cap.
 *
 * Owns the transfer slots of (shard, class): each holds one list word or 0. A sender puts a list into an empty slot
 * with one CAS and touches no block; the taker exchanges a slot with 0. A slot never changes from one list to another
 * directly, so there is no ABA. Edge "transfer-publish": the links of the list, written by the sender, are visible to
 * the taker.
 */
#include "core/core.h"

bool hz3_transfer_send(struct hz_mailbox *mail, const struct hz_list *list) {
    hz_block_link(list->tail, NULL);
    hz_list_word word = hz_list_word_make(list->head, list->count);
    for (unsigned slot = 0; slot < HZ3_TRANSFER_SLOTS; slot++) {
        hz_list_word expected = 0;
        if (hz_load_rlx(&mail->transfer[slot]) == 0 &&                     /* relaxed: hint */
            hz_cas_strong_rel_rlx(&mail->transfer[slot], &expected, word)) /* sync: transfer-publish, partner take */
            return true;
    }
    return false;
}

hz_list_word hz3_transfer_take(struct hz_mailbox *mail) {
    for (unsigned slot = 0; slot < HZ3_TRANSFER_SLOTS; slot++) {
        if (hz_load_rlx(&mail->transfer[slot]) == 0) /* relaxed: hint */
            continue;
        hz_list_word word = hz_xchg_acq(&mail->transfer[slot], 0); /* sync: transfer-publish, partner send */
        if (word != 0)
            return word;
    }
    return 0;
}

uint32_t hz3_transfer_count(struct hz_mailbox *mail) {
    uint32_t count = 0;
    for (unsigned slot = 0; slot < HZ3_TRANSFER_SLOTS; slot++)
        count += hz_list_word_count(hz_load_rlx(&mail->transfer[slot])); /* relaxed: figure */
    return count;
}
