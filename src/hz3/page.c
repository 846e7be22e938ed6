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
    BLOCKS_MIN = 4,        /* blocks a run should hold at least ... */
    WASTE_SHARE_MAX = 16,  /* ... and at most 1/16 of it may be left over */
    RECIPROCAL_SHIFT = 42, /* exact for offsets below 2^42 / block_bytes; runs are below 2^22, products below 2^60 */
};

static _Atomic(size_t) class_blocks[HZ3_CLASS_COUNT]; /* counter: changes when pages come and go */

size_t hz3_class_blocks(unsigned size_class) {
    return hz_load_rlx(&class_blocks[size_class]); /* relaxed: counter */
}

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

static void *block_at(const struct hz3_page *page, uint32_t bit) {
    uint32_t index = bit + page->rotation;
    index -= index >= page->capacity ? page->capacity : 0;
    return page->start + (size_t)index * page->block_bytes;
}

/* The bit of a block; ends the program if the address is not the start of one. */
static uint32_t block_bit(const struct hz3_page *page, const void *block) {
    uint64_t offset = (uint64_t)((const char *)block - page->start);
    uint32_t index = (uint32_t)(offset * page->reciprocal >> RECIPROCAL_SHIFT);
    if (HZ_UNLIKELY((uint64_t)index * page->block_bytes != offset || index >= page->capacity))
        hz_fail_pointer(HZ_TEXT_INTERIOR, block);
    return index >= page->rotation ? index - page->rotation : index + page->capacity - page->rotation;
}

static uint32_t word_count(const struct hz3_page *page) {
    return (page->capacity + 63) / 64;
}

/* Takes up to `want` blocks, lowest bits first; a bin hands the last of `out` out first, so that is the lowest. */
static uint32_t page_take(struct hz3_page *page, void **out, uint32_t want) {
    uint32_t free_count = hz_load_rlx(&page->free_count); /* relaxed: lock */
    uint32_t count = (uint32_t)hz_min(free_count, want);
    uint32_t word = page->first_word;
    for (uint32_t left = count; left > 0;) {
        uint64_t bits = page->free_bits[word];
        for (; bits != 0 && left > 0; bits &= bits - 1)
            out[--left] = block_at(page, word * 64 + (uint32_t)__builtin_ctzll(bits));
        page->free_bits[word] = bits; /* fork: taken before it is in any bin */
        word += bits == 0 && left > 0;
    }
    page->first_word = word;
    hz_store_rlx(&page->free_count, free_count - count); /* relaxed: lock */
    return count;
}

static void page_put(struct hz3_page *page, void *block) {
    uint32_t bit = block_bit(page, block);
    uint64_t mask = UINT64_C(1) << (bit % 64);
    if (HZ_UNLIKELY((page->free_bits[bit / 64] & mask) != 0))
        hz_fail_pointer(HZ_TEXT_DOUBLE_FREE, block);
    page->free_bits[bit / 64] |= mask;
    page->first_word = (uint32_t)hz_min(page->first_word, bit / 64);
    hz_store_rlx(&page->free_count, hz_load_rlx(&page->free_count) + 1); /* relaxed: lock */
}

uint32_t hz3_pages_take_locked(struct hz3_shard *shard, unsigned size_class, void **out, uint32_t want) {
    uint32_t got = 0;
    struct hz3_page *page;
    while (got < want && (page = shard->classes[size_class].partial) != NULL) {
        got += page_take(page, out + got, want - got);
        if (hz_load_rlx(&page->free_count) == 0) /* relaxed: lock */
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
    hz_store_rlx(&page->shard, (uint8_t)shard->index); /* relaxed, all: published by the class */
    hz_store_rlx(&page->run_pages, (uint8_t)run.pages);
    page->block_bytes = (uint32_t)block_bytes;
    page->capacity = (uint32_t)(((size_t)run.pages << HZ_PAGE_LOG2) / block_bytes);
    page->reciprocal = ((UINT64_C(1) << RECIPROCAL_SHIFT) + block_bytes - 1) / block_bytes;
    /* some odd stride over pages and classes; any spread does */
    page->rotation = (uint32_t)(((uintptr_t)start >> HZ_PAGE_LOG2) * 7 + size_class * 5) % page->capacity;
    page->start = start;
    page->first_word = 0;
    for (uint32_t word = 0; word < word_count(page); word++)
        page->free_bits[word] = UINT64_MAX;
    if (page->capacity % 64 != 0)
        page->free_bits[page->capacity / 64] = (UINT64_C(1) << (page->capacity % 64)) - 1;
    hz_store_rlx(&page->free_count, page->capacity);
    hz_add_rlx(&class_blocks[size_class], page->capacity); /* relaxed: counter */
    unsigned bin = hz3_class_is_home(size_class) ? 0 : size_class * (unsigned)sizeof(struct hz3_bin);
    hz_pagetag_set(start, run.pages, bin, size_class, shard->index); /* sync: tag-publish */
    /* sync: page-publish, partner hz3_pages_walk. After the tags: a fork's child relinks what has a class, and must be
     * able to free its blocks */
    hz_store_rel(&page->size_class, (uint8_t)size_class);
    list_add(shard, page);
    return true;
}

static void page_retire(struct hz3_shard *shard, struct hz3_page *page) {
    unsigned size_class = hz_load_rlx(&page->size_class); /* relaxed: lock */
    if (page->listed)
        list_remove(shard, page);
    hz_store_rel(&page->size_class,
                 HZ_CLASS_NONE); /* sync: page-publish; first, so that a fork never relinks a page half gone */
    hz_signal_fence();
    hz_sub_rlx(&class_blocks[size_class], page->capacity);        /* relaxed: counter */
    hz_pagetag_clear(page->start, hz_load_rlx(&page->run_pages)); /* relaxed: lock */
    hz_arena_run_free(hz_segment_get(page->start), hz_segment_page(page->start));
}

static bool all_home(struct hz3_page *page) {
    return hz_load_rlx(&page->free_count) == page->capacity; /* relaxed: lock */
}

uint32_t hz3_page_put_locked(struct hz3_shard *shard, void *block) {
    struct hz3_page *page = hz3_page_of(block);
    hz_assert(hz_load_rlx(&page->shard) == shard->index); /* relaxed: lock */
    page_put(page, block);
    if (!page->listed)
        list_add(shard, page);
    /* one page per class stays, so that a class at the edge does not make and retire the same page for ever */
    if (!all_home(page) || (page->next == NULL && page->previous == NULL))
        return 0;
    page_retire(shard, page);
    return 1;
}

uint32_t hz3_pages_put_list_locked(struct hz3_shard *shard, void *head, uint32_t count) {
    uint32_t retired = 0;
    for (void *block = head, *next; count > 0; block = next, count--) {
        next = count > 1 ? hz_block_next(block) : NULL; /* before the block is home: its page may go */
        retired += hz3_page_put_locked(shard, block);
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
    if (hz_load_rlx(&page->shard) != shard->index) /* relaxed, all: one thread */
        return;
    uint32_t count = 0;
    for (uint32_t word = 0; word < word_count(page); word++)
        count += (uint32_t)__builtin_popcountll(page->free_bits[word]);
    hz_store_rlx(&page->free_count, count);
    page->first_word = 0;
    page->listed = false;
    if (count > 0)
        list_add(shard, page);
}

void hz3_pages_relink_locked(struct hz3_shard *shard) {
    for (unsigned size_class = 1; size_class < HZ3_CLASS_COUNT; size_class++)
        shard->classes[size_class].partial = NULL;
    hz3_pages_walk(relink, shard);
}
