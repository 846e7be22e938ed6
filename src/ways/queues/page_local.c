/*
 * page_local.c - see page_local.h.
 *
 * Edge "page-remote" is mpsc.h's send-take on a page's list, in both directions. So the owner reads a page's
 * `queue_next` before a sender that fills the list again writes it. Edge "pageq-publish": the taker of the queue sees
 * the link of each queued page, and with it the blocks that made its list long enough.
 */
#include "page_local.h"

#include "block_link.h"
#include "box.h"
#include "heap/pages/page.h"
#include "list_check.h"
#include "mpsc.h"
#include "put_list.h"

/* What was sent to the page. */
static struct hz_mpsc *remote_of(struct hz_page *page) {
    return (struct hz_mpsc *)(void *)&page->remote;
}

_Static_assert(sizeof(struct hz_mpsc) == sizeof(((struct hz_page *)NULL)->remote), "a page has room for a queue");

/* Length of a page's remote list at which the page is queued: at most all its blocks. */
static uint32_t threshold_of(const struct hz_page *page) {
    return (uint32_t)hz_min(HZ_PAGE_LOCAL_THRESHOLD, page->capacity);
}

static void enqueue(struct hz_page_queue *queue, struct hz_page *page) {
    struct hz_page *seen = hz_load_rlx(&queue->head); /* relaxed: cas */
    do {
        page->queue_next = seen;                          /* again on every retry */
    } while (!hz_cas_rel_rlx(&queue->head, &seen, page)); /* sync: pageq-publish, partner take_all */
}

void hz_page_local_send(struct hz_thread_block *self, struct hz_page_queue *queue, const struct hz_list *list) {
    uint32_t queued = 0;
    void *block = list->head;
    unsigned size_class = hz_pagetag_class(block);
    for (uint32_t left = list->count; left > 0; left--) {
        /* read everything first: once sent, the block may be reused, and nothing else keeps the page */
        void *next = left > 1 ? hz_link_follow(size_class, block) : NULL;
        struct hz_page *page = hz_page_of(block);
        uint32_t threshold = threshold_of(page);
        struct hz_list one = {.head = block, .tail = block, .count = 1};
        uint32_t before;
        /* sync: page-remote, partner hz_page_local_take. Never refused: a page has fewer blocks than the cap */
        if (hz_mpsc_send_counted(remote_of(page), &one, HZ_LIST_COUNT_MAX, &before) && before + 1 == threshold) {
            enqueue(queue, page);
            queued++;
        }
        block = next;
    }
    hz_count(&self->counters.push_objs, list->count);
    hz_count(&self->counters.pageq_enq, queued);
}

/* Every queued page, linked by queue_next. */
static struct hz_page *take_all(struct hz_page_queue *queue) {
    if (hz_load_rlx(&queue->head) == NULL) /* relaxed: hint, a late sender is found next time */
        return NULL;
    return hz_xchg_acq(&queue->head, NULL); /* sync: pageq-publish, partner enqueue */
}

hz_list_word hz_page_local_take(struct hz_thread_block *self, struct hz_page_queue *queue) {
    struct hz_page *page = queue->pending;
    if (page == NULL) {
        page = take_all(queue);
        if (page == NULL)
            return 0;
        hz_count(&self->counters.pop_calls, 1);
    }
    queue->pending = page->queue_next; /* read first: once the list is taken, a sender may queue the page again */
    hz_list_word word = hz_mpsc_take(remote_of(page)); /* sync: page-remote, partner hz_page_local_send */
    hz_count(&self->counters.pageq_deq, 1);
    hz_count(&self->counters.drain_total, hz_list_word_count(word));
    return word;
}

/* Takes the blocks that were sent to a page that is not queued. 0 when there are none, or when the page is queued or
   about to be: in that case the list stays for the thread that takes the queue. Under the exclusive of the page's
   shard. */
static hz_list_word take_unqueued(struct hz_page *page) {
    hz_list_word seen = hz_load_rlx(&page->remote); /* relaxed: cas */
    do {
        if (hz_list_word_count(seen) >= threshold_of(page))
            return 0;
        /* sync: page-remote, partner hz_page_local_send */
    } while (seen != 0 && !hz_cas_ar_rlx(&page->remote, &seen, 0));
    return seen;
}

static uint32_t put_word_locked(struct hz_shard *shard, struct hz_page *page, hz_list_word word) {
    struct hz_list strays = {0}; /* stays empty: all blocks are of this page */
    if (HZ_LISTS_CHECKED)
        hz_list_check(hz_load_rlx(&page->size_class), hz_list_word_head(word), hz_list_word_count(word));
    return hz_list_put_locked(shard, word, &strays);
}

static void gather(void *context, struct hz_page *page) {
    struct hz_thread_block *self = context;
    uint32_t retired = 0;
    if (hz_mpsc_count(remote_of(page)) == 0)
        return;
    struct hz_shard *shard = hz_page_shard(page); /* asked again under the lock */
    hz_shard_lock(self, shard, HZ_TO_GIVE);
    /* sync: page-publish, partners hz_page_create_locked, hz_page_retire_locked. If the page has a class and is this
     * shard's, both stay true while the lock is held */
    if (hz_load_acq(&page->size_class) != HZ_CLASS_NONE && hz_page_is_of(page, shard))
        retired = put_word_locked(shard, page, take_unqueued(page));
    hz_shard_unlock(shard);
    hz_count(&self->counters.page_retire, retired);
}

void hz_page_local_gather(struct hz_thread_block *self) {
    if (HZ_PAGE_LOCAL_THRESHOLD > 1)
        hz_pages_walk(gather, self);
}

/* Puts home what was sent to the page. The queues are empty, and a vanished thread may have been about to queue it. */
static void page_settle(void *context, struct hz_page *page) {
    (void)context;
    struct hz_shard *shard = hz_page_shard(page);
    put_word_locked(shard, page, hz_mpsc_take(remote_of(page)));
}

void hz_page_local_settle_fork(void) {
    for (struct hz_shard *shard = hz_shard_get(0); shard != NULL; shard = hz_shard_next(shard))
        for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
            struct hz_page_queue *queue = &hz_box_of(shard, size_class)->mail.pages;
            hz_store_rlx(&queue->head, NULL);
            queue->pending = NULL;
        }
    hz_pages_walk(page_settle, NULL);
}
