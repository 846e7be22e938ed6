/*
 * stats.c - see stats.h. Sums figures of pages, bins, shards and per-thread counters.
 */
#include "heap/stats.h"

#include "hakozuna/hakozuna.h"

#include "base/arena_figures.h"
#include "base/guard_pool.h"
#include "base/hooks.h"
#include "base/meta.h"
#include "base/peak.h"
#include "base/report.h"
#include "heap/cache/depot.h"
#include "heap/cache/hand.h"
#include "heap/keeper.h"
#include "heap/pages/density.h"
#include "heap/pages/drain.h"
#include "heap/pages/mail.h"
#include "heap/pages/page.h"

#include <string.h>

struct class_figures {
    size_t pages;
    size_t run_pages;
    size_t capacity;
    size_t free_blocks;
};

/* Where freed blocks rest that are not in their pages. */
enum tier { IN_BINS, IN_REMOTE_BUFFERS, IN_PAGE_LISTS, IN_SHARDS, IN_DEPOT, TIERS };

struct figures {
    struct class_figures classes[HZ_CLASS_COUNT];
    size_t blocks[TIERS][HZ_CLASS_COUNT];
};

static void add_page(void *context, struct hz_page *page) {
    struct figures *figures = context;
    unsigned size_class = hz_load_rlx(&page->size_class); /* relaxed, all: figures */
    size_t run_pages = hz_load_rlx(&page->run_pages);
    if (size_class == HZ_CLASS_NONE)
        return;
    struct class_figures *f = &figures->classes[size_class];
    f->pages++;
    f->run_pages += run_pages;
    f->capacity += (run_pages << HZ_PAGE_LOG2) / hz_class_bytes(size_class);
    f->free_blocks += hz_load_rlx(&page->free_count);
    if (HZ_WAY_IS_QUEUES)
        figures->blocks[IN_PAGE_LISTS][size_class] += hz_mpsc_count(&page->remote);
}

/* Adds the blocks of a thread's remote buffer, which has blocks of all home classes, to the counts of their classes.
 * Its owner may send them meanwhile, so a block and its tag may be gone. */
static void add_remote_buffer(size_t *blocks, struct hz_thread_block *thread) {
    void **base = hz_bin_base(&thread->cache, HZ_REMOTE_BIN);
    size_t count = hz_bin_held(&thread->cache, HZ_REMOTE_BIN);
    for (size_t i = 1; i <= count; i++) {
        /* relaxed: figures */
        const void *block = hz_slot_load_rlx(i < count ? &base[i] : &thread->cache.bins[HZ_REMOTE_BIN].newest);
        bool is_out = block == NULL || block == hz_slot_load_rlx(&thread->parking.gone[HZ_REMOTE_BIN]);
        unsigned size_class = is_out ? HZ_CLASS_NONE : hz_pagetag_class(block);
        if (size_class != HZ_CLASS_NONE && size_class < HZ_CLASS_COUNT)
            blocks[size_class]++;
    }
}

/* Adds the blocks of a thread's bins. Only bins of a parked thread or of an orphan can have holes. Of other threads
 * only the tops are read, since a refill writes the slots. The lock keeps a parked thread parked meanwhile. */
static void add_bins(size_t *blocks, struct hz_thread_block *thread) {
    hz_lock_acquire(&thread->parking.lock);
    bool has_holes = hz_load_rlx(&thread->parking.parked) || /* relaxed: lock; figure */
                     hz_load_rlx(&thread->registered.state) == HZ_THREAD_ORPHAN;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        blocks[size_class] += hz_hand_held(thread, size_class) +
                              (has_holes ? hz_bin_count(&thread->cache, size_class, &thread->parking.gone[size_class])
                                         : hz_bin_held(&thread->cache, size_class));
    hz_lock_release(&thread->parking.lock);
}

