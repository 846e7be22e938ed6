/*
 * fence.c - see fence.h.
 */
#include "front/fence.h"

#include "base/arena/arena.h"
#include "base/arena/attributes.h"
#include "base/os/os.h"
#include "base/watch/livemap.h"
#include "front/quarantine.h"
#include "front/zero.h"
#include "heap/heap.h"
#include "heap/misuse.h"
#include "heap/query.h"
#include "heap/threads/zone.h"

#include <errno.h>
#include <string.h>

enum {
    FRONT = 32, /* least bytes of a fence: the front one is a struct fence */
    BACK = 32,
};

/* The front fence. Each word is mixed with the block's key. */
struct fence {
    uint64_t mark;
    uint64_t size;  /* that the program asked for */
    uint64_t front; /* bytes from the heap's block to the program's */
    uint64_t sum;   /* of the words before */
};

_Static_assert(sizeof(struct fence) == FRONT, "the front fence is the struct");

enum { LIVE = 0x11fe, FREED = 0xf7eed };

/* A block as its fence describes it. */
struct fenced {
    char *block;
    char *raw;     /* the heap's block */
    size_t size;   /* that the program asked for */
    size_t usable; /* of the heap's block */
};

static uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

static uint64_t key_of(const void *block) {
    return mix((uintptr_t)block ^ hz_os_seed()) | 1;
}

static struct fence *fence_of(const char *block) {
    return (struct fence *)(void *)((uintptr_t)block - FRONT);
}

static void fence_write(char *block, uint64_t mark, size_t size, size_t front) {
    uint64_t key = key_of(block);
    struct fence *fence = fence_of(block);
    fence->mark = mark ^ key;
    fence->size = size ^ key;
    fence->front = front ^ key;
    fence->sum = mix(mark + 3 * size + 5 * front + key);
}

/* False if the fence was overwritten. */
static bool fence_read(const char *block, uint64_t *mark, struct fenced *out) {
    uint64_t key = key_of(block);
    struct fence fence = *fence_of(block);
    *mark = fence.mark ^ key;
    out->size = (size_t)(fence.size ^ key);
    size_t front = (size_t)(fence.front ^ key);
    if (fence.sum != mix(*mark + 3 * out->size + 5 * front + key))
        return false;
    out->block = (char *)(uintptr_t)block;
    out->raw = out->block - front;
    return true;
}

static bool is_long(size_t usable) {
    return usable > HZ_RUN_ABOVE_BYTES;
}

/* What the program may access of a long block, with the fences; the rest of the heap's block is closed. */
static char *open_begin(const struct fenced *fenced) {
    uintptr_t page = hz_os_page_bytes();
    return (char *)(((uintptr_t)fenced->block - FRONT) & ~(page - 1));
}

static char *open_behind(const struct fenced *fenced) {
    return (char *)hz_round_up((uintptr_t)fenced->block + fenced->size, hz_os_page_bytes());
}

/* The fences' bytes beside the struct: in front of it up to the heap's block's start, and behind the program's bytes.
   In a long block only those that are accessible. */
static char *fence_begin(const struct fenced *fenced) {
    return is_long(fenced->usable) ? open_begin(fenced) : fenced->raw;
}

static char *fence_behind(const struct fenced *fenced) {
    return is_long(fenced->usable) ? open_behind(fenced) : fenced->raw + fenced->usable;
}

/* Eight bytes, which a block's fences repeat. Each is even and from 0x80 to 0xfe: no ASCII character, no zero, no small
   number and not 0xff. So the check notices a single such byte written over the fence, whatever the key. */
static uint64_t fence_bytes(const struct fenced *fenced) {
    return (key_of(fenced->block) | UINT64_C(0x8080808080808080)) & UINT64_C(0xfefefefefefefefe);
}

/* Repeats `bytes` from `begin` on; the last repetition can be cut off. */
static void fence_fill(char *begin, const char *behind, uint64_t bytes) {
    size_t left = (size_t)(behind - begin);
    for (; left > sizeof(bytes); begin += sizeof(bytes), left -= sizeof(bytes))
        memcpy(begin, &bytes, sizeof(bytes));
    memcpy(begin, &bytes, left);
}

static bool is_filled(const char *begin, const char *behind, uint64_t bytes) {
    size_t size = (size_t)(behind - begin);
    if (memcmp(begin, &bytes, hz_min(size, sizeof(bytes))) != 0)
        return false;
    return size <= sizeof(bytes) || memcmp(begin, begin + sizeof(bytes), size - sizeof(bytes)) == 0;
}

static void fences_fill(const struct fenced *fenced) {
    uint64_t bytes = fence_bytes(fenced);
    fence_fill(fence_begin(fenced), (const char *)fence_of(fenced->block), bytes);
    fence_fill(fenced->block + fenced->size, fence_behind(fenced), bytes);
}

