/*
 * transfer_lockfree.c - one CAS fills a slot, one exchange empties it. See transfer.h.
 *
 * No ABA: a slot only ever changes from 0 to a list and from a list to 0. Edge "transfer-publish": the taker sees the
 * links of the list, which the sender wrote.
 */
#include "transfer_lockfree.h"

#include "mailbox.h"

bool hz_transfer_lockfree_send(struct hz_mailbox *mail, const struct hz_list *list) {
    hz_block_link(list->tail, NULL);
    hz_list_word word = hz_list_word_make(list->head, list->count);
    for (unsigned slot = 0; slot < HZ_TRANSFER_SLOTS; slot++) {
        hz_list_word expected = 0;
        if (hz_load_rlx(&mail->transfer[slot]) != 0) /* relaxed: hint */
            continue;
        /* sync: transfer-publish, partner hz_transfer_lockfree_take */
        if (hz_cas_strong_rel_rlx(&mail->transfer[slot], &expected, word))
            return true;
    }
    return false;
}

hz_list_word hz_transfer_lockfree_take(struct hz_mailbox *mail) {
    for (unsigned slot = 0; slot < HZ_TRANSFER_SLOTS; slot++) {
        if (hz_load_rlx(&mail->transfer[slot]) == 0) /* relaxed: hint */
            continue;
        /* sync: transfer-publish, partner hz_transfer_lockfree_send */
        hz_list_word word = hz_xchg_acq(&mail->transfer[slot], 0);
        if (word != 0)
            return word;
    }
    return 0;
}
