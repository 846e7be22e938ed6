/*
 * pageq.c - page-local remote lists and the queue of pages. Called by an engine's mail.c and by purge.c.
 *
 * Edge "page-remote": that of mpsc.h, on a page's list, in both directions: the owner has read a page's `queue_next`
 * before a sender that fills the list again writes it. Edge "pageq-publish": the link of a queued page, and with it the
 * blocks that made its list long enough, are visible to who takes the queue.
 */
#include "core/pageq.h"

#include "core/core.h"

/* Blocks a page must have been sent before it is queued: no more than it has. */
static uint32_t threshold_of(const struct hz_page *page) {
    return (uint32_t)hz_min(HZ_PAGE_LOCAL_THRESHOLD, page->capacity);
}

static void enqueue(struct hz_pageq *queue, struct hz_page *page) {
    struct hz_page *seen = hz_load_rlx(&queue->head); /* relaxed: cas */
    do {
        page->queue_next = seen;                          /* again on every retry */
    } while (!hz_cas_rel_rlx(&queue->head, &seen, page)); /* sync: pageq-publish, partners take_all, take_one */
}

void hz_pageq_send(struct hz_thread_block *self, struct hz_pageq *queue, const struct hz_list *list) {
    uint32_t queued = 0;
    void *block = list->head;
    for (uint32_t left = list->count; left > 0; left--) {
        void *next = left > 1 ? hz_block_next(block) : NULL; /* before the block is sent: it is somebody else's then */
        struct hz_page *page = hz_page_of(block);
        uint32_t threshold = threshold_of(page); /* before the block is sent, too: it keeps the page */
        struct hz_list one = {.head = block, .tail = block, .count = 1};
        uint32_t before;
        /* sync: page-remote, partner hz_pageq_take. It never refuses: a page has fewer blocks than that */
        if (hz_mpsc_send_counted(&page->remote, &one, HZ_LIST_COUNT_MAX, &before) && before + 1 == threshold) {
            enqueue(queue, page);
            queued++;
        }
        block = next;
    }
    hz_count(&self->counters.push_objs, list->count);
    hz_count(&self->counters.pageq_enq, queued);
}

/* Every queued page, linked by queue_next. */
static struct hz_page *take_all(struct hz_pageq *queue) {
    if (hz_load_rlx(&queue->head) == NULL) /* relaxed: hint, a late sender is found next time */
        return NULL;
    return hz_xchg_acq(&queue->head, NULL); /* sync: pageq-publish, partner enqueue */
}

/* One queued page. A head that is seen stays in the queue until this taker, the only one, takes it: its link is right
   when the exchange succeeds (no ABA). */
static struct hz_page *take_one(struct hz_pageq *queue) {
    struct hz_page *seen = hz_load_acq(&queue->head); /* sync: pageq-publish, partner enqueue */
    while (seen != NULL && !hz_cas_acq_acq(&queue->head, &seen, seen->queue_next)) { /* sync: pageq-publish */
    }
    return seen;
}

hz_list_word hz_pageq_take(struct hz_thread_block *self, struct hz_pageq *queue) {
    struct hz_page *page = queue->pending;
    if (page == NULL) {
        page = HZ_PAGE_LOCAL_DRAIN_ALL ? take_all(queue) : take_one(queue);
        if (page == NULL)
            return 0;
        hz_count(&self->counters.pop_calls, 1);
    }
    if (HZ_PAGE_LOCAL_DRAIN_ALL)
        queue->pending = page->queue_next; /* before the list is taken: after that, a sender may queue the page again */
    hz_list_word word = hz_mpsc_take(&page->remote); /* sync: page-remote, partner hz_pageq_send */
    hz_count(&self->counters.pageq_deq, 1);
    hz_count(&self->counters.drain_total, hz_list_word_count(word));
    return word;
}

/* Takes what a page that is not queued was sent; 0 when there is nothing, or the page is queued or about to be: then
   the list stays for who takes the queue. Under the exclusive of the page's shard. */
static hz_list_word take_unqueued(struct hz_page *page) {
    hz_list_word seen = hz_load_rlx(&page->remote.word); /* relaxed: cas */
    do {
        if (hz_list_word_count(seen) >= threshold_of(page))
            return 0;
    } while (seen != 0 && !hz_cas_ar_rlx(&page->remote.word, &seen, 0)); /* sync: page-remote, partner hz_pageq_send */
    return seen;
}

static void gather(void *context, struct hz_page *page) {
    struct hz_thread_block *self = context;
    struct hz_list strays = {0}; /* stays empty: they are all of this page */
    uint32_t retired = 0;
    if (hz_mpsc_count(&page->remote) == 0)
        return;
    struct hz_shard *shard = hz_shard_get(hz_load_acq(&page->shard)); /* sync: page-move; checked under the lock */
    hz_shard_lock(self, shard, HZ_TO_GIVE);
    /* sync: page-publish. Alive, and then this shard's: so it stays both while the lock is held */
    if (hz_load_acq(&page->size_class) != HZ_CLASS_NONE && hz_page_is_of(page, shard)) {
        hz_list_word word = take_unqueued(page);
        if (HZ_LISTS_CHECKED)
            hz_list_check(hz_load_rlx(&page->size_class), hz_list_word_head(word), hz_list_word_count(word));
        retired = hz_pages_put_list_locked(shard, hz_list_word_head(word), hz_list_word_count(word), &strays);
    }
    hz_shard_unlock(shard);
    hz_count(&self->counters.page_retire, retired);
}

void hz_pageq_gather(struct hz_thread_block *self) {
    if (HZ_PAGE_LOCAL_THRESHOLD > 1)
        hz_pages_walk(gather, self);
}

/* Queued, or not queued yet by a thread that is not here. */
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

void hz_pageq_after_fork(void) {
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
