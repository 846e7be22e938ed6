/*
 * mail.c - how blocks of one class come to their shard: lists posted to the inbox, or, with HZ_REMOTE_INBOX=0, each
 * block to its page and the page to the shard's queue. Called by core/shard.c.
 *
 * No sender takes a lock. What may wait in an inbox is HZ_INBOX_BYTES (one list at least), and once more what
 * was last taken from it (carry). In pages there is no such bound but the pages themselves. Edge "inbox-publish": that
 * of mpsc.h; those of the pages are in core/pageq.c.
 */
#include "core/core.h"

/* A list at least: of the remote buffer, or of a bin. */
static uint32_t inbox_cap(unsigned size_class) {
    uint32_t list = hz_class_is_home(size_class) ? HZ_HOME_COUNT : hz_batch_count(size_class);
    return (uint32_t)hz_min(hz_max(HZ_INBOX_BYTES / hz_class_bytes(size_class), list), HZ_LIST_COUNT_MAX);
}

bool hz_mail_send(struct hz_thread_block *self, struct hz_mailbox *mail, unsigned size_class,
                  const struct hz_list *list) {
    if (HZ_REMOTE_INBOX) {
        if (!hz_mpsc_send(&mail->inbox, list, inbox_cap(size_class))) /* sync: inbox-publish, partner hz_mail_take */
            return false;
        hz_count(&self->counters.inbox_push_list, 1);
    } else {
        hz_count(&self->counters.page_push, list->count);
        hz_count(&self->counters.page_enqueue, hz_pageq_send(&mail->pages, list));
    }
    return true;
}

hz_list_word hz_mail_take(struct hz_thread_block *self, struct hz_mailbox *mail) {
    /* sync: inbox-publish, partner hz_mail_send */
    hz_list_word word = HZ_REMOTE_INBOX ? hz_mpsc_take(&mail->inbox) : hz_pageq_take(&mail->pages);
    if (word != 0)
        hz_count(HZ_REMOTE_INBOX ? &self->counters.inbox_consume : &self->counters.page_drain, 1);
    return word;
}

uint32_t hz_mail_count(struct hz_mailbox *mail) {
    return hz_mpsc_count(&mail->inbox); /* what waits in pages is counted with the pages */
}

/* A page whose list was made non-empty, but which was not queued yet, would never be. */
static void page_settle(void *context, struct hz_page *page) {
    (void)context;
    struct hz_shard *shard = hz_shard_get(hz_load_rlx(&page->shard)); /* relaxed, all: one thread */
    hz_list_word word = hz_mpsc_take(&page->remote);
    struct hz_list strays = {0}; /* stays empty: they are all of this page */
    if (HZ_LISTS_CHECKED)
        hz_list_check(hz_load_rlx(&page->size_class), hz_list_word_head(word), hz_list_word_count(word));
    if (word != 0)
        hz_pages_put_list_locked(shard, hz_list_word_head(word), hz_list_word_count(word), &strays);
}

void hz_mail_after_fork(void) {
    if (HZ_REMOTE_INBOX)
        return; /* lists are sound at each instant */
    for (unsigned index = 0; index < HZ_NUM_SHARDS; index++) {
        struct hz_shard *shard = hz_shard_get(index);
        for (unsigned size_class = 1; shard != NULL && size_class < HZ_CLASS_COUNT; size_class++) {
            struct hz_pageq *queue = &shard->classes[size_class].mail.pages;
            hz_store_rlx(&queue->head, NULL);
            queue->pending = NULL;
        }
    }
    hz_pages_walk(page_settle, NULL);
}
