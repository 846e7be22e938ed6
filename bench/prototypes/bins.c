/*
 * bins.c - a prototype for three questions about bins in front of pages. Each question is a macro, set by the build
 * (cmake/workloads.cmake). The library is preloaded into the programs of bench/workloads. It is not for real use: it
 * returns nothing to the system, never reuses large blocks, and loses the blocks in a thread's bins when it ends.
 *
 *   BIN_LISTS  0: a bin is an array of pointers beside the blocks;   1: a list through the blocks, and the room left
 *   TLS_BLOCK  0: a thread-local variable points to the bins;        1: the bins themselves are thread-local
 *   PAGE_LOG2  12..18: size of the pages that blocks are cut from; each page has a tag in a flat table
 *
 *   malloc(n): block = newest in the bin of n's class;  bin empty?  -> slow path (depot, fresh blocks, a new page)
 *   free(p):   bin = the bin that p's page tag names;   bin full?   -> slow path (the older half goes to the depot)
 * Blocks never return to a page: all that is left of a page is where its fresh blocks begin.
 */
#include "base/os/atomic.h"
#include "heap/sizeclass.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PAGE_BYTES = 1 << PAGE_LOG2,
    ARENA_LOG2 = 34, /* 54 GiB of addresses with the depot; valgrind refuses 86 GiB */
    TAG_COUNT = 1 << (ARENA_LOG2 - PAGE_LOG2),
    BIN_BYTES = 24 << 10, /* bins as large as hz3's */
    BIN_COUNT = 128,
    BIN_COUNT_MIN = 8,
    RUN_BLOCKS_MIN = 4, /* blocks larger than a quarter of a page are cut from several pages */
    DEPOT_COUNT = 1 << 24,
};

#define ARENA_BYTES ((size_t)1 << ARENA_LOG2)

struct tag {
    uint16_t bin; /* byte offset in the bins; 0: NULL, or large */
    uint8_t size_class;
    uint8_t owner; /* the thread that made the page; unused */
};

/* In an array, the blocks are limit[-capacity] .. top[-1], with NULL below them. In a list, `top` is the newest block,
   whose first word points to the next block. */
struct bin {
    _Atomic(void **) top;
    union {
        void **limit;
        int32_t room; /* in a list: capacity minus blocks; negative until the slow path corrects it */
    };
};

_Static_assert(sizeof(struct bin) == HZ_GRANULE_BYTES, "a class's bin offset is its block size rounded to 16");

struct thread {
    struct bin bins[HZ_CLASS_COUNT]; /* bins[0] is always empty and always full */
    const struct tag *tags;
    char *fresh[HZ_CLASS_COUNT]; /* the unused part of the current page */
    uint32_t fresh_count[HZ_CLASS_COUNT];
    uint32_t number;
};

/* One per class: halves of bins, as a stack of blocks or of lists of blocks. */
struct depot {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) pthread_mutex_t lock;
    void **base;
    void **top; /* lock */
};

