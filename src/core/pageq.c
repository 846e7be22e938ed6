/*
 * pageq.c - page-local remote lists and the queue of pages. Called by an engine's mail.c.
 *
 * Edge "page-remote": that of mpsc.h, on a page's list, in both directions: the owner has
 * read a page's `queue_next` before a sender that finds the list empty writes it. Edge "pageq-publish": the link of a
 * queued page, and with it the block that made its list non-empty, are visible to who takes the queue.
 */
#include "core/pageq.h"

#include "core/core.h"

static void enqueue(struct hz_pageq *queue, struct hz_page *page) {
    struct hz_page *seen = hz_load_rlx(&queue->head); /* relaxed: cas */
    do {
        page->queue_next = seen;                          /* again on every retry */
    } while (!hz_cas_rel_rlx(&queue->head, &seen, page)); /* sync: pageq-publish, partner hz_pageq_take */
}

uint32_t hz_pageq_send(struct hz_pageq *queue, const struct hz_list *list) {
    uint32_t queued = 0;
    void *block = list->head;
    for (uint32_t left = list->count; left > 0; left--) {
        void *next = left > 1 ? hz_block_next(block) : NULL; /* before the block is sent: it is somebody else's then */
        struct hz_page *page = hz_page_of(block);
        struct hz_list one = {.head = block, .tail = block, .count = 1};
        uint32_t before;
        /* sync: page-remote, partner hz_pageq_take. It never refuses: a page has fewer blocks than that */
        if (hz_mpsc_send_counted(&page->remote, &one, HZ_LIST_COUNT_MAX, &before) && before == 0) {
            enqueue(queue, page);
            queued++;
        }
        block = next;
    }
    return queued;
}

hz_list_word hz_pageq_take(struct hz_pageq *queue) {
    struct hz_page *page = queue->pending;
    if (page == NULL) {
        if (hz_load_rlx(&queue->head) == NULL) /* relaxed: hint, a late sender is found next time */
            return 0;
        page = hz_xchg_acq(&queue->head, NULL); /* sync: pageq-publish, partner enqueue */
    }
    queue->pending = page->queue_next;  /* before the list is taken: after that, a sender may queue the page again */
    return hz_mpsc_take(&page->remote); /* sync: page-remote, partner hz_pageq_send */
}
