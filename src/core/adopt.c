/*
 * adopt.c - pages of shards whose threads have all ended go to a shard that needs some, before new ones are made.
 * Called by shard.c, on the way to a new page.
 *
 * A page changes hands in two steps, each under one lock: off the old shard's list and renamed under the old shard's
 * exclusive; onto the new one's list under that one's. In between it is "moving": on no list, and kept whatever
 * comes home. Who still reads the old owner from the page tag sends a block to the old shard, where it is
 * found to be a stray (send.c) or is simply used.
 */
#include "core/core.h"

enum { PAGES_AT_ONCE = 4 };

static _Atomic(uint32_t) movers; /* counter: threads that may hold moving pages; asked by a fork's child */

/* Detaches up to PAGES_AT_ONCE pages. What waits in the shard's mailbox goes into its pages first, and pages
   that are free then go back to the arena. */
static uint32_t take_pages(struct hz_thread_block *self, struct hz_shard *from, unsigned size_class,
                           struct hz_page **pages) {
    uint32_t count = 0;
    hz_shard_lock(self, from, HZ_TO_GET);
    struct hz_list strays = {0};
    if (hz_load_rlx(&from->threads) == 0) { /* relaxed: a thread that claims it now finds what is left */
        strays = hz_shard_drain_locked(self, from, size_class);
        hz_count(&self->counters.page_retire, hz_pages_retire_all_locked(from, size_class)); /* for any class */
        while (count < PAGES_AT_ONCE && (pages[count] = hz_load_rlx(&from->classes[size_class].partial)) != NULL)
            hz_page_detach_locked(from, pages[count++], self->shard); /* relaxed: lock */
    }
    hz_shard_unlock(from);
    hz_blocks_put_home(self, &strays);
    return count;
}

/* Something to give, or something sent that would be. */
static bool may_have_pages(struct hz_shard *shard, unsigned size_class) {
    return hz_load_rlx(&shard->threads) == 0 && /* relaxed, all: hints */
           (hz_load_rlx(&shard->classes[size_class].partial) != NULL || hz_shard_was_sent(shard, size_class));
}

static uint32_t move_pages(struct hz_thread_block *self, struct hz_shard *from, unsigned size_class) {
    struct hz_page *pages[PAGES_AT_ONCE];
    hz_add_rlx(&movers, 1); /* relaxed: counter, for this thread's copy in a child */
    uint32_t count = take_pages(self, from, size_class, pages);
    if (count > 0) {
        hz_shard_lock(self, self->shard, HZ_TO_GET);
        uint32_t retired = 0;
        for (uint32_t i = 0; i < count; i++)
            retired += hz_page_attach_locked(self->shard, pages[i]);
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
    struct hz_shard *shard = hz_shard_get(hz_load_rlx(&page->shard));               /* relaxed, all: one thread */
    hz_pagetag_owner_set(page->start, hz_load_rlx(&page->run_pages), shard->index); /* may be half renamed */
    (void)hz_page_attach_locked(shard, page);
}

void hz_adopt_after_fork(void) {
    if (hz_load_rlx(&movers) == 0) /* relaxed: one thread */
        return;
    hz_pages_walk(settle, NULL);
    hz_store_rlx(&movers, 0);
}
