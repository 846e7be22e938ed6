/*
 * batches.c - see batches.h.
 *
 * The word of a stack has the index of its top batch, the number of its blocks, and a 26-bit tag that changes with
 * every push and pop. So a pop that was delayed cannot mistake a batch that left and came back (ABA) for the one it
 * saw. Batches are never unmapped: reading the `next` of one that has just been popped is harmless, because the CAS
 * fails. Edge "depot-publish": a pop sees the pointers in its batch, and the contents of the blocks as their last
 * holder left them. (Pops in between are read-modify-writes and so belong to the release sequence.) Invariant: a batch
 * is in one stack (of a class, or of empty batches) or in one thread's hands.
 *
 * The cost here is waiting for cache lines that another processor has written: the stack's word, and the batch. So
 * lines that will be written are prefetched for writing, all lines of a batch in one go, and the batch for the next
 * push ahead of time. An empty stack is only read, so a failed pop does not take its line exclusive.
 */
#include "heap/cache/batches.h"

#include "base/map/meta.h"
#include "base/os/anatomy.h"
#include "base/os/os.h"
#include "base/process/cpus.h"
#include "heap/seal.h"

#include <string.h>

struct batch {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) _Atomic(uint32_t) next; /* index of the batch below; sync: depot-publish */
    _Atomic(uint16_t) count; /* sync: depot-publish; its blocks; an empty batch counts as 1 */
    uint16_t from;           /* owner: hz_thread_mark of the thread that pushed it */
    void *blocks[];
};

/* A batch of few blocks is short: it takes no more lines and memory than it needs. */
enum batch_kind { SHORT, LONG, KINDS };

#define BATCH_BYTES(count)                                                                                             \
    ((offsetof(struct batch, blocks) + (count) * sizeof(void *) + HZ_CACHE_LINE_BYTES - 1) / HZ_CACHE_LINE_BYTES *     \
     HZ_CACHE_LINE_BYTES)

enum {
    SHORT_COUNT = 4 * HZ_CACHE_LINE_BYTES / sizeof(void *) - 1,
    SHORT_BYTES = BATCH_BYTES(SHORT_COUNT),
    LONG_BYTES = BATCH_BYTES((size_t)HZ_BATCH_COUNT),
};

_Static_assert((int)KINDS == (int)HZ_SPARE_KINDS, "spare batches of each kind");

enum {
    INDEX_BITS = 18, /* a batch's index: its number, from 1, and its kind in the lowest bit; 0 = none */
    TAG_SHIFT = INDEX_BITS + HZ_STACK_COUNT_BITS,
    CHUNK_LOG2 = 8,
    CHUNK_BATCHES = 1 << CHUNK_LOG2,
    CHUNK_COUNT = 1 << (INDEX_BITS - 1 - CHUNK_LOG2),
};

_Static_assert((int)HZ_DEPOT_BYTES / (int)HZ_GRANULE_BYTES <= (int)HZ_STACK_BLOCKS_MAX &&
                   (int)HZ_BATCH_COUNT <= (int)HZ_STACK_BLOCKS_MAX,
               "a word must be able to count what may rest in any case");
_Static_assert((int)CHUNK_COUNT *(int)CHUNK_BATCHES <= (int)HZ_STACK_BLOCKS_MAX,
               "a word must be able to count all empty batches");

static struct hz_part_stack empties[HZ_DEPOT_PARTS][KINDS]; /* empty batches */
static _Atomic(uint32_t) parts = 1;                /* hint; never shrinks, so that no part with blocks is forgotten */
static _Atomic(uint8_t) part_of_cpu[HZ_CPUS];      /* hint; by the CPU's number modulo HZ_CPUS */
static _Atomic(char *) chunks[KINDS][CHUNK_COUNT]; /* sync: chunk-publish */
static _Atomic(uint32_t) made_counts[KINDS];       /* cas: batch numbers handed out */

HZ_ANATOMY(batches, HZ_ANATOMY_NUMBER(INDEX_BITS), HZ_ANATOMY_NUMBER(HZ_STACK_COUNT_BITS),
           HZ_ANATOMY_OBJECT(batches.chunks, chunks), HZ_ANATOMY_NUMBER(CHUNK_LOG2), HZ_ANATOMY_NUMBER(SHORT_BYTES),
           HZ_ANATOMY_NUMBER(LONG_BYTES), HZ_ANATOMY_FIELD(batch, next), HZ_ANATOMY_FIELD(batch, count),
           {"batch.blocks", {.number = offsetof(struct batch, blocks)}, sizeof(void *)});