static void figures_get(struct figures *figures) {
    *figures = (struct figures){0};
    hz_pages_walk(add_page, figures);
    for (struct hz_registered *thread = hz_registry_first(); thread != NULL; thread = thread->next) {
        add_bins(figures->blocks[IN_BINS], hz_thread_block_from(thread));
        add_remote_buffer(figures->blocks[IN_REMOTE_BUFFERS], hz_thread_block_from(thread));
    }
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        figures->blocks[IN_DEPOT][size_class] = hz_depot_blocks(size_class);
        struct hz_shard *shard;
        for (unsigned index = 0; (shard = hz_shard_get(index)) != NULL; index++) /* shards are made in order */
            figures->blocks[IN_SHARDS][size_class] += hz_shard_waiting(shard, size_class);
    }
}

static size_t cached_of(const struct figures *figures, unsigned size_class) {
    size_t blocks = 0;
    for (unsigned tier = 0; tier < TIERS; tier++)
        blocks += figures->blocks[tier][size_class];
    return blocks;
}

/* Bytes of blocks that are counted by class. */
static size_t bytes_of(const size_t *blocks) {
    size_t bytes = 0;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        bytes += blocks[size_class] * hz_class_bytes(size_class);
    return bytes;
}

static size_t not_below_zero(size_t a, size_t b) {
    return a > b ? a - b : 0;
}

void hz_heap_stats(struct hz_stats *stats) {
    struct figures figures;
    hz_hooks_enter();
    figures_get(&figures);
    hz_hooks_leave();
    struct hz_arena_figures of_arena;
    hz_arena_figures_get(&of_arena);
    struct hz_guard_figures of_guard;
    hz_guard_figures_get(&of_guard);
    *stats = (struct hz_stats){
        .resident_bytes = not_below_zero(of_arena.dirty_bytes, of_arena.hollow_bytes) + of_guard.resident_bytes,
        .mapped_bytes = of_arena.mapped_bytes + of_guard.mapped_bytes,
        .purged_bytes = of_arena.purged_bytes,
        .mapping_count = of_arena.direct_count,
        .free_bytes = of_arena.free_dirty_bytes,
    };
    size_t small_pages = 0;
    size_t out_bytes = 0;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        const struct class_figures *f = &figures.classes[size_class];
        size_t block_bytes = hz_class_bytes(size_class);
        small_pages += f->run_pages;
        out_bytes += not_below_zero(f->capacity, f->free_blocks) * block_bytes;
        stats->cached_bytes += cached_of(&figures, size_class) * block_bytes;
        stats->free_bytes += f->free_blocks * block_bytes;
    }
    stats->free_bytes = not_below_zero(stats->free_bytes, of_arena.hollow_bytes);
    size_t run_bytes = not_below_zero(of_arena.used_bytes, small_pages << HZ_PAGE_LOG2);
    stats->live_bytes =
        not_below_zero(out_bytes, stats->cached_bytes) + run_bytes + of_arena.direct_bytes + of_guard.live_bytes;
    hz_peak_note();
    stats->peak_bytes = hz_max(hz_peak_bytes(), stats->resident_bytes);
}

/* ---- counters -------------------------------------------------------------------------------------- */

enum counter_kind { SUM, MAX, HOT };

struct counter {
    const char *group;
    const char *name;
    size_t offset;
    enum counter_kind kind;
};

#define COUNTER(group, field, name, kind, text) {group, name, offsetof(struct hz_counters, field), kind},
static const struct counter counters[] = {
#include "engine_counters.def"
#include "heap/counters.def"
};
#undef COUNTER

static const char *const counter_groups[] = {"counters", "mid", "remote", "os", "locks"};

static uint64_t counter_get(const struct counter *counter) {
    uint64_t value = 0;
    for (struct hz_registered *thread = hz_registry_first(); thread != NULL; thread = thread->next) {
        char *base = (char *)&hz_thread_block_from(thread)->counters;
        uint64_t one = hz_load_rlx((_Atomic(uint64_t) *)(void *)(base + counter->offset)); /* relaxed: counter */
        value = counter->kind == MAX ? hz_max(value, one) : value + one;
    }
    return value;
}

/* Allocations and frees of mid blocks. Frees and refills bring blocks into a bin, allocations and flushes take them
   out. Three of these numbers, and what the bin holds, give the fourth. */
