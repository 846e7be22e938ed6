/*
 * depot.c - per class, for all shards: a stack of batches, each an array of block pointers. Called by refill, flush and
 * purge.
 *
 * What one thread has too much of, another takes: a batch moves by copying pointers, no block is touched on its way.
 * The stack's head is one word: index of the top batch, number of batches, and a 28-bit tag that changes with every
 * push and pop, so that a pop which slept cannot mistake a batch that left and came back (ABA) for the one it saw.
 * Batches are never unmapped: reading the `next` of one that has just gone is harmless, its CAS fails. Edge
 * "depot-publish": the pointers in a batch, and the contents of the blocks as their last holder left them, are visible
 * to who pops it. (Pops by others in between are read-modify-writes and so belong to the release sequence.) Invariant:
 * a batch is in one stack, in one thread's hands, or among the empty ones.
 *
 * What costs here is waiting for lines that another processor has written: the head, and the batch. So what will be
 * written is asked for with the right to write it, all lines of a batch at once, and the batch for the next push ahead
 * of time. A stack that is empty is only read: who finds nothing takes its head from nobody.
 */
#include "base/meta.h"
#include "core/core.h"

#include <string.h>

struct batch {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) _Atomic(uint32_t) next; /* index of the batch below; sync: depot-publish */
    uint16_t count;                                         /* owner: who has the batch */
    uint16_t from;                                          /* owner: who laid it in; thread_mark */
    void *blocks[HZ_BATCH_COUNT];
};

enum {
    INDEX_BITS = 20, /* batch numbers from 1; 0 = none */
    COUNT_BITS = 16,
    COUNT_MAX = (1 << COUNT_BITS) - 1,
    TAG_SHIFT = INDEX_BITS + COUNT_BITS,
    CHUNK_LOG2 = 8,
    CHUNK_BATCHES = 1 << CHUNK_LOG2,
    CHUNK_COUNT = 1 << (INDEX_BITS - CHUNK_LOG2),
};

/* One head per line: threads of different classes do not disturb each other. */
struct head {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) _Atomic(uint64_t) word; /* sync: depot-publish; index | count | tag */
    _Atomic(uint32_t) passing;                              /* hint: above 0 while threads take what others laid in */
};

enum { PASSING = 2 }; /* ageings that a class is held for one whose blocks pass after they last did */

static struct head heads[HZ_CLASS_COUNT];
static struct head empty;                           /* batches nobody uses; its count is not kept */
static _Atomic(struct batch *) chunks[CHUNK_COUNT]; /* sync: chunk-publish */
static _Atomic(uint32_t) made_count;                /* cas: batch numbers handed out */

static uint32_t index_of(uint64_t word) {
    return (uint32_t)word & ((1U << INDEX_BITS) - 1);
}

static uint32_t count_of(uint64_t word) {
    return (uint32_t)(word >> INDEX_BITS) & COUNT_MAX;
}

static struct batch *batch_get(uint32_t index) {
    /* sync: chunk-publish, partner batch_make; whoever knows an index got it after that */
    struct batch *chunk = hz_load_acq(&chunks[(index - 1) >> CHUNK_LOG2]);
    return &chunk[(index - 1) & (CHUNK_BATCHES - 1)];
}

static uint64_t word_make(uint32_t index, uint32_t count, uint64_t old) {
    uint64_t tag = (old >> TAG_SHIFT) + 1;
    return tag << TAG_SHIFT | (uint64_t)count << INDEX_BITS | index;
}

/* Pushes unless there are `cap` batches already. */
static bool stack_push(struct head *head, uint32_t index, uint32_t cap) {
    struct batch *batch = batch_get(index);
    HZ_PREFETCH_WRITE(head);
    uint64_t seen = hz_load_rlx(&head->word); /* relaxed: cas */
    uint64_t next;
    do {
        if (count_of(seen) >= cap)
            return false;
        hz_store_rlx(&batch->next, index_of(seen)); /* relaxed: published by the CAS; again on every retry */
        next = word_make(index, count_of(seen) + 1, seen);
    } while (!hz_cas_rel_rlx(&head->word, &seen, next)); /* sync: depot-publish, partner stack_pop */
    return true;
}