static size_t batch_bytes(enum batch_kind kind) {
    return kind == SHORT ? SHORT_BYTES : LONG_BYTES;
}

static enum batch_kind kind_of(uint32_t index) {
    return index & 1;
}

static uint32_t index_of(uint64_t word) {
    return (uint32_t)word & ((1U << INDEX_BITS) - 1);
}

static uint32_t count_of(uint64_t word) {
    return (uint32_t)(word >> INDEX_BITS) & HZ_STACK_BLOCKS_MAX;
}

static struct batch *batch_get(uint32_t index) {
    uint32_t number = (index >> 1) - 1;
    /* sync: chunk-publish, partner batch_make. An index is known only after its chunk was published */
    char *chunk = hz_load_acq(&chunks[kind_of(index)][number >> CHUNK_LOG2]);
    size_t offset = (number & (CHUNK_BATCHES - 1)) * batch_bytes(kind_of(index));
    return (struct batch *)(void *)(chunk + offset);
}

static uint64_t word_make(uint32_t index, uint32_t count, uint64_t old) {
    uint64_t tag = (old >> TAG_SHIFT) + 1;
    return tag << TAG_SHIFT | (uint64_t)count << INDEX_BITS | index;
}

/* Whether the word of a stack has blocks if it has a batch, and none otherwise. */
static bool word_is_valid(uint64_t word) {
    return (index_of(word) != 0) == (count_of(word) != 0);
}

void hz_parts_divide(void) {
    uint8_t group[HZ_CPUS];
    uint32_t groups = hz_cpus_groups(group, hz_parts_for(hz_cpus_count()));
    if (groups < hz_load_rlx(&parts)) /* relaxed, all: hints; which part a thread uses matters to speed only */
        return;
    hz_store_rlx(&parts, groups);
    for (unsigned cpu = 0; cpu < HZ_CPUS; cpu++)
        if (hz_load_rlx(&part_of_cpu[cpu]) != group[cpu])
            hz_store_rlx(&part_of_cpu[cpu], group[cpu]);
}

uint32_t hz_part_count(void) {
    return hz_load_rlx(&parts); /* relaxed: hint; in statistics, figure */
}

uint32_t hz_part_here(void) {
    return hz_load_rlx(&part_of_cpu[hz_os_cpu() % HZ_CPUS]); /* relaxed: hint */
}

uint32_t hz_part_after(uint32_t part) {
    return part + 1 < hz_part_count() ? part + 1 : 0;
}

/* Pushes a batch unless the stack would then have more than `cap` blocks. */
static bool stack_push(struct hz_stack *stack, uint32_t index, uint32_t cap) {
    struct batch *batch = batch_get(index);
    uint32_t count = hz_load_rlx(&batch->count); /* relaxed: own batch */
    HZ_PREFETCH_WRITE(&stack->word);
    uint64_t seen = hz_load_rlx(&stack->word); /* relaxed: cas */
    uint64_t next;
    do {
        if (count_of(seen) + count > cap)
            return false;
        hz_store_rlx(&batch->next, index_of(seen)); /* relaxed: published by the CAS; again on every retry */
        next = word_make(index, count_of(seen) + count, seen);
    } while (!hz_cas_rel_rlx(&stack->word, &seen, next)); /* sync: depot-publish, partner hz_stack_pop */
    hz_assert(word_is_valid(next));
    return true;
}

/* Prefetches for writing those lines of a batch that `count` blocks take: the thread soon writes them, or reads them
   and reuses the batch. */
static void batch_prefetch(uint32_t index, uint32_t count) {
    struct batch *batch = batch_get(index);
    HZ_PREFETCH_WRITE(batch);
    uint32_t room = kind_of(index) == SHORT ? (uint32_t)hz_min(count, SHORT_COUNT) : count;
    for (uint32_t i = HZ_CACHE_LINE_BYTES / sizeof(void *) - 1; i < room; i += HZ_CACHE_LINE_BYTES / sizeof(void *))
        HZ_PREFETCH_WRITE(&batch->blocks[i]);
}

