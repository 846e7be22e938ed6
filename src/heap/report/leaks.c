/*
 * leaks.c - see leaks.h.
 *
 * First what is reached from the roots is marked. Of the other live blocks, those that another one of them has the
 * address of are indirect. A ring of blocks that nothing else reaches has no beginning: its first block by address
 * counts as direct.
 */
#include "heap/report/leaks.h"

#include "base/map/meta.h"
#include "base/os/atomic.h"
#include "base/os/hooks.h"
#include "base/os/os.h"
#include "base/process/memory_map.h"
#include "heap/cache/batches.h"
#include "heap/report/census.h"

enum {
    LEAK_REACHED = 2,  /* marks beside HZ_CENSUS_LIVE: from a root */
    LEAK_REFERRED = 4, /* another leaked block has its address */
    LEAK_COUNTED = 8,  /* it is known whether the leak is direct */
    LEAK_INDIRECT = 16,
    LEAK_SHORT_BYTES = 64 << 10, /* longer blocks can have parts that were never touched */
    LEAK_LOCAL_BYTES = 1 << 20,  /* more than a thread has behind its thread pointer */
};

struct leak_range {
    uintptr_t begin, end;
};

struct leak_item {
    uintptr_t start;
    size_t bytes;
};

/* Memory of the search. */
enum { LEAK_MAPPINGS, LEAK_ROOM, LEAK_RANGES, LEAK_STACK, LEAK_ARRAYS };

struct leak_array {
    void *memory;
    size_t bytes;
};

struct leak_search {
    struct hz_leaks_search *of;
    struct hz_census census;
    struct hz_memory_map map;
    const struct hz_mapping *read_last; /* hint: where the last block was */
    uintptr_t *room;                    /* for copies of memory */
    struct leak_range *ranges;          /* of memory that is no root, by address */
    size_t range_count, ranges_room;
    struct leak_item *stack; /* blocks to be read; has room for all live ones */
    size_t stack_count;
    uint8_t mark;      /* what blocks get that are reached now, */
    uint8_t marked;    /* unless they have one of these */
    uintptr_t reading; /* start of the block that is read, 0: a root */
    struct leak_array arrays[LEAK_ARRAYS];
};

/* ---- threads that have ended ------------------------------------------------------------------------------ */

/* glibc keeps the stacks of threads that have ended, and they are full of addresses. So each thread leaves its number
   in a variable of its own, and its thread pointer in a list. If at that thread pointer no thread is found, but still
   the variable with that number, this is the stack of a thread that has ended. A new thread gets the variable as 0.
   The description of such a thread stays a root: glibc keeps its table of thread-local variables for the next thread.
 */
struct leak_begun {
    struct leak_begun *next; /* const after publish, both */
    uintptr_t local;
};

static _Atomic(struct leak_begun *) begun_threads; /* sync: begun-publish */
static _Atomic(bool) are_noted;                    /* hint */
static HZ_TLS uintptr_t begun_mark;                /* owner; of this thread, or of the last one that had its stack */

enum { BEGUN_MARK = 0x1ea4 };

void hz_leaks_note_threads(void) {
    hz_store_rlx(&are_noted, true); /* relaxed: a thread that misses it is one whose stack is searched */
}

static bool is_noted(uintptr_t local) {
    for (struct leak_begun *each = hz_load_acq(&begun_threads); each != NULL;
         each = each->next) /* sync: begun-publish */
        if (each->local == local)
            return true;
    return false;
}

void hz_leaks_note_thread(void) {
    if (HZ_LIKELY(!hz_load_rlx(&are_noted))) /* relaxed: hint */
        return;
    uintptr_t local = hz_os_thread_pointer();
    begun_mark = local ^ BEGUN_MARK;
    struct leak_begun *begun = is_noted(local) ? NULL : hz_meta_alloc(sizeof(*begun));
    if (begun == NULL)
        return;
    begun->local = local;
    struct leak_begun *seen = hz_load_rlx(&begun_threads); /* relaxed: cas */
    do {
        begun->next = seen;
    } while (!hz_cas_rel_rlx(&begun_threads, &seen, begun)); /* sync: begun-publish, partner is_noted */
}