static void report_mid(struct hz_report *report) {
    uint64_t allocated = 0;
    uint64_t freed = 0;
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next) {
        struct hz_thread_block *thread = hz_thread_block_from(each);
        struct hz_counters *c = &thread->counters; /* relaxed, all: counters */
        uint64_t taken =
            hz_load_rlx(&c->mid_cache_hit) + hz_load_rlx(&c->mid_depot_hit) + hz_load_rlx(&c->mid_lock_path);
        allocated += taken;
        freed += taken + hz_load_rlx(&c->mid_moved);
        size_t in_bins[HZ_CLASS_COUNT] = {0};
        add_bins(in_bins, thread);
        if (HZ_HAS_MID_HOME)
            add_remote_buffer(in_bins, thread);
        for (unsigned size_class = HZ_MID_CLASS_FIRST; size_class < HZ_CLASS_COUNT; size_class++)
            freed += in_bins[size_class];
    }
    hz_report_number(report, "malloc_calls", allocated);
    hz_report_number(report, "free_calls", freed);
    hz_report_number(report, "free_batch_enq", freed); /* every free puts its block into a bin */
}

/* Average length of a page's remote list when it was taken, times 100. */
static uint64_t blocks_per_100_pages(void) {
    uint64_t blocks = 0;
    uint64_t pages = 0;
    for (struct hz_registered *thread = hz_registry_first(); HZ_WAY_IS_QUEUES && thread != NULL;
         thread = thread->next) {
        struct hz_counters *c = &hz_thread_block_from(thread)->counters; /* relaxed, both: counters */
        blocks += hz_load_rlx(&c->drain_total);
        pages += hz_load_rlx(&c->pageq_deq);
    }
    return pages > 0 ? blocks * 100 / pages : 0;
}

/* Figures that are computed instead of counted. */
static void report_known(struct hz_report *report, const char *group) {
    if (HZ_CONFIG_STATS && strcmp(group, "mid") == 0)
        report_mid(report);
    if (strcmp(group, "counters") == 0) {
        uint64_t thread_blocks = 0;
        uint64_t threads = 0;
        for (struct hz_registered *thread = hz_registry_first(); thread != NULL; thread = thread->next) {
            thread_blocks++;
            threads += hz_load_rlx(&thread->state) == HZ_THREAD_USED; /* relaxed: figure */
        }
        hz_report_number(report, "threads", threads);
        hz_report_number(report, "thread_blocks", thread_blocks);
        unsigned made = 0;
        while (hz_shard_get(made) != NULL)
            made++;
        hz_report_number(report, "shards", made);
        hz_report_number(report, "meta_bytes", hz_meta_bytes());
    } else if (strcmp(group, "remote") == 0) {
        hz_report_number(report, "blocks_per_100_pages", blocks_per_100_pages());
    } else if (strcmp(group, "os") == 0) {
        struct hz_arena_figures of_arena;
        hz_arena_figures_get(&of_arena);
        hz_report_number(report, "seg_acq", of_arena.segments_acquired);
    }
}

static void report_counters(struct hz_report *report) {
    for (size_t i = 0; i < HZ_ARRAY_LENGTH(counter_groups); i++) {
        hz_report_group_open(report, counter_groups[i]);
        report_known(report, counter_groups[i]);
        for (size_t c = 0; c < HZ_ARRAY_LENGTH(counters); c++)
            if (strcmp(counters[c].group, counter_groups[i]) == 0 && (counters[c].kind != HOT || HZ_CONFIG_STATS))
                hz_report_number(report, counters[c].name, counter_get(&counters[c]));
        hz_report_group_close(report);
    }
}

/* What waits in each part of the shards' mailboxes, and in their carries. */
static void report_mail(struct hz_report *report) {
    size_t in_parts[HZ_MAIL_PARTS] = {0};
    size_t in_carries = 0;
    struct hz_shard *shard;
    for (unsigned index = 0; (shard = hz_shard_get(index)) != NULL; index++)
        for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
            struct hz_shard_class *home = &shard->classes[size_class];
            size_t block_bytes = hz_class_bytes(size_class);
            for (unsigned part = 0; part < HZ_MAIL_PARTS && hz_mail_parts[part].figure != NULL; part++)
                in_parts[part] += hz_mail_parts[part].count(&home->mail) * block_bytes;
            in_carries += hz_list_word_count(hz_load_rlx(&home->carry)) * block_bytes; /* relaxed: figure */
        }
    for (unsigned part = 0; part < HZ_MAIL_PARTS && hz_mail_parts[part].figure != NULL; part++)
        hz_report_number(report, hz_mail_parts[part].figure, in_parts[part]);
    hz_report_number(report, "carry_bytes", in_carries);
}