uint32_t hz_stack_pop(struct hz_stack *stack, uint32_t count) {
    /* sync: depot-publish, partner stack_push: the `next` read below is at least as new as this word */
    uint64_t seen = hz_load_acq(&stack->word);
    uint64_t next;
    if (index_of(seen) != 0) { /* prefetch once: after a lost CAS it would steal the winner's cache lines */
        HZ_PREFETCH_WRITE(&stack->word);
        batch_prefetch(index_of(seen), count);
    }
    do {
        if (index_of(seen) == 0)
            return 0;
        struct batch *top = batch_get(index_of(seen));
        uint32_t below = hz_load_rlx(&top->next); /* relaxed, both: if they are stale, so is the tag */
        next = word_make(below, count_of(seen) - hz_load_rlx(&top->count), seen);
    } while (!hz_cas_acq_acq(&stack->word, &seen, next)); /* sync: depot-publish, partner stack_push */
    hz_assert(word_is_valid(next));
    return index_of(seen);
}

uint32_t hz_stack_blocks(struct hz_stack *stack) {
    return count_of(hz_load_rlx(&stack->word)); /* relaxed: hint, figure */
}

/* Pushes onto the part of the thread's CPU. Never refused: there are fewer batches than a word can count. */
static void empty_push(uint32_t index) {
    hz_store_rlx(&batch_get(index)->count, 1); /* relaxed: published by the push */
    (void)stack_push(&empties[hz_part_here()][kind_of(index)].stack, index, HZ_STACK_BLOCKS_MAX);
}

/* A new batch; 0 when there is no memory or no number left. */
static uint32_t batch_make(enum batch_kind kind) {
    uint32_t made = hz_load_rlx(&made_counts[kind]); /* relaxed: cas */
    do {
        if (made == CHUNK_COUNT * CHUNK_BATCHES - 1)
            return 0;
        _Atomic(char *) *chunk = &chunks[kind][made >> CHUNK_LOG2];
        if (hz_load_acq(chunk) == NULL) { /* sync: chunk-publish, partner the CAS in this block */
            char *fresh = hz_meta_alloc(CHUNK_BATCHES * batch_bytes(kind));
            char *expected = NULL;
            if (fresh == NULL)
                return 0;
            /* sync: chunk-publish, partner batch_get. Losing the race wastes one chunk, once */
            hz_cas_strong_ar_acq(chunk, &expected, fresh);
        }
    } while (!hz_cas_rlx_rlx(&made_counts[kind], &made, made + 1));
    return (made + 1) << 1 | kind;
}

/* An empty batch of some part, this CPU's part first; 0 when there is none. */
static uint32_t empty_pop(enum batch_kind kind) {
    uint32_t index = 0;
    uint32_t part = hz_part_here();
    for (uint32_t left = hz_part_count(); index == 0 && left > 0; left--, part = hz_part_after(part))
        index = hz_stack_pop(&empties[part][kind].stack, 0);
    return index;
}

static uint32_t empty_get(struct hz_thread_block *self, enum batch_kind kind) {
    struct hz_spares *spares = &self->spares[kind];
    if (spares->count > 0)
        return spares->batches[--spares->count];
    uint32_t index = empty_pop(kind);
    return index != 0 ? index : batch_make(kind);
}

static void empty_keep(struct hz_thread_block *self, uint32_t index) {
    struct hz_spares *spares = &self->spares[kind_of(index)];
    if (spares->count == HZ_SPARE_BATCHES) {
        empty_push(index);
        return;
    }
    spares->batches[spares->count] = index;
    hz_signal_fence(); /* fork: a copy's count never covers an unwritten entry */
    spares->count++;
}

void hz_spares_return(struct hz_thread_block *self) {
    for (enum batch_kind kind = SHORT; kind < KINDS; kind++)
        while (self->spares[kind].count > 0)
            empty_push(self->spares[kind].batches[--self->spares[kind].count]);
}

