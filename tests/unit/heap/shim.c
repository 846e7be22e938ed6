/*
 * shim.c - see shim.h. Nothing here decides anything.
 */
#include "unit/heap/shim.h"

#include "heap/heap.h"
#include "heap/pages/page.h"
#include "heap/pages/page_local.h"
#include "heap/thread.h"

#include <stdlib.h>
#include <string.h>

void unit_free(void *block) {
    hz_heap_free(block);
}

/* ---- thread.c ---- */

struct hz_thread_block *unit_self(void) {
    if (!hz_is_attached(hz_self) && hz_thread_attach() == NULL)
        abort();
    return hz_self;
}

bool unit_is_attached(void) {
    return hz_is_attached(hz_self);
}

struct hz_shard *unit_thread_shard(const struct hz_thread_block *thread) {
    return thread->shard;
}

void unit_thread_shard_set(struct hz_thread_block *thread, struct hz_shard *shard) {
    thread->shard = shard;
    thread->owner = (uint8_t)shard->index;
}

uint32_t unit_bin_count(struct hz_thread_block *thread, unsigned size_class) {
    return hz_bin_held(&thread->cache, size_class);
}

uint32_t unit_bin_room(struct hz_thread_block *thread, unsigned size_class) {
    return hz_bin_room(&thread->cache, size_class);
}

void unit_bin_room_set(struct hz_thread_block *thread, unsigned size_class, uint32_t room) {
    hz_bin_room_set(&thread->cache, size_class, room);
}

void unit_bins_grow(struct hz_thread_block *thread) {
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        hz_bin_room_set(&thread->cache, size_class, hz_bin_capacity(size_class));
}

void unit_bin_newest_set(struct hz_thread_block *thread, unsigned size_class, void *block) {
    thread->cache.bins[size_class].newest = block;
}

struct unit_counters unit_counters_of(struct hz_thread_block *thread) {
    struct hz_counters *counters = &thread->counters;
#define COUNTER(group, field, name, kind, text) .field = hz_load_rlx(&counters->field),
    return (struct unit_counters){
#include "heap/counters.def"
    };
#undef COUNTER
}

struct hz_registered *unit_registered(struct hz_thread_block *thread) {
    return &thread->registered;
}

/* ---- the remote buffer, and the table that groups what goes home ---- */

const uint32_t unit_home_count = HZ_HOME_COUNT;
const uint32_t unit_groups = HZ_GROUPS;

uint32_t unit_remote_count(struct hz_thread_block *thread) {
    return hz_bin_held(&thread->cache, HZ_REMOTE_BIN);
}

void unit_remote_push(struct hz_thread_block *thread, void *block) {
    struct hz_bin *bin = &thread->cache.bins[HZ_REMOTE_BIN];
    uint32_t top = hz_load_rlx(&bin->top);
    if (top == bin->limit)
        abort();
    hz_bin_push(&thread->cache, bin, top, block);
}

void unit_groups_epoch_set(struct hz_thread_block *thread, uint32_t epoch) {
    thread->groups.epoch = epoch;
}

/* ---- shard.c ---- */

uint32_t unit_shard_index(const struct hz_shard *shard) {
    return shard->index;
}

uint32_t unit_shard_threads(struct hz_shard *shard) {
    return hz_load_rlx(&shard->threads);
}

void unit_shard_threads_set(struct hz_shard *shard, uint32_t threads) {
    hz_store_rlx(&shard->threads, threads);
}

struct hz_lock *unit_shard_exclusive(struct hz_shard *shard) {
    return &shard->exclusive;
}

struct hz_mailbox *unit_mailbox(struct hz_shard *shard, unsigned size_class) {
    return &shard->classes[size_class].mail;
}

uint32_t unit_carry_count(struct hz_shard *shard, unsigned size_class) {
    return hz_list_word_count(hz_load_rlx(&shard->classes[size_class].carry));
}

/* ---- mail.c, pageq.c ---- */

/* Zeroed, and on lines of its own, as inside a shard. */
static void *line_alloc(size_t bytes) {
    bytes = hz_round_up(bytes, HZ_CACHE_LINE_BYTES);
    void *made = aligned_alloc(HZ_CACHE_LINE_BYTES, bytes);
    if (made == NULL)
        abort();
    return memset(made, 0, bytes);
}

struct hz_mailbox *unit_mailbox_new(void) {
    return line_alloc(sizeof(struct hz_mailbox));
}

struct hz_page_queue *unit_pageq_new(void) {
    return line_alloc(sizeof(struct hz_page_queue));
}

struct hz_page_queue *unit_mailbox_pages(struct hz_mailbox *mail) {
    return &mail->pages;
}

struct hz_page *unit_pageq_head_set(struct hz_page_queue *queue, struct hz_page *page) {
    struct hz_page *before = hz_load_rlx(&queue->head);
    hz_store_rlx(&queue->head, page);
    return before;
}

hz_list_word unit_page_remote_take(struct hz_page *page) {
    return hz_mpsc_take(&page->remote);
}

/* ---- page.c ---- */

struct unit_page unit_page_of(struct hz_page *page) {
    return (struct unit_page){
        .size_class = hz_load_acq(&page->size_class),
        .shard = hz_load_rlx(&page->shard),
        .run_pages = hz_load_rlx(&page->run_pages),
        .list_state = (enum unit_page_list_state)page->list_state,
        .block_bytes = page->block_bytes,
        .capacity = page->capacity,
        .rotation = page->rotation,
        .free_count = hz_load_rlx(&page->free_count),
        .remote_count = hz_mpsc_count(&page->remote),
        .start = page->start,
        .next = page->next,
    };
}

_Static_assert((int)UNIT_PAGE_UNLISTED == HZ_PAGE_UNLISTED && (int)UNIT_PAGE_LISTED == HZ_PAGE_LISTED &&
                   (int)UNIT_PAGE_MOVING == HZ_PAGE_MOVING,
               "the same states");

struct hz_page *unit_partial(struct hz_shard *shard, unsigned size_class) {
    return hz_load_rlx(&shard->classes[size_class].partial);
}

void unit_partial_forget(struct hz_shard *shard, unsigned size_class) {
    hz_store_rlx(&shard->classes[size_class].partial, NULL);
}

void unit_page_free_count_set(struct hz_page *page, uint32_t count) {
    hz_store_rlx(&page->free_count, count);
}
