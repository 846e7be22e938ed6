/*
 * adopt.c - see adopt.h.
 *
 * A page changes hands in two steps, each under one lock. Under the old shard's exclusive it leaves the old list and
 * gets the new owner's number. Under the new shard's exclusive it joins the new list. In between it is "moving": on no
 * list, and never retired, whatever comes home. A thread that still reads the old owner from the page tag sends the
 * block to the old shard. There it is found to be a stray, and goes into its page under the right lock (put.c); in
 * lanes with mailboxes a refill may use it before.
 */
#include "heap/pages/adopt.h"

#include "heap/pages/page.h"
#include "heap/pages/put.h"
#include "sent.h"

enum { PAGES_AT_ONCE = 4 };

static _Atomic(uint32_t) movers; /* counter: threads that may hold moving pages, for a fork's child */

/* Makes up to PAGES_AT_ONCE pages depart. First what waits for the shard goes into its pages, and pages whose
   blocks are all home go back to the arena. */
static uint32_t depart_pages(struct hz_thread_block *self, struct hz_shard *from, unsigned size_class,
                             struct hz_page **pages) {
    uint32_t count = 0;
    if (hz_sent_may_wait(from, size_class))
        hz_sent_drain(self, from, size_class);
    hz_shard_lock(self, from, HZ_TO_GET);
    if (hz_load_rlx(&from->threads) == 0) { /* relaxed: a thread that claims the shard now finds what is left */
        /* a retired page serves any class, so retiring comes before moving */
        hz_count(&self->counters.page_retire, hz_pages_retire_all_locked(from, size_class));
        while (count < PAGES_AT_ONCE && (pages[count] = hz_load_rlx(&from->classes[size_class].partial)) != NULL)
            hz_page_depart_locked(from, pages[count++], self->shard); /* relaxed: lock */
    }
    hz_shard_unlock(from);
    return count;
}

/* Whether the shard has no threads, but has pages with free blocks or was sent some. */
static bool may_have_pages(struct hz_shard *shard, unsigned size_class) {
    return hz_load_rlx(&shard->threads) == 0 && /* relaxed, all: hints */
           (hz_load_rlx(&shard->classes[size_class].partial) != NULL || hz_sent_may_wait(shard, size_class));
}

static uint32_t move_pages(struct hz_thread_block *self, struct hz_shard *from, unsigned size_class) {
    struct hz_page *pages[PAGES_AT_ONCE];
    hz_add_rlx(&movers, 1); /* relaxed: counter, read by a fork's child */
    uint32_t count = depart_pages(self, from, size_class, pages);
    if (count > 0) {
        hz_shard_lock(self, self->shard, HZ_TO_GET);
        uint32_t retired = 0;
        for (uint32_t i = 0; i < count; i++)
            retired += hz_page_arrive_locked(self->shard, pages[i]);
        hz_shard_unlock(self->shard);
        hz_count(&self->counters.page_retire, retired);
    }
    hz_sub_rlx(&movers, 1); /* relaxed: counter */
    return count;
}

uint32_t hz_pages_adopt(struct hz_thread_block *self, unsigned size_class) {
    uint32_t count = 0;
    for (unsigned index = 0; index < HZ_NUM_SHARDS && count == 0; index++) {
        struct hz_shard *shard = hz_shard_get(index);
        if (shard == NULL)
            break; /* shards are made in order */
        if (shard != self->shard && may_have_pages(shard, size_class))
            count = move_pages(self, shard, size_class);
    }
    hz_count(&self->counters.page_adopt, count);
    return count;
}

static void settle(void *context, struct hz_page *page) {
    (void)context;
    if (page->list_state != HZ_PAGE_MOVING)
        return;
    struct hz_shard *shard = hz_shard_get(hz_load_rlx(&page->shard)); /* relaxed, all: one thread */
    hz_pagetag_owner_set(page->start, hz_load_rlx(&page->run_pages),
                         shard->index); /* some of its tags may still name the old owner */
    (void)hz_page_arrive_locked(shard, page);
}

void hz_adopt_settle_fork(void) {
    if (hz_load_rlx(&movers) == 0) /* relaxed: one thread */
        return;
    hz_pages_walk(settle, NULL);
    hz_store_rlx(&movers, 0);
}
