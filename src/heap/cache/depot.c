/*
 * depot.c - stacks of batches, each an array of block pointers.
 *
 * A batch moves from thread to thread by copying pointers; no block is touched on its way. There is a stack for each
 * CPU (or for a few neighbours, if there are many: hz_depot_parts_for), so blocks mostly stay in the cache where
 * they are, and CPUs seldom disturb each other. A thread pushes onto the part of its CPU, and pops from another part
 * only when its own is empty. Which part a thread uses only affects speed: it may move to another CPU at any time.
 *
 * A home class has a stack in each shard instead. Only the shard's threads pop from it; ageing, a purge and the shard's
 * last thread send its blocks home. Its batches come from bins of the shard's threads, and from remote buffers of other
 * threads, if a buffer holds only blocks of that shard and class. In a bin of a home class all blocks are of the
 * thread's shard, except a stray, whose page has just changed hands. So the blocks stay with their shard.
 *
 * The head of a stack is one word: index of the top batch, number of blocks, and a 26-bit tag that changes with every
 * push and pop. So a pop that was delayed cannot mistake a batch that left and came back (ABA) for the one it saw.
 * Batches are never unmapped: reading the `next` of one that has just been popped is harmless, because the CAS fails.
 * Edge "depot-publish": a pop sees the pointers in its batch, and the contents of the blocks as their last holder left
 * them. (Pops in between are read-modify-writes and so belong to the release sequence.) Invariant: a batch is in one
 * stack (of a class, or of empty batches) or in one thread's hands.
 *
 * The cost here is waiting for cache lines that another processor has written: the head, and the batch. So lines that
 * will be written are prefetched for writing, all lines of a batch in one go, and the batch for the next push ahead of
 * time. An empty stack is only read, so a failed pop does not take the head's line exclusive.
 */
#include "heap/cache/depot.h"

#include "base/map/meta.h"
#include "base/os/anatomy.h"
#include "base/os/os.h"
#include "base/process/cpus.h"
#include "heap/pages/page.h"
#include "heap/pages/shard.h"
#include "heap/seal.h"

#include <string.h>

struct batch {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) _Atomic(uint32_t) next; /* index of the batch below; sync: depot-publish */
    _Atomic(uint16_t) count; /* sync: depot-publish; its blocks; an empty batch counts as 1 */
    uint16_t from;           /* owner: mark of the thread that pushed it; thread_mark */
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
    COUNT_BITS = 20,
    COUNT_MAX = (1 << COUNT_BITS) - 1,
    TAG_SHIFT = INDEX_BITS + COUNT_BITS,
    CHUNK_LOG2 = 8,
    CHUNK_BATCHES = 1 << CHUNK_LOG2,
    CHUNK_COUNT = 1 << (INDEX_BITS - 1 - CHUNK_LOG2),
};

_Static_assert((int)HZ_DEPOT_BYTES / (int)HZ_GRANULE_BYTES <= (int)COUNT_MAX && (int)HZ_BATCH_COUNT <= (int)COUNT_MAX,
               "a head must be able to count what may rest in any case");
_Static_assert((int)CHUNK_COUNT *(int)CHUNK_BATCHES <= (int)COUNT_MAX,
               "a head must be able to count all empty batches");

/* One head per line, so that threads that use different classes do not disturb each other. The heads of home classes
   are in the shards (shard.h). */
struct head {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) _Atomic(uint64_t) word; /* sync: depot-publish; index | blocks | tag */
};

enum {
    EMPTY = HZ_CLASS_COUNT, /* EMPTY + kind is the "class" of empty batches */
    PASSING = 2,            /* ageing rounds a class stays "passing" after its last cross-thread pop */
};

static struct head heads[HZ_DEPOT_PARTS][EMPTY + KINDS];
static _Atomic(uint32_t) parts = 1;               /* hint; never shrinks, so that no part with blocks is forgotten */
static _Atomic(uint8_t) part_of_cpu[HZ_CPUS];     /* hint; by the CPU's number modulo HZ_CPUS */
static _Atomic(uint32_t) passing[HZ_CLASS_COUNT]; /* hint: above 0 while threads take what others pushed */
static _Atomic(uint64_t) seen_words[HZ_DEPOT_PARTS]
                                   [HZ_CLASS_COUNT]; /* hint: heads as hz_depot_was_used last saw them */
static _Atomic(char *) chunks[KINDS][CHUNK_COUNT];   /* sync: chunk-publish */
static _Atomic(uint32_t) made_counts[KINDS];         /* cas: batch numbers handed out */