/* Lines to come: a batch of `count` blocks is written, or read and written soon. */
static void batch_prefetch(struct batch *batch, uint32_t count) {
    HZ_PREFETCH_WRITE(batch);
    for (uint32_t i = HZ_CACHE_LINE_BYTES / sizeof(void *) - 1; i < count; i += HZ_CACHE_LINE_BYTES / sizeof(void *))
        HZ_PREFETCH_WRITE(&batch->blocks[i]);
}

/* `count`: blocks that the caller wants to read. */
static uint32_t stack_pop(struct head *head, uint32_t count) {
    uint64_t seen = hz_load_acq(&head->word); /* acquire: the `next` read below is at least as new as this head */
    uint64_t next;
    if (index_of(seen) != 0) { /* not again when it was lost: that would take the winner's lines from him */
        HZ_PREFETCH_WRITE(head);
        batch_prefetch(batch_get(index_of(seen)), count);
    }
    do {
        if (index_of(seen) == 0)
            return 0;
        uint32_t below = hz_load_rlx(&batch_get(index_of(seen))->next); /* relaxed: if it is stale, the tag is too */
        next = word_make(below, count_of(seen) - 1, seen);
    } while (!hz_cas_acq_acq(&head->word, &seen, next)); /* sync: depot-publish, partner stack_push */
    return index_of(seen);
}

/* A batch that never existed before; 0 when there is no memory or no number left. */
static uint32_t batch_make(void) {
    uint32_t made = hz_load_rlx(&made_count); /* relaxed: cas */
    do {
        if (made == CHUNK_COUNT * CHUNK_BATCHES - 1)
            return 0;
        _Atomic(struct batch *) *chunk = &chunks[made >> CHUNK_LOG2];
        if (hz_load_acq(chunk) == NULL) {
            struct batch *fresh = hz_meta_alloc(CHUNK_BATCHES * sizeof(struct batch));
            struct batch *expected = NULL;
            if (fresh == NULL)
                return 0;
            /* sync: chunk-publish, partner batch_get. Losing the race wastes one chunk, once */
            hz_cas_strong_ar_acq(chunk, &expected, fresh);
        }
    } while (!hz_cas_rlx_rlx(&made_count, &made, made + 1));
    return made + 1;
}

static uint32_t empty_get(struct hz_thread_block *self) {
    if (self->spare_count > 0)
        return self->spare[--self->spare_count];
    uint32_t index = stack_pop(&empty, 0);
    return index != 0 ? index : batch_make();
}

static void empty_put(struct hz_thread_block *self, uint32_t index) {
    if (self->spare_count < HZ_SPARE_BATCHES) {
        self->spare[self->spare_count] = index;
        hz_signal_fence(); /* fork: the count never covers an unwritten entry */
        self->spare_count++;
    } else if (!stack_push(&empty, index, COUNT_MAX))
        return; /* more than 65535 empty ones: this one stays unused for good */
}

void hz_depot_spare_release(struct hz_thread_block *self) {
    while (self->spare_count > 0)
        (void)stack_push(&empty, self->spare[--self->spare_count], COUNT_MAX); /* as above */
}

/* A batch for the next push, of any class, and on its way here meanwhile. */
static void spare_prepare(struct hz_thread_block *self, uint32_t count) {
    if (self->spare_count == 0) {
        uint32_t index = stack_pop(&empty, 0);
        if (index == 0)
            return;
        empty_put(self, index);
    }
    batch_prefetch(batch_get(self->spare[self->spare_count - 1]), count);
}