/* Gets a spare batch for the next push, and starts to bring its lines here. */
static void spare_prepare(struct hz_thread_block *self, enum batch_kind kind, uint32_t count) {
    struct hz_spares *spares = &self->spares[kind];
    if (spares->count == 0) {
        uint32_t index = empty_pop(kind);
        if (index == 0)
            return;
        empty_keep(self, index);
    }
    batch_prefetch(spares->batches[spares->count - 1], count);
}

uint16_t hz_thread_mark(const struct hz_thread_block *self) {
    return (uint16_t)((uintptr_t)self >> 12 ^ (uintptr_t)self >> 28);
}

/* Prefetches the blocks of a batch that another thread pushed: another processor may have written them last, and the
   program will write them soon, the last one first. The blocks of a batch that this thread pushed are mostly still in
   its caches, or follow each other in memory, so that the processor fetches them by itself. */
static void blocks_prefetch(const struct hz_thread_block *self, void *const *blocks, uint32_t count, uint16_t from) {
    for (uint32_t left = from != hz_thread_mark(self) ? count : 0; left > 0; left--)
        HZ_PREFETCH_WRITE(blocks[left - 1]);
}

uint32_t hz_batch_take(struct hz_thread_block *self, unsigned size_class, uint32_t index, void **out, uint16_t *from) {
    if (index == 0)
        return 0;
    struct batch *batch = batch_get(index);
    uint32_t count = hz_load_rlx(&batch->count); /* relaxed: own batch */
    *from = batch->from;
    out = out != NULL ? out : hz_bin_space(&self->cache, size_class, count);
    memcpy(out, batch->blocks, count * sizeof(batch->blocks[0]));
    if (HZ_BLOCKS_SEALED)
        hz_seals_check(out, count, HZ_WRITTEN_IN_DEPOT);
    blocks_prefetch(self, out, count, *from);
    empty_keep(self, index);
    return count;
}

bool hz_stack_push(struct hz_thread_block *self, struct hz_stack *stack, uint32_t cap, void *const *blocks,
                   uint32_t count) {
    if (hz_stack_blocks(stack) + count > cap)
        return false;
    uint32_t index = empty_get(self, count > SHORT_COUNT ? LONG : SHORT);
    if (index == 0)
        return false;
    struct batch *batch = batch_get(index);
    hz_store_rlx(&batch->count, (uint16_t)count); /* relaxed: published by the push */
    batch->from = hz_thread_mark(self);
    memcpy(batch->blocks, blocks, count * sizeof(batch->blocks[0]));
    if (stack_push(stack, index, cap)) {
        hz_count(&self->counters.depot_push, 1);
        spare_prepare(self, kind_of(index), count);
        return true;
    }
    empty_keep(self, index);
    return false;
}

bool hz_stack_was_used(struct hz_stack *stack) {
    uint64_t word = hz_load_rlx(&stack->word);       /* relaxed, all: hint */
    bool is_new = word != hz_load_rlx(&stack->seen); /* the tags make each of its states a new word */
    if (is_new)
        hz_store_rlx(&stack->seen, word);
    return is_new;
}

/* ---- walks ----------------------------------------------------------------------------------------- */

void hz_stack_walk(struct hz_stack *stack, void (*visit)(void *context, const void *block), void *context) {
    uint64_t word = hz_load_acq(&stack->word); /* sync: depot-publish, partner stack_push */
    uint32_t left = count_of(word);            /* bounds the walk */
    for (uint32_t index = index_of(word); index != 0 && left > 0;) {
        struct batch *batch = batch_get(index);
        uint32_t count = (uint32_t)hz_min(hz_load_rlx(&batch->count), left); /* relaxed, both: nobody changes it */
        for (uint32_t i = 0; i < count; i++)
            visit(context, batch->blocks[i]);
        left -= count > 0 ? count : left;
        index = hz_load_rlx(&batch->next);
    }
}

void hz_batches_memory_walk(void (*visit)(void *context, const void *memory, size_t bytes), void *context) {
    for (enum batch_kind kind = SHORT; kind < KINDS; kind++)
        for (uint32_t index = 0; index < CHUNK_COUNT; index++) {
            const char *chunk = hz_load_acq(&chunks[kind][index]); /* sync: chunk-publish, partner batch_make */
            if (chunk != NULL)
                visit(context, chunk, CHUNK_BATCHES * batch_bytes(kind));
        }
}
