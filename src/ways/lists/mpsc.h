/*
 * mpsc.h - a queue with many senders and one taker at a time. The layer above sends blocks home with it.
 *
 * Owns one list word (list.h). A send prepends a whole list with one CAS; a take removes everything with one exchange.
 * No single block is ever popped, so an address that comes back (ABA) does no harm: a send that sees an old head again
 * links to a head that really is there. The count in the word bounds the taker's walk. The link of a list's last block
 * is the previous head, NULL at the end.
 *
 * Edge "send-take", in both directions: a taker sees what the senders wrote into their blocks and links; and a sender
 * that finds the queue empty comes after everything that the queue's last taker did before the take.
 */
#ifndef HZ_WAYS_LISTS_MPSC_H
#define HZ_WAYS_LISTS_MPSC_H

#include "base/os/atomic.h"
#include "list.h"

struct hz_mpsc {
    _Atomic(hz_list_word) word; /* sync: send-take */
};

/* Sends `list`. False if the queue would come to hold more than `cap` blocks (cap <= HZ_LIST_COUNT_MAX); in that case
   at most the link of the list's tail has changed. *before: blocks in the queue before the send. Any thread. */
HZ_INLINE bool hz_mpsc_send_counted(struct hz_mpsc *queue, const struct hz_list *list, uint32_t cap, uint32_t *before) {
    hz_list_word seen = hz_load_rlx(&queue->word); /* relaxed: cas */
    hz_list_word next;
    do {
        uint32_t count = hz_list_word_count(seen) + list->count;
        if (count > cap)
            return false;
        hz_block_link(list->tail, hz_list_word_head(seen)); /* relinked on every retry: the head may have moved */
        next = hz_list_word_make(list->head, count);
    } while (!hz_cas_ar_rlx(&queue->word, &seen, next)); /* sync: send-take, partner hz_mpsc_take */
    *before = hz_list_word_count(seen);
    return true;
}

HZ_INLINE bool hz_mpsc_send(struct hz_mpsc *queue, const struct hz_list *list, uint32_t cap) {
    uint32_t before;
    return hz_mpsc_send_counted(queue, list, cap, &before);
}

/* Takes everything; 0 when there is nothing. Either a lock of the layer above makes the caller the only taker, or the
   takers share nothing but this queue: the exchange gives each list to one of them. */
HZ_INLINE hz_list_word hz_mpsc_take(struct hz_mpsc *queue) {
    if (hz_load_rlx(&queue->word) == 0) /* relaxed: hint, a late sender is found next time */
        return 0;
    return hz_xchg_ar(&queue->word, 0); /* sync: send-take, partner hz_mpsc_send_counted */
}

/* Blocks in the queue at some recent moment. */
HZ_INLINE uint32_t hz_mpsc_count(struct hz_mpsc *queue) {
    return hz_list_word_count(hz_load_rlx(&queue->word)); /* relaxed: hint */
}

#endif