/* ---- memory that is no root ------------------------------------------------------------------------------- */

static void range_add(void *of, const void *memory, size_t bytes) {
    struct leak_search *search = of;
    if (search->ranges != NULL && search->range_count < search->ranges_room && bytes > 0)
        search->ranges[search->range_count] = (struct leak_range){(uintptr_t)memory, (uintptr_t)memory + bytes};
    search->range_count++; /* the first walk only counts */
}

static void range_add_between(struct leak_search *search, uintptr_t begin, uintptr_t end) {
    range_add(search, (const void *)begin, end > begin ? end - begin : 0); /* NOLINT(performance-no-int-to-ptr) */
}

/* The library's own code and variables, as the linker calls them. Those of an archive are among the program's. */
extern HZ_HIDDEN const char __ehdr_start[]; /* NOLINT(bugprone-reserved-identifier) */
extern HZ_HIDDEN const char _end[];         /* NOLINT(bugprone-reserved-identifier) */

static bool is_own_code(uintptr_t address) {
    return HZ_IS_SHARED && address - (uintptr_t)__ehdr_start < (uintptr_t)_end - (uintptr_t)__ehdr_start;
}

/* Whether the mapping is a stack that the C library has made for the thread: a guard page lies below, and the thread
   pointer near its end. A program can give a thread any memory as its stack, also a part of its data. */
static bool is_made_for(const struct leak_search *search, const struct hz_mapping *mapping, uintptr_t local) {
    const struct hz_mapping *guard = mapping > search->map.all ? mapping - 1 : NULL;
    return guard != NULL && guard->end == mapping->begin && !guard->is_readable && guard->is_private &&
           local >= mapping->begin && local < mapping->end && mapping->end - local <= LEAK_LOCAL_BYTES;
}

/* What a thread does not have of its stack any more. A thread may be on another stack: that of a signal handler, of a
   coroutine. */
static void unused_stack_add(struct leak_search *search, uintptr_t stack, uintptr_t local) {
    const struct hz_mapping *mapping = hz_memory_map_find(&search->map, stack);
    if (mapping != NULL && (mapping->is_first_stack || (stack < local && is_made_for(search, mapping, local))))
        range_add_between(search, mapping->begin, stack);
}

static bool is_of_running_thread(const struct leak_search *search, uintptr_t local) {
    if (local == search->of->own_local)
        return true;
    for (uint32_t i = 0; i < search->of->others->count; i++)
        if (search->of->others->threads[i].local == local)
            return true;
    return false;
}

static void ended_stacks_add(struct leak_search *search) {
    uintptr_t distance = (uintptr_t)&begun_mark - search->of->own_local;
    for (struct leak_begun *each = hz_load_acq(&begun_threads); each != NULL;
         each = each->next) { /* sync: begun-publish */
        uintptr_t mark = 0;
        if (is_of_running_thread(search, each->local) ||
            hz_memory_map_copy(&search->map, each->local + distance, &mark, sizeof(mark)) != sizeof(mark) ||
            mark != (each->local ^ BEGUN_MARK))
            continue;
        const struct hz_mapping *mapping = hz_memory_map_find(&search->map, each->local);
        uintptr_t end = hz_round_up(each->local + 1, hz_os_page_bytes());
        uintptr_t described_begin;
        uintptr_t described_end;
        hz_os_thread_descriptor(each->local, &described_begin, &described_end);
        if (mapping == NULL || !is_made_for(search, mapping, each->local))
            continue;
        range_add_between(search, mapping->begin, described_begin);
        range_add_between(search, described_end, hz_min(end, mapping->end));
    }
}

static void ranges_add_all(struct leak_search *search) {
    const struct hz_leaks_search *of = search->of;
    search->range_count = 0;
    hz_census_memory_walk(range_add, search);
    for (struct leak_begun *each = hz_load_acq(&begun_threads); each != NULL;
         each = each->next) /* sync: begun-publish */
        range_add(search, each, sizeof(*each));
    if (HZ_IS_SHARED)
        range_add_between(search, (uintptr_t)__ehdr_start, (uintptr_t)_end);
    for (unsigned i = 0; i < LEAK_ARRAYS; i++)
        range_add(search, search->arrays[i].memory, search->arrays[i].bytes);
    range_add(search, of->others->memory, of->others->memory_bytes);
    range_add(search, of->others->threads, of->others->table_bytes);
    range_add(search, search->census.marks, search->census.marks_bytes);
    range_add(search, search->census.direct, search->census.direct_bytes);
    unused_stack_add(search, of->own_stack, of->own_local);
    for (uint32_t i = 0; i < of->others->count; i++)
        unused_stack_add(search, of->others->threads[i].stack - HZ_RED_ZONE_BYTES, of->others->threads[i].local);
    ended_stacks_add(search);
}

