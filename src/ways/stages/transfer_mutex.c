/*
 * transfer_mutex.c - transfer behind a lock. See transfer.h.
 *
 * Everything is under the lock except the first look, so a refill that finds nothing takes no lock. Single stores still
 * change the slots, so a fork's copy is sound, and only the lock needs repair.
 */
#include "transfer_mutex.h"

#include "mailbox.h"

bool hz_transfer_mutex_send(struct hz_mailbox *mail, const struct hz_list *list) {
    bool sent = false;
    hz_block_link(list->tail, NULL);
    hz_lock_acquire(&mail->transfer_lock);
    for (unsigned slot = 0; slot < HZ_TRANSFER_SLOTS && !sent; slot++) {
        if (hz_load_rlx(&mail->transfer[slot]) == 0) {                                       /* relaxed: lock */
            hz_store_rel(&mail->transfer[slot], hz_list_word_make(list->head, list->count)); /* release: fork */
            sent = true;
        }
    }
    hz_lock_release(&mail->transfer_lock);
    return sent;
}

hz_list_word hz_transfer_mutex_take(struct hz_mailbox *mail) {
    hz_list_word word = 0;
    if (hz_transfer_count(mail) == 0) /* hint: a late sender is found next time */
        return 0;
    hz_lock_acquire(&mail->transfer_lock);
    for (unsigned slot = 0; slot < HZ_TRANSFER_SLOTS && word == 0; slot++) {
        word = hz_load_rlx(&mail->transfer[slot]); /* relaxed, both: lock */
        if (word != 0)
            hz_store_rlx(&mail->transfer[slot], 0);
    }
    hz_lock_release(&mail->transfer_lock);
    return word;
}