HZ_ANATOMY(depot, HZ_ANATOMY_OBJECT(depot.heads, heads), HZ_ANATOMY_NUMBER(HZ_DEPOT_PARTS), HZ_ANATOMY_SIZE(head),
           HZ_ANATOMY_NUMBER(INDEX_BITS), HZ_ANATOMY_NUMBER(COUNT_BITS), HZ_ANATOMY_OBJECT(depot.chunks, chunks),
           HZ_ANATOMY_NUMBER(CHUNK_LOG2), HZ_ANATOMY_NUMBER(SHORT_BYTES), HZ_ANATOMY_NUMBER(LONG_BYTES),
           HZ_ANATOMY_FIELD(batch, next), HZ_ANATOMY_FIELD(batch, count),
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
    return (uint32_t)(word >> INDEX_BITS) & COUNT_MAX;
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

/* Whether the head of a stack has blocks if it has a batch, and none otherwise. */
static bool word_is_valid(uint64_t word) {
    return (index_of(word) != 0) == (count_of(word) != 0);
}

void hz_depot_divide(void) {
    uint8_t group[HZ_CPUS];
    uint32_t groups = hz_cpus_groups(group, hz_depot_parts_for(hz_cpus_count()));
    if (groups < hz_load_rlx(&parts)) /* relaxed, all: hints; which part a thread uses matters to speed only */
        return;
    hz_store_rlx(&parts, groups);
    for (unsigned cpu = 0; cpu < HZ_CPUS; cpu++)
        if (hz_load_rlx(&part_of_cpu[cpu]) != group[cpu])
            hz_store_rlx(&part_of_cpu[cpu], group[cpu]);
}

static uint32_t part_count(void) {
    return hz_load_rlx(&parts); /* relaxed: hint; in statistics, figure */
}

static uint32_t part_here(void) {
    return hz_load_rlx(&part_of_cpu[hz_os_cpu() % HZ_CPUS]); /* relaxed: hint */
}

static uint32_t part_after(uint32_t part) {
    return part + 1 < part_count() ? part + 1 : 0;
}

/* Pushes a batch unless the stack would then have more than `cap` blocks. */
static bool stack_push(_Atomic(uint64_t) *head, uint32_t index, uint32_t cap) {
    struct batch *batch = batch_get(index);
    uint32_t count = hz_load_rlx(&batch->count); /* relaxed: own batch */
    HZ_PREFETCH_WRITE(head);
    uint64_t seen = hz_load_rlx(head); /* relaxed: cas */
    uint64_t next;
    do {
        if (count_of(seen) + count > cap)
            return false;
        hz_store_rlx(&batch->next, index_of(seen)); /* relaxed: published by the CAS; again on every retry */
        next = word_make(index, count_of(seen) + count, seen);
    } while (!hz_cas_rel_rlx(head, &seen, next)); /* sync: depot-publish, partner stack_pop */
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

/* The index of the popped batch; 0 when the stack is empty. `count`: most blocks that the caller will read. */
static uint32_t stack_pop(_Atomic(uint64_t) *head, uint32_t count) {
    /* sync: depot-publish, partner stack_push: the `next` read below is at least as new as this head */
    uint64_t seen = hz_load_acq(head);
    uint64_t next;
    if (index_of(seen) != 0) { /* prefetch once: after a lost CAS it would steal the winner's cache lines */
        HZ_PREFETCH_WRITE(head);
        batch_prefetch(index_of(seen), count);
    }
    do {
        if (index_of(seen) == 0)
            return 0;
        struct batch *top = batch_get(index_of(seen));
        uint32_t below = hz_load_rlx(&top->next); /* relaxed, both: if they are stale, so is the tag */
        next = word_make(below, count_of(seen) - hz_load_rlx(&top->count), seen);
    } while (!hz_cas_acq_acq(head, &seen, next)); /* sync: depot-publish, partner stack_push */
    hz_assert(word_is_valid(next));
    return index_of(seen);
}

static uint32_t head_count(_Atomic(uint64_t) *head) {
    return count_of(hz_load_rlx(head)); /* relaxed: hint, figure */
}

/* The head of the shard's stack of a home class. */
static _Atomic(uint64_t) *surplus_of(struct hz_shard *shard, unsigned size_class) {
    return &shard->classes[size_class].surplus;
}

/* Head `index` of the class, counted from 0; NULL behind the last one. A home class has a head for each shard. */
static _Atomic(uint64_t) *head_at(unsigned size_class, uint32_t index) {
    if (!hz_class_is_home(size_class))
        return index < part_count() ? &heads[index][size_class].word : NULL;
    struct hz_shard *shard = hz_shard_get(index); /* shards are made in order */
    return shard != NULL ? surplus_of(shard, size_class) : NULL;
}

/* The fullest stack of a home class among those that nobody uses, or else of all; NULL when all are empty. */
static _Atomic(uint64_t) *head_to_age(unsigned size_class) {
    struct hz_shard *shard;
    _Atomic(uint64_t) *found = NULL;
    uint32_t most = 0;
    for (unsigned index = 0; (shard = hz_shard_get(index)) != NULL; index++) {
        uint32_t count = head_count(surplus_of(shard, size_class));
        if (count > 0 && hz_load_rlx(&shard->classes[size_class].surplus_is_idle)) /* relaxed: hint */
            count += COUNT_MAX;
        if (count <= most)
            continue;
        found = surplus_of(shard, size_class);
        most = count;
    }
    return found;
}

/* Pops from one shard's stack; 0 when all were empty. If other threads empty the one that was found, looks again: a
   purge would end too early otherwise. */
static uint32_t shards_pop(unsigned size_class, uint32_t count) {
    for (;;) {
        _Atomic(uint64_t) *head = head_to_age(size_class);
        if (head == NULL)
            return 0;
        uint32_t index = stack_pop(head, count);
        if (index != 0)
            return index;
    }
}

/* Pops from `part`, or else from the next part that has something. `count`: as in stack_pop. */
static uint32_t parts_pop(unsigned size_class, uint32_t part, uint32_t count) {
    uint32_t index = 0;
    for (uint32_t left = part_count(); index == 0 && left > 0; left--, part = part_after(part))
        index = stack_pop(&heads[part][size_class].word, count);
    return index;
}

/* Pushes onto the part of the thread's CPU. Never refused: there are fewer batches than a head can count. */
static void empty_push(uint32_t index) {
    hz_store_rlx(&batch_get(index)->count, 1); /* relaxed: published by the push */
    (void)stack_push(&heads[part_here()][EMPTY + kind_of(index)].word, index, COUNT_MAX);
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

static uint32_t empty_get(struct hz_thread_block *self, enum batch_kind kind) {
    struct hz_spares *spares = &self->spares[kind];
    if (spares->count > 0)
        return spares->batches[--spares->count];
    uint32_t index = parts_pop(EMPTY + kind, part_here(), 0);
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

void hz_depot_spares_return(struct hz_thread_block *self) {
    for (enum batch_kind kind = SHORT; kind < KINDS; kind++)
        while (self->spares[kind].count > 0)
            empty_push(self->spares[kind].batches[--self->spares[kind].count]);
}

/* Gets a spare batch for the next push, and starts to bring its lines here. */
static void spare_prepare(struct hz_thread_block *self, enum batch_kind kind, uint32_t count) {
    struct hz_spares *spares = &self->spares[kind];
    if (spares->count == 0) {
        uint32_t index = parts_pop(EMPTY + kind, part_here(), 0);
        if (index == 0)
            return;
        empty_keep(self, index);
    }
    batch_prefetch(spares->batches[spares->count - 1], count);
}

/* Differs between most threads. */
static uint16_t thread_mark(const struct hz_thread_block *self) {
    return (uint16_t)((uintptr_t)self >> 12 ^ (uintptr_t)self >> 28);
}

/* Most blocks that may rest in all parts together: HZ_DEPOT_BYTES, or, while blocks pass from thread to thread, a share
   of all blocks of the class if that is more. So a burst of frees on one side finds room while the other side sleeps,
   and ageing sends the blocks home afterwards. If a thread only pops what it pushed itself, more than a little at rest
   would waste memory. (Two threads on one CPU that push and pop alternately get each other's batches: that counts as
   passing.) Long blocks get no share: so much memory is of no use to other classes. */
static uint32_t cap_of(unsigned size_class) {
    uint32_t fixed = hz_class_shapes[size_class].depot_blocks;
    if (hz_class_is_long(size_class) || hz_load_rlx(&passing[size_class]) == 0) /* relaxed: hint */
        return fixed;
    size_t share = hz_class_blocks(size_class) * HZ_DEPOT_PERCENT / 100;
    return (uint32_t)hz_min(hz_max(fixed, share), COUNT_MAX);
}

/* Prefetches the blocks of a batch that another thread pushed: another processor may have written them last, and the
   program will write them soon, the last one first. The blocks of a batch that this thread pushed are mostly still in
   its caches, or follow each other in memory, so that the processor fetches them by itself. */
static void blocks_prefetch(const struct hz_thread_block *self, void *const *blocks, uint32_t count, uint16_t from) {
    for (uint32_t left = from != thread_mark(self) ? count : 0; left > 0; left--)
        HZ_PREFETCH_WRITE(blocks[left - 1]);
}

/* Copies the blocks of a popped batch to `out` (see hz_depot_pop), and the mark of the thread that pushed them to
 *from. Keeps the empty batch. Returns the number of blocks; 0 if `index` is 0. */
static uint32_t batch_take(struct hz_thread_block *self, unsigned size_class, uint32_t index, void **out,
                           uint16_t *from) {
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

uint32_t hz_depot_pop(struct hz_thread_block *self, unsigned size_class, void **out) {
    uint16_t from = thread_mark(self);
    uint32_t most = hz_class_shapes[size_class].batch;
    if (HZ_DEPOT_BYTES == 0)
        return 0;
    bool is_home = hz_class_is_home(size_class);
    uint32_t index =
        is_home ? stack_pop(surplus_of(self->shard, size_class), most) : parts_pop(size_class, part_here(), most);
    uint32_t count = batch_take(self, size_class, index, out, &from);
    if (!is_home && from != thread_mark(self) && hz_load_rlx(&passing[size_class]) != PASSING)
        hz_store_rlx(&passing[size_class], PASSING); /* relaxed, both: hint */
    return count;
}

uint32_t hz_depot_pop_home(struct hz_thread_block *self, unsigned size_class, void **out) {
    uint16_t from;
    uint32_t most = hz_class_shapes[size_class].batch;
    if (HZ_DEPOT_BYTES == 0)
        return 0;
    if (hz_class_is_home(size_class))
        return batch_take(self, size_class, shards_pop(size_class, most), out, &from);
    uint32_t part = part_after(part_here()); /* this CPU's part last, since it is in use */
    return batch_take(self, size_class, parts_pop(size_class, part, most), out, &from);
}

void hz_depot_forget_passing(unsigned size_class) {
    uint32_t left =
        hz_load_rlx(&passing[size_class]); /* relaxed, both: hint; two simultaneous rounds count down once */
    if (left > 0)
        hz_store_rlx(&passing[size_class], left - 1);
}

static uint32_t count_in(uint32_t part, unsigned size_class) {
    return head_count(&heads[part][size_class].word);
}

/* Most blocks that may rest in one part when `count` more come: what the other parts leave of the cap. A part with less
   than an equal share does not look at the others. So after work has moved from CPU to CPU, all parts together can hold
   up to twice the cap. */
static uint32_t cap_in(uint32_t part, unsigned size_class, uint32_t count) {
    uint32_t cap = cap_of(size_class); /* a few loads and divisions: cheap beside the copy */
    if (count_in(part, size_class) + count <= cap / part_count())
        return cap;
    uint32_t others = 0;
    uint32_t other = part;
    for (uint32_t left = part_count(); left > 1; left--) {
        other = part_after(other);
        others += count_in(other, size_class);
    }
    return cap - (uint32_t)hz_min(cap, others);
}

/* Pushes the blocks onto the stack unless it would then have more than `cap` blocks. */
static bool batch_push(struct hz_thread_block *self, _Atomic(uint64_t) *head, uint32_t cap, void *const *blocks,
                       uint32_t count) {
    if (head_count(head) + count > cap)
        return false;
    uint32_t index = empty_get(self, count > SHORT_COUNT ? LONG : SHORT);
    if (index == 0)
        return false;
    struct batch *batch = batch_get(index);
    hz_store_rlx(&batch->count, (uint16_t)count); /* relaxed: published by the push */
    batch->from = thread_mark(self);
    memcpy(batch->blocks, blocks, count * sizeof(batch->blocks[0]));
    if (stack_push(head, index, cap)) {
        hz_count(&self->counters.depot_push, 1);
        spare_prepare(self, kind_of(index), count);
        return true;
    }
    empty_keep(self, index);
    return false;
}

bool hz_depot_send(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class, void *const *blocks,
                   uint32_t count) {
    hz_assert(hz_class_is_home(size_class));
    if (HZ_DEPOT_BYTES == 0)
        return false;
    _Atomic(uint64_t) *head = surplus_of(shard, size_class);
    HZ_PREFETCH_WRITE(head);
    return batch_push(self, head, hz_class_shapes[size_class].depot_blocks, blocks, count);
}

bool hz_depot_push(struct hz_thread_block *self, unsigned size_class, void *const *blocks, uint32_t count) {
    if (HZ_DEPOT_BYTES == 0)
        return false;
    if (hz_class_is_home(size_class))
        return hz_depot_send(self, self->shard, size_class, blocks, count);
    uint32_t part = part_here();
    HZ_PREFETCH_WRITE(&heads[part][size_class]);
    return batch_push(self, &heads[part][size_class].word, cap_in(part, size_class, count), blocks, count);
}

/* The word in which hz_depot_was_used remembers head_at(size_class, index). */
static _Atomic(uint64_t) *seen_at(unsigned size_class, uint32_t index) {
    return hz_class_is_home(size_class) ? &hz_shard_get(index)->classes[size_class].surplus_seen
                                        : &seen_words[index][size_class];
}

/* Remembers the head. True if that is news: the tags make each of its states a new word. */
static bool head_note(unsigned size_class, uint32_t index, _Atomic(uint64_t) *head) {
    uint64_t word = hz_load_rlx(head); /* relaxed, all: hint */
    bool is_new = word != hz_load_rlx(seen_at(size_class, index));
    if (is_new)
        hz_store_rlx(seen_at(size_class, index), word);
    return is_new;
}

bool hz_depot_was_used(unsigned size_class) {
    bool used = false;
    _Atomic(uint64_t) *head;
    for (uint32_t i = 0; (head = head_at(size_class, i)) != NULL; i++) {
        bool is_new = head_note(size_class, i, head);
        used |= is_new;
        if (!hz_class_is_home(size_class))
            continue;
        struct hz_shard_class *home = &hz_shard_get(i)->classes[size_class];
        if (hz_load_rlx(&home->surplus_is_idle) == is_new) /* relaxed, both: hint */
            hz_store_rlx(&home->surplus_is_idle, !is_new);
    }
    return used;
}

void hz_depot_forget_use(unsigned size_class) {
    _Atomic(uint64_t) *head;
    for (uint32_t i = 0; (head = head_at(size_class, i)) != NULL; i++)
        (void)head_note(size_class, i, head);
}

uint32_t hz_depot_idle_blocks(unsigned size_class) {
    uint32_t count = 0;
    struct hz_shard *shard;
    for (unsigned i = 0; hz_class_is_home(size_class) && (shard = hz_shard_get(i)) != NULL; i++)
        if (hz_load_rlx(&shard->classes[size_class].surplus_is_idle)) /* relaxed: hint */
            count += head_count(surplus_of(shard, size_class));
    return count;
}

uint32_t hz_depot_blocks(unsigned size_class) {
    uint32_t count = 0;
    _Atomic(uint64_t) *head;
    for (uint32_t i = 0; (head = head_at(size_class, i)) != NULL; i++)
        count += head_count(head);
    return count;
}

/* ---- walks ----------------------------------------------------------------------------------------- */

static void stack_walk(_Atomic(uint64_t) *head, void (*visit)(void *context, const void *block), void *context) {
    uint64_t word = hz_load_acq(head); /* sync: depot-publish, partner stack_push */
    uint32_t left = count_of(word);    /* bounds the walk */
    for (uint32_t index = index_of(word); index != 0 && left > 0;) {
        struct batch *batch = batch_get(index);
        uint32_t count = (uint32_t)hz_min(hz_load_rlx(&batch->count), left); /* relaxed, both: nobody changes it */
        for (uint32_t i = 0; i < count; i++)
            visit(context, batch->blocks[i]);
        left -= count > 0 ? count : left;
        index = hz_load_rlx(&batch->next);
    }
}

void hz_depot_walk(void (*visit)(void *context, const void *block), void *context) {
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        _Atomic(uint64_t) *head;
        for (uint32_t index = 0; (head = head_at(size_class, index)) != NULL; index++)
            stack_walk(head, visit, context);
    }
}

void hz_depot_memory_walk(void (*visit)(void *context, const void *memory, size_t bytes), void *context) {
    for (enum batch_kind kind = SHORT; kind < KINDS; kind++)
        for (uint32_t index = 0; index < CHUNK_COUNT; index++) {
            const char *chunk = hz_load_acq(&chunks[kind][index]); /* sync: chunk-publish, partner batch_make */
            if (chunk != NULL)
                visit(context, chunk, CHUNK_BATCHES * batch_bytes(kind));
        }
}