static void ranges_sort(struct leak_range *ranges, size_t count) {
    for (size_t gap = count / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < count; i++) {
            struct leak_range range = ranges[i];
            size_t at = i;
            for (; at >= gap && ranges[at - gap].begin > range.begin; at -= gap)
                ranges[at] = ranges[at - gap];
            ranges[at] = range;
        }
}

/* Memory for one of the arrays. */
static void *array_make(struct leak_search *search, unsigned number, size_t bytes) {
    struct leak_array *array = &search->arrays[number];
    array->bytes = hz_round_up(hz_max(bytes, 1), hz_os_page_bytes());
    array->memory = hz_os_map(array->bytes, hz_os_page_bytes(), true);
    if (array->memory == NULL)
        array->bytes = 0;
    return array->memory;
}

static bool ranges_make(struct leak_search *search) {
    enum { SPARE = 16 }; /* the ranges' own memory is one of them */
    search->ranges = NULL;
    ranges_add_all(search);
    search->ranges_room = search->range_count + SPARE;
    struct leak_range *ranges = array_make(search, LEAK_RANGES, search->ranges_room * sizeof(*ranges));
    if (ranges == NULL)
        return false;
    search->ranges = ranges;
    ranges_add_all(search);
    search->range_count = hz_min(search->range_count, search->ranges_room);
    ranges_sort(search->ranges, search->range_count);
    return true;
}

/* ---- marking ------------------------------------------------------------------------------------------------ */

/* A word may be an address in a block, which is then reached. */
static void leak_word_take(struct leak_search *search, uintptr_t word) {
    struct hz_census_block block;
    if (word - search->census.begin >= search->census.end - search->census.begin ||
        !hz_census_find(&search->census, word, &block) || (*block.marks & search->marked) != 0 ||
        block.start == search->reading)
        return;
    *block.marks |= search->mark;
    if (search->stack != NULL)
        search->stack[search->stack_count++] = (struct leak_item){block.start, block.bytes};
}

static void leak_words_take(void *of, uintptr_t address, const uintptr_t *words, size_t count) {
    (void)address;
    for (size_t i = 0; i < count; i++)
        leak_word_take(of, words[i]);
}

/* Reads a block. The program can have made parts of it unreadable. */
static void leak_block_read(struct leak_search *search, uintptr_t begin, size_t bytes) {
    uintptr_t end = begin + bytes;
    while (begin < end) {
        const struct hz_mapping *mapping = search->read_last;
        if (mapping == NULL || begin < mapping->begin || begin >= mapping->end)
            mapping = hz_memory_map_find(&search->map, begin);
        if (mapping == NULL) {
            begin = (begin & ~(hz_os_page_bytes() - 1)) + hz_os_page_bytes();
            continue;
        }
        search->read_last = mapping;
        uintptr_t behind = hz_min(end, mapping->end);
        if (mapping->is_readable && bytes < LEAK_SHORT_BYTES)
            leak_words_take(search, begin, (const uintptr_t *)begin, /* NOLINT(performance-no-int-to-ptr) */
                            (behind - begin) / sizeof(uintptr_t));
        else if (mapping->is_readable)
            hz_memory_map_scan(&search->map, begin, behind, search->room, leak_words_take, search);
        begin = behind;
    }
}

/* Reads what was reached, and what that reaches. */
static void reached_read(struct leak_search *search) {
    while (search->stack_count > 0) {
        struct leak_item item = search->stack[--search->stack_count];
        leak_block_read(search, item.start, item.bytes);
    }
}

