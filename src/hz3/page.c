/*
 * page.c - pages: runs cut into blocks of one class, and the lists of those that have something to give. Called by
 * shard.c under the shard's exclusive.
 *
 * Blocks are carved lazily: a page's memory is touched when its blocks are used, not when they are handed out. Carving
 * starts at a block that differs from page to page and goes round, so that the first blocks of many pages do not fall
 * into the same cache sets. Edge "page-publish": a page's description is written before its class, which walkers read
 * with acquire.
 */
#include "hz3/hz3.h"

enum {
    BLOCKS_MIN = 4,       /* blocks a run should hold at least ... */
    WASTE_SHARE_MAX = 16, /* ... and at most 1/16 of it may be left over */
};

static struct hz3_page *page_at(struct hz_segment *segment, unsigned page) {
    return (struct hz3_page *)(void *)segment->meta[page].bytes;
}

struct hz3_page *hz3_page_of(const void *block) {
    struct hz_segment *segment = hz_segment_get(block);
    return page_at(segment, segment->run_first[hz_segment_page(block)]);
}

static unsigned run_pages_for(size_t block_bytes) {
    for (unsigned pages = 1; pages < HZ_RUN_PAGES_MAX; pages++) {
        size_t bytes = (size_t)pages << HZ_PAGE_LOG2;
        if (bytes >= BLOCKS_MIN * block_bytes && bytes % block_bytes <= bytes / WASTE_SHARE_MAX)
            return pages;
    }
    return HZ_RUN_PAGES_MAX;
}

static bool has_something(struct hz3_page *page) {
    return hz_load_rlx(&page->free_count) > 0 || hz_load_rlx(&page->carved) < page->capacity; /* relaxed: lock */
}

static void list_add(struct hz3_shard *shard, struct hz3_page *page) {
    struct hz3_page **head = &shard->classes[hz_load_rlx(&page->size_class)].partial; /* relaxed: const */
    page->previous = NULL;
    page->next = *head;
    if (*head != NULL)
        (*head)->previous = page;
    *head = page;
    page->listed = true;
}

static void list_remove(struct hz3_shard *shard, struct hz3_page *page) {
    struct hz3_page **head = &shard->classes[hz_load_rlx(&page->size_class)].partial; /* relaxed: const */
    if (page->previous != NULL)
        page->previous->next = page->next;
    else
        *head = page->next;
    if (page->next != NULL)
        page->next->previous = page->previous;
    page->listed = false;
}

/* Takes from the page's free list; the list is left valid before any block is used. */
static uint32_t take_free(struct hz3_page *page, void **out, uint32_t want) {
    uint32_t free_count = hz_load_rlx(&page->free_count); /* relaxed: lock */
    uint32_t count = (uint32_t)hz_min(free_count, want);
    void *block = page->free_list;
    for (uint32_t i = 0; i < count; i++) {
        void *next = hz_block_next(block);
        HZ_PREFETCH(next);
        out[i] = block;
        block = next;
    }
    page->free_list = block;
    hz_signal_fence();                                   /* fork: the list never holds what has left it */
    hz_store_rlx(&page->free_count, free_count - count); /* relaxed: lock */
    return count;
}

/* Cuts new blocks; addresses rise in the order in which a bin will hand them out (last first). */
static uint32_t take_uncarved(struct hz3_page *page, void **out, uint32_t want) {
    uint32_t carved = hz_load_rlx(&page->carved); /* relaxed: lock */
    uint32_t count = (uint32_t)hz_min(page->capacity - carved, want);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = page->carve_first + carved + i;
        index -= index >= page->capacity ? page->capacity : 0;
        out[count - 1 - i] = page->start + (size_t)index * page->block_bytes;
    }
    hz_store_rlx(&page->carved, carved + count); /* relaxed: lock */
    return count;
}

uint32_t hz3_pages_take_locked(struct hz3_shard *shard, unsigned size_class, void **out, uint32_t want) {
    uint32_t got = 0;
    struct hz3_page *page;
    while (got < want && (page = shard->classes[size_class].partial) != NULL) {
        got += take_free(page, out + got, want - got);
        if (got < want)
            got += take_uncarved(page, out + got, want - got);
        if (!has_something(page))
            list_remove(shard, page);
    }
    return got;
}