/* What rests outside the pages, what pages hold beside the blocks that are out, and what rests in the arena. */
static void report_rest(struct hz_report *report, const struct figures *figures) {
    size_t in_lists = bytes_of(figures->blocks[IN_PAGE_LISTS]);
    hz_report_group_open(report, "rest");
    hz_report_number(report, "bins_bytes", bytes_of(figures->blocks[IN_BINS]));
    hz_report_number(report, "remote_bytes", bytes_of(figures->blocks[IN_REMOTE_BUFFERS]));
    report_mail(report);
    hz_report_number(report, "page_lists_bytes", in_lists);
    hz_report_number(report, "waiting_bytes", bytes_of(figures->blocks[IN_SHARDS]) + in_lists);
    hz_report_number(report, "depot_bytes", bytes_of(figures->blocks[IN_DEPOT]));
    hz_report_number(report, "pages_bytes", hz_density_slack());
    hz_report_number(report, "arena_bytes", hz_arena_resting_bytes());
    hz_report_number(report, "keeper", hz_keeper_runs());
    hz_report_group_close(report);
}

/* A row for each thread of the program. One that ends meanwhile has a row or none. */
static void report_threads(struct hz_report *report) {
    hz_report_rows_open(report, "threads");
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next) {
        struct hz_thread_block *thread = hz_thread_block_from(each);
        /* sync: thread-claim, partner hz_registry_release: no label of a thread that has given the block up before */
        bool is_used = hz_load_acq(&each->state) == HZ_THREAD_USED;
        uint64_t label = hz_load_rlx(&each->label); /* relaxed, all: figures */
        if (!is_used || label == 0)
            continue;
        size_t in_bins[HZ_CLASS_COUNT] = {0};
        size_t in_buffer[HZ_CLASS_COUNT] = {0};
        add_bins(in_bins, thread);
        add_remote_buffer(in_buffer, thread);
        hz_report_row_open(report);
        hz_report_number(report, "number", each->number);
        hz_report_number(report, "thread_id", hz_thread_label_id(label));
        hz_report_number(report, "shard", hz_thread_label_shard(label));
        hz_report_number(report, "bins_bytes", bytes_of(in_bins));
        hz_report_number(report, "remote_bytes", bytes_of(in_buffer));
        hz_report_number(report, "parked", hz_load_rlx(&thread->parking.parked));
        hz_report_number(report, "refill", hz_load_rlx(&thread->counters.refill));
        hz_report_number(report, "flush", hz_load_rlx(&thread->counters.flush));
        hz_report_row_close(report);
    }
    hz_report_rows_close(report);
}

void hz_heap_report(struct hz_report *report) {
    hz_hooks_enter();
    report_counters(report);
    struct figures figures;
    figures_get(&figures);
    report_rest(report, &figures);
    hz_report_rows_open(report, "classes");
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        const struct class_figures *f = &figures.classes[size_class];
        if (f->pages == 0)
            continue;
        size_t out = not_below_zero(f->capacity, f->free_blocks);
        size_t cached = cached_of(&figures, size_class);
        hz_report_row_open(report);
        hz_report_number(report, "block_bytes", hz_class_bytes(size_class));
        hz_report_number(report, "pages", f->pages);
        hz_report_number(report, "live", not_below_zero(out, cached));
        hz_report_number(report, "cached", cached);
        hz_report_number(report, "free", f->free_blocks);
        hz_report_number(report, "depot_blocks", figures.blocks[IN_DEPOT][size_class]);
        hz_report_row_close(report);
    }
    hz_report_rows_close(report);
    report_threads(report);
    hz_hooks_leave();
}
