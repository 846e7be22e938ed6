/*
 * page_first.c - a prototype for one question: how much does malloc cost straight from a page, without a bin in front?
 * (docs/decisions/bins.md#bin-or-page). The library is preloaded into the programs of bench/workloads. It is not for
 * real use: it returns nothing to the system, does not notice misuse, and never reuses the pages of an ended thread.
 *
 *   malloc(n): page = current page of n's class;  no free block?  -> slow path (remote frees, carve, next page)
 *   free(p):   page = table[p];  the thread's own?  -> its free list;  otherwise -> the page's remote list
 */
#include "base/os/compiler.h"
#include "heap/sizeclass.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    CHUNK_LOG2 = 16,
    CHUNK_BYTES = 1 << CHUNK_LOG2,
    ARENA_LOG2 = 34,
    SMALL_CHUNKS = 1, /* 64 KiB per page for blocks of up to 2 KiB, as in hz4 */
    MID_CHUNKS = 8,
    CARVE_COUNT = 16, /* blocks carved at a time, so that memory is touched only shortly before it is used */
};

struct page {
    void *free; /* owner */
    uint32_t used;
    uint32_t owner; /* a thread's id */
    char *fresh;    /* owner; start of the part that was never used */
    char *end;
    size_t block_bytes;
    struct page *next; /* owner: a ring of the thread's pages of the class */
    _Atomic(void *) remote;
};

struct heap {
    struct page *current[HZ_CLASS_COUNT];
    uint32_t id;
    uint32_t meta_count;
    struct page *metas;
};

static struct page page_none; /* a page without blocks: the current page of classes that have none yet */

#define NONE4  &page_none, &page_none, &page_none, &page_none
#define NONE32 NONE4, NONE4, NONE4, NONE4, NONE4, NONE4, NONE4, NONE4
static struct heap heap_none = {
    .current = {NONE32, NONE32, NONE32, NONE32, NONE32, NONE32, NONE4, NONE4, NONE4, NONE4, &page_none},
};
_Static_assert(HZ_CLASS_COUNT == 6 * 32 + 17, "heap_none names a page for every class");

static struct page *table[(size_t)1 << (ARENA_LOG2 - CHUNK_LOG2)];
static char *arena;
static _Atomic(size_t) arena_used;
static _Atomic(uint32_t) thread_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static HZ_TLS struct heap *self = &heap_none;

static void arena_make(void) {
    void *made =
        mmap(NULL, (size_t)1 << ARENA_LOG2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED)
        abort();
    arena = made;
}

static char *chunks_get(size_t bytes) {
    pthread_once(&once, arena_make);
    size_t rounded = (bytes + CHUNK_BYTES - 1) & ~(size_t)(CHUNK_BYTES - 1);
    size_t at = atomic_fetch_add_explicit(&arena_used, rounded, memory_order_relaxed);
    if (at + rounded <= (size_t)1 << ARENA_LOG2)
        return arena + at;
    errno = ENOMEM;
    return NULL;
}

static struct page *meta_get(void) {
    if (self->meta_count == 0) {
        self->metas = (struct page *)(void *)chunks_get(CHUNK_BYTES);
        if (self->metas == NULL)
            return NULL;
        self->meta_count = CHUNK_BYTES / sizeof(struct page);
    }
    return &self->metas[--self->meta_count];
}

static struct page *page_make(unsigned size_class) {
    size_t bytes = (size_t)(size_class <= HZ_LINEAR_CLASSES ? SMALL_CHUNKS : MID_CHUNKS) * CHUNK_BYTES;
    struct page *page = meta_get();
    char *start = page != NULL ? chunks_get(bytes) : NULL;
    if (start == NULL)
        return NULL;
    page->owner = self->id;
    page->block_bytes = hz_class_bytes(size_class);
    page->fresh = start;
    page->end = start + bytes / page->block_bytes * page->block_bytes;
    for (size_t at = 0; at < bytes; at += CHUNK_BYTES)
        table[(size_t)(start + at - arena) >> CHUNK_LOG2] = page;
    return page;
}

static bool has_blocks(struct page *page) {
    if (page->free == NULL && atomic_load_explicit(&page->remote, memory_order_relaxed) != NULL) {
        page->free = atomic_exchange_explicit(&page->remote, NULL, memory_order_acquire);
        for (void *block = page->free; block != NULL; block = *(void **)block)
            page->used--;
    }
    for (int i = 0; page->free == NULL || (i > 0 && i < CARVE_COUNT); i++) {
        if (page->fresh == page->end)
            break;
        *(void **)(void *)page->fresh = page->free;
        page->free = page->fresh;
        page->fresh += page->block_bytes;
    }
    return page->free != NULL;
}

static bool heap_make(void) {
    struct heap *made = (struct heap *)(void *)chunks_get(sizeof(struct heap));
    if (made == NULL)
        return false;
    *made = heap_none;
    made->id = atomic_fetch_add_explicit(&thread_count, 1, memory_order_relaxed) + 1;
    self = made;
    return true;
}

static HZ_NOINLINE void *malloc_slow(size_t size) {
    if (size > HZ_RUN_ABOVE_BYTES)
        return chunks_get(size);
    if (self == &heap_none && !heap_make())
        return NULL;
    unsigned size_class = hz_class_of(size);
    struct page *first = self->current[size_class];
    struct page *page = first;
    bool found = false;
    while (first != &page_none && !(found = has_blocks(page)) && page->next != first)
        page = page->next;
    if (!found) {
        page = page_make(size_class);
        if (page == NULL)
            return NULL;
        page->next = first == &page_none ? page : first->next;
        if (first != &page_none)
            first->next = page;
        (void)has_blocks(page);
    }
    self->current[size_class] = page;
    void *block = page->free;
    page->free = *(void **)block;
    page->used++;
    return block;
}

HZ_EXPORT void *malloc(size_t size) {
    if (HZ_UNLIKELY(size > HZ_RUN_ABOVE_BYTES))
        return malloc_slow(size);
    struct page *page = self->current[size <= HZ_LINEAR_MAX ? (size + 15) / 16 : hz_class_of_medium(size)];
    void *block = page->free;
    if (HZ_UNLIKELY(block == NULL))
        return malloc_slow(size);
    page->free = *(void **)block;
    page->used++;
    return block;
}

HZ_EXPORT void free(void *block) {
    size_t at = (size_t)((char *)block - arena) >> CHUNK_LOG2;
    struct page *page = at < sizeof(table) / sizeof(table[0]) ? table[at] : NULL;
    if (HZ_UNLIKELY(page == NULL))
        return;
    if (HZ_LIKELY(page->owner == self->id)) {
        *(void **)block = page->free;
        page->free = block;
        page->used--;
        return;
    }
    void *seen = atomic_load_explicit(&page->remote, memory_order_relaxed);
    do
        *(void **)block = seen;
    while (!atomic_compare_exchange_weak_explicit(&page->remote, &seen, block, memory_order_release,
                                                  memory_order_relaxed));
}

HZ_EXPORT void *calloc(size_t count, size_t bytes) {
    void *block = malloc(count * bytes);
    return block != NULL ? memset(block, 0, count * bytes) : NULL;
}

HZ_EXPORT void *realloc(void *block, size_t size) {
    void *moved = malloc(size);
    if (moved == NULL || block == NULL)
        return moved;
    struct page *page = table[(size_t)((char *)block - arena) >> CHUNK_LOG2];
    memcpy(moved, block, page != NULL ? hz_min(size, page->block_bytes) : size);
    free(block);
    return moved;
}