bool hz3_page_create_locked(struct hz3_shard *shard, unsigned size_class) {
    size_t block_bytes = hz_class_bytes(size_class);
    struct hz_run run;
    if (!hz_arena_run_alloc(run_pages_for(block_bytes), 1, &run))
        return false;
    struct hz3_page *page = page_at(run.segment, run.first);
    char *start = hz_segment_page_address(run.segment, run.first);
    page->shard = (uint8_t)shard->index;
    page->run_pages = (uint8_t)run.pages;
    page->block_bytes = (uint32_t)block_bytes;
    page->capacity = (uint32_t)(((size_t)run.pages << HZ_PAGE_LOG2) / block_bytes);
    /* some odd stride over pages and classes; any spread does */
    page->carve_first = (uint32_t)(((uintptr_t)start >> HZ_PAGE_LOG2) * 7 + size_class * 5) % page->capacity;
    page->start = start;
    page->free_list = NULL;
    hz_store_rlx(&page->free_count, 0); /* relaxed: published by the class */
    hz_store_rlx(&page->carved, 0);
    hz_store_rel(&page->size_class, (uint8_t)size_class); /* sync: page-publish, partner hz3_pages_walk */
    unsigned bin = hz3_class_is_home(size_class) ? 0 : size_class * (unsigned)sizeof(struct hz3_bin);
    hz_pagetag_set(start, run.pages, bin, size_class, shard->index); /* sync: tag-publish */
    list_add(shard, page);
    return true;
}

static void page_retire(struct hz3_shard *shard, struct hz3_page *page) {
    if (page->listed)
        list_remove(shard, page);
    hz_store_rel(&page->size_class,
                 HZ_CLASS_NONE); /* sync: page-publish; first, so that a fork never relinks a page half gone */
    hz_signal_fence();
    hz_pagetag_clear(page->start, page->run_pages);
    hz_arena_run_free(hz_segment_get(page->start), hz_segment_page(page->start));
}

static bool all_home(struct hz3_page *page) {
    return hz_load_rlx(&page->free_count) == hz_load_rlx(&page->carved); /* relaxed: lock */
}

uint32_t hz3_pages_put_locked(struct hz3_shard *shard, unsigned size_class, void *head, uint32_t count) {
    uint32_t retired = 0;
    for (void *block = head, *next; count > 0; block = next, count--) {
        next = count > 1 ? hz_block_next(block) : NULL;
        struct hz3_page *page = hz3_page_of(block);
        hz_assert(page->shard == shard->index && hz_load_rlx(&page->size_class) == size_class);
        hz_assert((size_t)((char *)block - page->start) % page->block_bytes == 0);
        hz_block_link(block, page->free_list);
        hz_signal_fence(); /* fork: a linked block is on the list, or not at all */
        page->free_list = block;
        hz_signal_fence();
        hz_store_rlx(&page->free_count, hz_load_rlx(&page->free_count) + 1); /* relaxed: lock */
        if (!page->listed)
            list_add(shard, page);
        /* one page per class stays, so that a class at the edge does not make and retire the same page for ever */
        if (all_home(page) && (page->next != NULL || page->previous != NULL)) {
            page_retire(shard, page);
            retired++;
        }
    }
    return retired;
}

uint32_t hz3_pages_retire_all_locked(struct hz3_shard *shard, unsigned size_class) {
    uint32_t retired = 0;
    for (struct hz3_page *page = shard->classes[size_class].partial, *next; page != NULL; page = next) {
        next = page->next;
        if (all_home(page)) {
            page_retire(shard, page);
            retired++;
        }
    }
    return retired;
}

void hz3_pages_walk(void (*visit)(void *context, struct hz3_page *page), void *context) {
    uint32_t count = hz_arena_segment_count();
    for (uint32_t index = 0; index < count; index++) {
        struct hz_segment *segment = hz_arena_segment(index);
        if (segment == NULL ||
            hz_load_rlx(&segment->kind) != HZ_SEGMENT_PAGED) /* relaxed: acquired by hz_arena_segment */
            continue;
        for (unsigned page = 0; page < HZ_SEGMENT_PAGES; page++)
            if (hz_load_acq(&page_at(segment, page)->size_class) != HZ_CLASS_NONE) /* sync: page-publish */
                visit(context, page_at(segment, page));
    }
}

static void relink(void *context, struct hz3_page *page) {
    struct hz3_shard *shard = context;
    if (page->shard != shard->index)
        return;
    uint32_t count = 0;
    for (void *block = page->free_list; block != NULL && count < page->capacity; block = hz_block_next(block))
        count++;
    hz_store_rlx(&page->free_count, count); /* relaxed: one thread */
    page->listed = false;
    if (has_something(page))
        list_add(shard, page);
}

void hz3_pages_relink_locked(struct hz3_shard *shard) {
    for (unsigned size_class = 1; size_class < HZ3_CLASS_COUNT; size_class++)
        shard->classes[size_class].partial = NULL;
    hz3_pages_walk(relink, shard);
}
