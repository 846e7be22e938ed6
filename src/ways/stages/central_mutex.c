/*
 * central_mutex.c - central behind a lock. See central.h.
 *
 * The list is still one word, changed by one store. So a fork's copy is sound, and only the lock needs repair.
 */
#include "central_mutex.h"

#include "mailbox.h"
#include "shadow.h"

bool hz_central_mutex_send(struct hz_mailbox *mail, const struct hz_list *list, uint32_t cap) {
    if (HZ_CENTRAL_SHADOWED)
        hz_shadow_prepare(list);
    hz_lock_acquire(&mail->central_lock);
    hz_list_word seen = hz_load_rlx(&mail->central.word); /* relaxed: lock */
    uint32_t count = hz_list_word_count(seen) + list->count;
    bool fits = count <= cap;
    if (fits) {
        hz_block_link(list->tail, hz_list_word_head(seen));
        if (HZ_CENTRAL_SHADOWED)
            hz_shadow_add(list);
        hz_store_rel(&mail->central.word, hz_list_word_make(list->head, count)); /* release: fork */
    }
    hz_lock_release(&mail->central_lock);
    return fits;
}

hz_list_word hz_central_mutex_take(struct hz_mailbox *mail) {
    if (hz_central_count(mail) == 0) /* hint: a late sender is found next time */
        return 0;
    hz_lock_acquire(&mail->central_lock);
    hz_list_word word = hz_load_rlx(&mail->central.word); /* relaxed, both: lock */
    hz_store_rlx(&mail->central.word, 0);
    if (HZ_CENTRAL_SHADOWED)
        hz_shadow_remove(word);
    hz_lock_release(&mail->central_lock);
    return word;
}