static void fences_check(const struct fenced *fenced, const char *function) {
    uint64_t bytes = fence_bytes(fenced);
    if (!is_filled(fence_begin(fenced), (const char *)fence_of(fenced->block), bytes))
        hz_misuse(HZ_TEXT_FRONT, fenced->block, function);
    if (!is_filled(fenced->block + fenced->size, fence_behind(fenced), bytes))
        hz_misuse(HZ_TEXT_BEHIND, fenced->block, function);
}

/* Closes or opens what lies in a long block outside the accessible part. Where the system refuses, it stays as it is:
   false. */
static bool outside_close(const struct fenced *fenced) {
    char *begin = open_begin(fenced), *behind = open_behind(fenced), *last = fenced->raw + fenced->usable;
    bool done = begin == fenced->raw || hz_os_close(fenced->raw, (size_t)(begin - fenced->raw));
    return (behind == last || hz_os_close(behind, (size_t)(last - behind))) && done;
}

/* The whole system pages of the program's block. If refused, they stay as they are. */
static void make_accessible(const struct fenced *fenced) {
    uintptr_t page = hz_os_page_bytes();
    uintptr_t first = hz_round_up((uintptr_t)fenced->block, page);
    uintptr_t behind = ((uintptr_t)fenced->block + fenced->size) & ~(page - 1);
    if (first < behind)
        (void)hz_os_protect((void *)first, behind - first, true, false); /* NOLINT(performance-no-int-to-ptr) */
}

/* ---- the way out of the quarantine ---- */

/* In the quarantine a long block is its heap's block with this bit. All of it is closed. */
enum { LONG_MARK = 1 };

/* Ends the program if a block was written to while it was in the quarantine. */
static struct fenced freed_check(char *block) {
    uint64_t mark;
    struct fenced fenced;
    if (!fence_read(block, &mark, &fenced) || mark != FREED)
        hz_misuse(HZ_TEXT_AFTER_FREE, block, HZ_FOUND_LATER);
    fenced.usable = hz_query_usable(fenced.raw, HZ_FOUND_LATER);
    if (!is_filled(block, block + fenced.size, 0))
        hz_misuse(HZ_TEXT_AFTER_FREE, block, HZ_FOUND_LATER);
    fences_check(&fenced, HZ_FOUND_LATER);
    return fenced;
}

/* A block leaves the quarantine, and its memory can be used again. */
static void leave(char *entry) {
    if (entry == NULL)
        return;
    if ((uintptr_t)entry % HZ_GRANULE_BYTES != LONG_MARK) {
        hz_heap_free(freed_check(entry).raw);
        return;
    }
    char *raw = entry - LONG_MARK;
    if (hz_os_commit(raw, hz_query_usable(raw, HZ_FOUND_LATER))) /* else it is lost: the heap cannot use it again */
        hz_heap_free(raw);
}

/* A write to the block that the thread has freed last is found by its next allocation. */
static void look_at_newest(void) {
    char *entry = hz_quarantine_take_newest();
    if (entry == NULL)
        return;
    bool is_long_block = (uintptr_t)entry % HZ_GRANULE_BYTES == LONG_MARK;
    size_t usable = is_long_block ? hz_query_usable(entry - LONG_MARK, HZ_FOUND_LATER) : freed_check(entry).usable;
    leave(hz_quarantine_put(entry, usable));
}

/* ---- allocation ---- */

static void *no_room(void) {
    errno = ENOMEM;
    return NULL;
}

/* The program's block lies at the end of its system pages, or as near to it as its alignment allows. */
static char *place_long(char *raw, size_t alignment, size_t size) {
    uintptr_t page = hz_os_page_bytes();
    if (alignment > page)
        return raw + alignment;
    size_t bytes = hz_round_up(hz_max(size, 1), alignment);
    return raw + page + hz_round_up(FRONT + bytes, page) - bytes;
}

static size_t total_for(size_t alignment, size_t size) {
    size_t total = hz_max(alignment, FRONT) + size + BACK;
    if (total <= HZ_RUN_ABOVE_BYTES)
        return total;
    return hz_max(alignment, 2 * hz_os_page_bytes()) + hz_round_up(size + alignment, hz_os_page_bytes()) +
           2 * hz_os_page_bytes();
}

/* The heap's block, at a multiple of the alignment; a long one is zero. */
static char *raw_alloc(size_t alignment, size_t total) {
    return total <= HZ_RUN_ABOVE_BYTES ? hz_heap_aligned(alignment, total) : hz_malloc_run(total, true);
}

/* A block at a multiple of more than a page of ours has no fences: nothing could lie between them and the heap's block.
 */