static void root_read(struct leak_search *search, uintptr_t begin, uintptr_t end) {
    hz_memory_map_scan(&search->map, begin, end, search->room, leak_words_take, search);
    reached_read(search);
}

/* Reads what of a mapping is in no range. `next`: the first range that ends behind the mapping's begin, or an earlier
   one. */
static void mapping_read(struct leak_search *search, const struct hz_mapping *mapping, size_t *next) {
    uintptr_t begin = mapping->begin;
    for (size_t i = *next; i < search->range_count && search->ranges[i].begin < mapping->end; i++) {
        const struct leak_range *range = &search->ranges[i];
        if (range->begin > begin)
            root_read(search, begin, range->begin);
        begin = hz_max(begin, range->end);
        if (range->end <= mapping->end && i == *next)
            *next = i + 1;
    }
    if (begin < mapping->end)
        root_read(search, begin, mapping->end);
}

static bool local_is_readable(const struct hz_leaks_search *search, uintptr_t local) {
    const struct hz_memory_map map = {.process = search->process};
    uintptr_t inside = (uintptr_t)&hz_hooks_thread - search->own_local + local;
    struct hz_hooks_thread copy;
    return hz_memory_map_copy(&map, inside, &copy, sizeof(copy)) == sizeof(copy);
}

/* A thread that was inside the heap may hold blocks that are in no tier: all that its own memory and the depot have
   counts as reached. */
static void doubtful_read(struct leak_search *search, const struct hz_stopped *thread) {
    size_t bytes;
    if (!local_is_readable(search->of, thread->local))
        return;
    const void *memory = hz_census_thread_memory(thread->local, search->of->own_local, &bytes);
    if (memory != NULL)
        leak_block_read(search, (uintptr_t)memory, bytes);
    reached_read(search);
}

static void depot_part_read(void *of, const void *memory, size_t bytes) {
    leak_block_read(of, (uintptr_t)memory, bytes);
    reached_read(of);
}

static void roots_read(struct leak_search *search) {
    const struct hz_leaks_search *of = search->of;
    size_t next = 0;
    search->mark = LEAK_REACHED;
    search->marked = LEAK_REACHED;
    for (uint32_t i = 0; i < search->map.count; i++)
        if (search->map.all[i].is_readable && search->map.all[i].is_plain)
            mapping_read(search, &search->map.all[i], &next);
    leak_words_take(search, 0, of->own_words, of->own_word_count);
    for (uint32_t i = 0; i < of->others->count; i++)
        leak_words_take(search, 0, of->others->threads[i].words, of->others->threads[i].word_count);
    reached_read(search);
    for (uint32_t i = 0; i < of->others->count && !of->is_exact; i++)
        doubtful_read(search, &of->others->threads[i]);
    if (!of->is_exact)
        hz_batches_memory_walk(depot_part_read, search);
}

/* ---- what is left ------------------------------------------------------------------------------------------- */

static void live_count(void *of, const struct hz_census_block *block) {
    struct leak_search *search = of;
    search->of->live_blocks++;
    search->of->live_bytes += block->bytes;
}

/* Marks what a leaked block refers to. */
static void leak_refer(void *of, const struct hz_census_block *block) {
    struct leak_search *search = of;
    if ((*block->marks & LEAK_REACHED) != 0)
        return;
    search->of->count++;
    search->reading = block->start;
    leak_block_read(search, block->start, block->bytes);
}

/* Counts a leak as direct, and as indirect all that it reaches. */
static void leak_begin(struct leak_search *search, const struct hz_census_block *block) {
    *block->marks |= LEAK_COUNTED;
    search->stack[search->stack_count++] = (struct leak_item){block->start, block->bytes};
    reached_read(search);
}

static void leak_begin_referred_by_none(void *of, const struct hz_census_block *block) {
    if ((*block->marks & (LEAK_REACHED | LEAK_REFERRED)) == 0)
        leak_begin(of, block);
}

static void leak_begin_ring(void *of, const struct hz_census_block *block) {
    if ((*block->marks & (LEAK_REACHED | LEAK_COUNTED)) == 0)
        leak_begin(of, block);
}