static char *arena; /* aligned to its size */
static _Atomic(size_t) arena_used = PAGE_BYTES;
static struct tag tags[TAG_COUNT]; /* the arena's first page is unused: its entry is that of NULL */
static struct depot depots[HZ_CLASS_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic(uint32_t) thread_count;
static void *no_slots[2]; /* the sentinel below an empty bin */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic" /* range initialisers */
#define NO_SLOT    (BIN_LISTS ? NULL : &no_slots[1])
#define EACH_CLASS 0 ... HZ_CLASS_COUNT - 1
static struct thread thread_none = {.bins = {[EACH_CLASS] = {.top = NO_SLOT, .limit = NO_SLOT}}, .tags = tags};
static HZ_TLS struct thread thread_here = {.bins = {[EACH_CLASS] = {.top = NO_SLOT, .limit = NO_SLOT}}, .tags = tags};
#pragma GCC diagnostic pop

static HZ_TLS struct thread *thread_there = &thread_none;

HZ_INLINE struct thread *thread_self(void) {
    return TLS_BLOCK ? &thread_here : thread_there;
}

HZ_INLINE size_t tag_index(const void *address) {
    return ((uintptr_t)address >> PAGE_LOG2) & (TAG_COUNT - 1);
}

HZ_INLINE struct bin *bin_at(struct thread *self, size_t offset) {
    return (struct bin *)(void *)((char *)self + offset);
}

/* A single instruction, like hz_owner_add_rel. */
HZ_INLINE void top_move(struct bin *bin, long entries) {
    if (HZ_ASM_X86_64)
        __asm__ volatile("addq %1, %0" : "+m"(bin->top) : "er"(entries * (long)sizeof(void *)) : "memory", "cc");
    else
        hz_store_rel(&bin->top, hz_load_rlx(&bin->top) + entries);
}

HZ_INLINE void *bin_pop(struct bin *bin) {
    void **top = hz_load_rlx(&bin->top);
    void *block = BIN_LISTS ? top : top[-1];
    if (HZ_UNLIKELY(block == NULL))
        return NULL;
    if (BIN_LISTS) {
        hz_store_rlx(&bin->top, *top);
        bin->room++;
    } else {
        top_move(bin, -1);
    }
    return block;
}

/* False: the bin is full. A list's room is then one too small. */
HZ_INLINE bool bin_push(struct bin *bin, void **block) {
    void **top = hz_load_rlx(&bin->top);
    if (HZ_UNLIKELY(BIN_LISTS ? --bin->room < 0 : top == bin->limit))
        return false;
    if (BIN_LISTS) {
        *block = top;
        hz_store_rlx(&bin->top, block);
    } else {
        *top = block;
        top_move(bin, 1);
    }
    return true;
}

static uint32_t bin_half(unsigned size_class) {
    size_t count = hz_min(BIN_BYTES / hz_class_bytes(size_class), BIN_COUNT);
    return (uint32_t)hz_max(count, BIN_COUNT_MIN) / 2;
}

static void setup(void) {
    char *made = mmap(NULL, 2 * ARENA_BYTES + HZ_CLASS_COUNT * sizeof(void *) * DEPOT_COUNT, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED)
        abort();
    arena = made + (-(uintptr_t)made & (ARENA_BYTES - 1));
    for (size_t i = 0; i < HZ_CLASS_COUNT; i++) {
        pthread_mutex_init(&depots[i].lock, NULL);
        depots[i].base = depots[i].top = (void **)(void *)(arena + ARENA_BYTES) + i * DEPOT_COUNT;
    }
}

static void *arena_get(size_t bytes) {
    pthread_once(&once, setup);
    size_t rounded = hz_round_up(bytes, PAGE_BYTES);
    size_t at = bytes < ARENA_BYTES ? hz_add_rlx(&arena_used, rounded) : ARENA_BYTES;
    if (at < ARENA_BYTES && at + rounded <= ARENA_BYTES)
        return arena + at;
    errno = ENOMEM;
    return NULL;
}

/* The calling thread's state; the first call makes it. */
static struct thread *thread_get(void) {
    if (thread_there != &thread_none)
        return thread_self();
    struct thread *made = arena_get(sizeof(struct thread) + HZ_CLASS_COUNT * (BIN_COUNT + 1) * sizeof(void *));
    if (made == NULL)
        abort();
    made->number = hz_add_rlx(&thread_count, 1);
    made->tags = tags;
    void **slot = (void **)(void *)(made + 1);
    for (unsigned size_class = 0; size_class < HZ_CLASS_COUNT; size_class++) {
        uint32_t capacity = size_class == HZ_CLASS_NONE ? 0 : 2 * bin_half(size_class);
        slot++; /* the sentinel stays NULL */
        made->bins[size_class] = BIN_LISTS ? (struct bin){.top = NULL, .room = (int32_t)capacity}
                                           : (struct bin){.top = slot, .limit = slot + capacity};
        slot += capacity;
    }
    thread_there = made;
    if (TLS_BLOCK)
        thread_here = *made;
    return thread_self();
}

static void bin_flush(struct bin *bin, unsigned size_class) {
    struct depot *depot = &depots[size_class];
    uint32_t half = bin_half(size_class);
    size_t count = BIN_LISTS ? 1 : half;
    void **oldest = BIN_LISTS ? hz_load_rlx(&bin->top) : bin->limit - 2 * half;
    for (uint32_t i = 1; BIN_LISTS && i < half; i++)
        oldest = *oldest; /* ends at the last block that stays, whose link is the list of older blocks */
    pthread_mutex_lock(&depot->lock);
    if (depot->top + count > depot->base + DEPOT_COUNT)
        abort();
    memcpy(depot->top, oldest, count * sizeof(void *));
    depot->top += count;
    pthread_mutex_unlock(&depot->lock);
    if (BIN_LISTS) {
        *oldest = NULL;
        bin->room = (int32_t)half;
    } else {
        memmove(oldest, oldest + half, half * sizeof(void *));
        hz_store_rlx(&bin->top, oldest + half);
    }
}

static bool bin_fill(struct bin *bin, unsigned size_class) {
    struct depot *depot = &depots[size_class];
    uint32_t half = bin_half(size_class);
    size_t count = BIN_LISTS ? 1 : half;
    void *list;
    void **to = BIN_LISTS ? &list : bin->limit - 2 * half;
    pthread_mutex_lock(&depot->lock);
    bool found = depot->top != depot->base;
    if (found) {
        depot->top -= count;
        memcpy(to, depot->top, count * sizeof(void *));
        hz_store_rlx(&bin->top, BIN_LISTS ? list : to + half);
        if (BIN_LISTS)
            bin->room = (int32_t)half;
    }
    pthread_mutex_unlock(&depot->lock);
    return found;
}

/* Pushes fresh blocks, the lowest on top. False: no memory. */
static bool bin_carve(struct thread *self, unsigned size_class) {
    size_t bytes = hz_class_bytes(size_class);
    const struct tag tag = {(uint16_t)(size_class * sizeof(struct bin)), (uint8_t)size_class, (uint8_t)self->number};
    if (self->fresh_count[size_class] == 0) {
        size_t run_bytes = hz_round_up(RUN_BLOCKS_MIN * bytes, PAGE_BYTES);
        char *run = arena_get(run_bytes);
        if (run == NULL)
            return false;
        for (size_t at = 0; at < run_bytes; at += PAGE_BYTES)
            tags[tag_index(run + at)] = tag;
        self->fresh[size_class] = run;
        self->fresh_count[size_class] = (uint32_t)(run_bytes / bytes);
    }
    uint32_t count = (uint32_t)hz_min(self->fresh_count[size_class], bin_half(size_class));
    char *end = self->fresh[size_class] + count * bytes;
    for (char *block = end; block != self->fresh[size_class];)
        (void)bin_push(&self->bins[size_class], (void **)(void *)(block -= bytes));
    self->fresh[size_class] = end;
    self->fresh_count[size_class] -= count;
    return true;
}

static HZ_NOINLINE void *malloc_slow(size_t size) {
    struct thread *self = thread_get();
    unsigned size_class = hz_class_of(size);
    struct bin *bin = &self->bins[size_class];
    void *block = bin_pop(bin); /* size 0 can find a block here: the fast path looked into bin 0 */
    if (block == NULL && (bin_fill(bin, size_class) || bin_carve(self, size_class)))
        block = bin_pop(bin);
    return block;
}

static HZ_NOINLINE void *malloc_medium(size_t size) {
    if (HZ_UNLIKELY(size > HZ_RUN_ABOVE_BYTES))
        return arena_get(size);
    void *block = bin_pop(&thread_self()->bins[hz_class_of_medium(size)]);
    return HZ_LIKELY(block != NULL) ? block : malloc_slow(size);
}

static HZ_NOINLINE void free_slow(void *block) {
    struct tag tag = tags[tag_index(block)];
    struct bin *bin = bin_at(thread_get(), tag.bin);
    if (tag.bin == 0 && BIN_LISTS)
        bin->room = 0;
    if (tag.bin == 0 || bin_push(bin, block)) /* succeeds if this call made the thread's bins */
        return;
    bin_flush(bin, tag.size_class);
    (void)bin_push(bin, block);
}

HZ_EXPORT HZ_HOT void *malloc(size_t size) {
    if (HZ_UNLIKELY(size > HZ_LINEAR_MAX))
        return malloc_medium(size);
    size_t offset = (size + HZ_GRANULE_BYTES - 1) & ~(size_t)(HZ_GRANULE_BYTES - 1);
    void *block = bin_pop(bin_at(thread_self(), offset));
    return HZ_LIKELY(block != NULL) ? block : malloc_slow(size);
}

HZ_EXPORT HZ_HOT void free(void *block) {
    struct thread *self = thread_self();
    size_t offset = self->tags[tag_index(block)].bin;
    if (HZ_UNLIKELY(!bin_push(bin_at(self, offset), block)))
        free_slow(block);
}

HZ_EXPORT void *calloc(size_t count, size_t bytes) {
    void *block = malloc(count * bytes); /* a large block is fresh memory, already zero */
    return block == NULL || count * bytes > HZ_RUN_ABOVE_BYTES ? block : memset(block, 0, count * bytes);
}

HZ_EXPORT void *realloc(void *block, size_t size) {
    void *moved = malloc(size);
    if (moved == NULL || block == NULL)
        return moved;
    /* A large block may be smaller than `size`, but the memory behind it is readable. */
    struct tag tag = tags[tag_index(block)];
    memcpy(moved, block, tag.bin != 0 ? hz_min(size, hz_class_bytes(tag.size_class)) : size);
    free(block);
    return moved;
}