/* Tells threads apart, most of the time. */
static uint16_t thread_mark(const struct hz_thread_block *self) {
    return (uint16_t)((uintptr_t)self >> 12 ^ (uintptr_t)self >> 28);
}

/* What may rest: a fixed number of bytes; or, where blocks pass from thread to thread, a share of what the class has at
   all if that is more. A burst of frees on one side then finds room while the other side sleeps, and ageing takes it
   home afterwards. Where one thread takes back what it laid in, more than a little resting is memory for nothing. (Two
   that lay in and take out in turns get each other's: that counts as passing.) */
static uint32_t cap_of(unsigned size_class) {
    size_t batch_count = hz_batch_count(size_class);
    size_t fixed = HZ_DEPOT_BYTES / (batch_count * hz_class_bytes(size_class));
    fixed = hz_max(fixed, HZ_DEPOT_BYTES > 0);        /* one batch, or passing could never show */
    if (hz_load_rlx(&heads[size_class].passing) == 0) /* relaxed: hint */
        return (uint32_t)hz_min(fixed, COUNT_MAX);
    size_t share = hz_class_blocks(size_class) * HZ_DEPOT_PERCENT / (100 * batch_count);
    return (uint32_t)hz_min(hz_max(fixed, share), COUNT_MAX);
}

/* Into `out`; `from`: whose they were. 0: there is nothing. */
static uint32_t take(struct hz_thread_block *self, unsigned size_class, void **out, uint16_t *from) {
    if (HZ_DEPOT_BYTES == 0)
        return 0;
    uint32_t index = stack_pop(&heads[size_class], hz_batch_count(size_class));
    if (index == 0)
        return 0;
    struct batch *batch = batch_get(index);
    uint32_t count = batch->count;
    *from = batch->from;
    memcpy(out, batch->blocks, count * sizeof(batch->blocks[0]));
    empty_put(self, index);
    return count;
}

uint32_t hz_depot_pop(struct hz_thread_block *self, unsigned size_class, void **out) {
    uint16_t from;
    uint32_t count = take(self, size_class, out, &from);
    _Atomic(uint32_t) *passing = &heads[size_class].passing;
    if (count > 0 && from != thread_mark(self) && hz_load_rlx(passing) != PASSING) /* relaxed, both: hint */
        hz_store_rlx(passing, PASSING);
    return count;
}

uint32_t hz_depot_age(struct hz_thread_block *self, unsigned size_class, void **out) {
    uint16_t from;
    return take(self, size_class, out, &from);
}

void hz_depot_forget_passing(unsigned size_class) {
    _Atomic(uint32_t) *passing = &heads[size_class].passing;
    uint32_t left = hz_load_rlx(passing); /* relaxed, both: hint; two that age at once count down once */
    if (left > 0)
        hz_store_rlx(passing, left - 1);
}

bool hz_depot_push(struct hz_thread_block *self, unsigned size_class, void *const *blocks, uint32_t count) {
    if (HZ_DEPOT_BYTES == 0)
        return false;
    HZ_PREFETCH_WRITE(&heads[size_class]);
    uint32_t cap = cap_of(size_class); /* a few loads and divisions by constants of the class: small against the copy */
    if (count_of(hz_load_rlx(&heads[size_class].word)) >= cap) /* relaxed: hint */
        return false;
    uint32_t index = empty_get(self);
    if (index == 0)
        return false;
    struct batch *batch = batch_get(index);
    batch->count = (uint16_t)count;
    batch->from = thread_mark(self);
    memcpy(batch->blocks, blocks, count * sizeof(batch->blocks[0]));
    if (stack_push(&heads[size_class], index, cap)) {
        hz_count(&self->counters.depot_push, 1);
        spare_prepare(self, count);
        return true;
    }
    empty_put(self, index);
    return false;
}

uint32_t hz_depot_batches(unsigned size_class) {
    return count_of(hz_load_rlx(&heads[size_class].word)); /* relaxed: figure */
}