static void *alloc_without_fences(size_t alignment, size_t size) {
    char *block = hz_heap_aligned(alignment, hz_max(size, HZ_RUN_ABOVE_BYTES + 1));
    if (block == NULL)
        return NULL;
    hz_livemap_add(block);
    return block;
}

/* Whether the live block is one of those, or a zone's: a long block with fences does not begin where the heap's block
 * does. */
static bool has_no_fences(const void *block) {
    return (hz_pagetag_class(block) == HZ_CLASS_LARGE && (uintptr_t)block % HZ_PAGE_BYTES == 0) || hz_zone_has(block);
}

void *hz_fence_alloc(size_t alignment, size_t size) {
    look_at_newest();
    if (size > PTRDIFF_MAX - HZ_SEGMENT_BYTES || alignment > PTRDIFF_MAX - HZ_SEGMENT_BYTES - size)
        return no_room();
    void *nothing = size == 0 && alignment <= HZ_GRANULE_BYTES ? hz_zero_alloc() : NULL;
    if (nothing != NULL)
        return nothing;
    if (alignment > HZ_PAGE_BYTES)
        return alloc_without_fences(alignment, size);
    alignment = hz_max(alignment, HZ_GRANULE_BYTES);
    char *raw = raw_alloc(alignment, total_for(alignment, size));
    if (raw == NULL)
        return NULL;
    struct fenced fenced = {.raw = raw, .size = size, .usable = hz_query_usable(raw, HZ_IN_USABLE_SIZE)};
    if (is_long(fenced.usable)) {
        fenced.block = place_long(raw, alignment, size);
        (void)outside_close(&fenced);
    } else {
        fenced.block = raw + hz_max(alignment, FRONT);
        memset(fenced.block, 0, size);
    }
    fences_fill(&fenced);
    fence_write(fenced.block, LIVE, size, (size_t)(fenced.block - raw));
    hz_livemap_add(fenced.block);
    return fenced.block;
}

/* ---- free ---- */

static HZ_NORETURN void fail_not_live(const void *block, enum hz_livemap_answer answer, const char *function) {
    uint64_t mark;
    struct fenced fenced;
    if (answer == HZ_LIVEMAP_FOREIGN)
        hz_misuse(HZ_TEXT_FOREIGN, block, function);
    unsigned size_class = hz_pagetag_class(block);
    if (size_class == HZ_CLASS_NONE) /* inside a long block, or its page was given back */
        hz_misuse(HZ_TEXT_INTERIOR, block, function);
    if ((uintptr_t)block % HZ_GRANULE_BYTES != 0)
        hz_misuse(HZ_TEXT_INTERIOR, block, function);
    /* what was a long block may be closed, so it is not read */
    bool was_freed =
        size_class == HZ_CLASS_LARGE || hz_zone_has(block) || (fence_read(block, &mark, &fenced) && mark == FREED);
    hz_misuse(was_freed ? HZ_TEXT_DOUBLE_FREE : HZ_TEXT_INTERIOR, block, function);
}

/* Reads a live block's fence; ends the program if it was overwritten. */
static struct fenced live_get(const void *block, const char *function) {
    uint64_t mark;
    struct fenced fenced;
    if (!fence_read(block, &mark, &fenced) || mark != LIVE)
        hz_misuse(HZ_TEXT_FRONT, block, function);
    fenced.usable = hz_query_usable(fenced.raw, function);
    return fenced;
}

void hz_fence_free(void *block, const char *function) {
    if (block == NULL || hz_zero_free(block, function))
        return;
    enum hz_livemap_answer answer = hz_livemap_remove(block);
    if (answer != HZ_LIVEMAP_OK)
        fail_not_live(block, answer, function);
    if (has_no_fences(block)) {
        hz_heap_free(block);
        return;
    }
    struct fenced fenced = live_get(block, function);
    if (hz_attributes_are_set()) /* the program may have protected it */
        make_accessible(&fenced);
    fences_check(&fenced, function);
    if (is_long(fenced.usable)) {
        (void)hz_os_close(open_begin(&fenced), (size_t)(open_behind(&fenced) - open_begin(&fenced)));
        leave(hz_quarantine_put(fenced.raw + LONG_MARK, fenced.usable));
        return;
    }
    memset(block, 0, fenced.size);
    fence_write(block, FREED, fenced.size, (size_t)(fenced.block - fenced.raw));
    leave(hz_quarantine_put(block, fenced.usable));
}

size_t hz_fence_size(const void *block, const char *function) {
    if (hz_zero_has(block))
        return 0;
    enum hz_livemap_answer answer = hz_livemap_find(block);
    if (answer != HZ_LIVEMAP_OK)
        fail_not_live(block, answer, function);
    if (has_no_fences(block))
        return hz_query_usable(block, function);
    return live_get(block, function).size;
}

void hz_fence_drain(void) {
    for (void *block; (block = hz_quarantine_take()) != NULL;)
        leave(block);
}