static void leak_store(void *of, const struct hz_census_block *block) {
    struct hz_leaks_search *search = ((struct leak_search *)of)->of;
    if ((*block->marks & LEAK_REACHED) == 0)
        search->leaks[search->count++] =
            (struct hz_leak){block->start, block->bytes, (*block->marks & LEAK_INDIRECT) == 0};
}

static bool leaks_take(struct leak_search *search) {
    struct hz_leaks_search *of = search->of;
    struct leak_item *stack = search->stack;
    search->stack = NULL; /* only marks */
    search->mark = LEAK_REFERRED;
    search->marked = LEAK_REACHED;
    hz_census_walk(&search->census, leak_refer, search);
    search->reading = 0;
    search->stack = stack;
    search->mark = LEAK_COUNTED | LEAK_INDIRECT;
    search->marked = LEAK_REACHED | LEAK_COUNTED;
    hz_census_walk(&search->census, leak_begin_referred_by_none, search);
    hz_census_walk(&search->census, leak_begin_ring, search);
    of->leaks_bytes = hz_round_up((of->count + 1) * sizeof(*of->leaks), hz_os_page_bytes());
    of->leaks = hz_os_map(of->leaks_bytes, hz_os_page_bytes(), true);
    if (of->leaks == NULL)
        return false;
    of->count = 0;
    hz_census_walk(&search->census, leak_store, search);
    return true;
}

/* ---- the search --------------------------------------------------------------------------------------------- */

/* No fast path makes a system call. A thread without thread-local variables of ours has not been in the heap. */
bool hz_leaks_may_stay(const struct hz_leaks_search *search, const struct hz_stopped *thread) {
    if (!thread->is_in_call && is_own_code(thread->code))
        return false;
    return !local_is_readable(search, thread->local) || !hz_census_thread_is_inside(thread->local, search->own_local);
}

static bool is_world_quiet(const struct hz_leaks_search *search) {
    bool is_quiet = !hz_census_thread_is_inside(search->own_local, search->own_local);
    for (uint32_t i = 0; i < search->others->count; i++)
        is_quiet &= hz_leaks_may_stay(search, &search->others->threads[i]);
    return is_quiet;
}

static enum hz_leaks_result leaks_run(struct leak_search *search) {
    struct hz_leaks_search *of = search->of;
    struct hz_mapping *mappings = array_make(search, LEAK_MAPPINGS, HZ_MAPPINGS_MOST * sizeof(*mappings));
    search->room = array_make(search, LEAK_ROOM, HZ_MEMORY_PIECE_BYTES);
    if (mappings == NULL || search->room == NULL)
        return HZ_LEAKS_NO_MEMORY;
    if (!hz_memory_map_read(&search->map, mappings, of->process))
        return HZ_LEAKS_NO_MAP;
    of->is_exact = is_world_quiet(of);
    if (!hz_census_begin(&search->census))
        return HZ_LEAKS_NO_MEMORY;
    if (of->forget != NULL)
        of->forget(&search->census, hz_census_forget);
    hz_census_walk(&search->census, live_count, search);
    search->stack = array_make(search, LEAK_STACK, (of->live_blocks + 1) * sizeof(*search->stack));
    if (search->stack == NULL || !ranges_make(search))
        return HZ_LEAKS_NO_MEMORY;
    roots_read(search);
    return leaks_take(search) ? HZ_LEAKS_FOUND : HZ_LEAKS_NO_MEMORY;
}

enum hz_leaks_result hz_leaks_find(struct hz_leaks_search *of) {
    struct leak_search search = {.of = of, .map = {.pagemap = -1}};
    of->live_blocks = 0;
    of->live_bytes = 0;
    of->leaks = NULL;
    of->count = 0;
    enum hz_leaks_result result = leaks_run(&search);
    hz_memory_map_close(&search.map);
    hz_census_end(&search.census);
    for (unsigned i = 0; i < LEAK_ARRAYS; i++)
        if (search.arrays[i].memory != NULL)
            (void)hz_os_unmap(search.arrays[i].memory, search.arrays[i].bytes); /* if refused, address space is lost */
    return result;
}

void hz_leaks_found_end(struct hz_leaks_search *search) {
    if (search->leaks != NULL)
        (void)hz_os_unmap(search->leaks, search->leaks_bytes); /* if refused, address space is lost */
    search->leaks = NULL;
}
