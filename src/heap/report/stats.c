/*
 * stats.c - see stats.h. Reports the figures of figures.h, and per-thread counters, for programs to read.
 */
#include "heap/report/stats.h"

#include "hakozuna/hakozuna.h"

#include "base/arena/arena.h"
#include "base/map/huge.h"
#include "base/map/meta.h"
#include "base/os/anatomy.h"
#include "base/os/hooks.h"
#include "base/process/process.h"
#include "base/watch/report.h"
#include "cpu_bins.h"
#include "heap/back/keeper.h"
#include "heap/back/pressure.h"
#include "heap/pages/shard.h"
#include "heap/report/figures.h"
#include "heap/report/flow.h"
#include "heap/report/situation.h"
#include "heap/threads/thread_block.h"
#include "sent.h"
#include "way.h"

#include <string.h>

void hz_heap_stats(struct hz_stats *stats) {
    struct hz_figures figures;
    hz_figures_get(&figures);
    hz_figures_totals(&figures, stats);
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

/* "counter.GROUP.NAME KIND": the place in struct hz_counters. */
#define COUNTER(group, field, name, kind, text)                                                                        \
    {"counter." group "." name " " #kind, {.number = offsetof(struct hz_counters, field)}, sizeof(uint64_t)},
HZ_KEPT static struct hz_anatomy anatomy_of_stats[] = {HZ_ANATOMY_BEGIN,
#include "engine_counters.def"
#include "heap/counters.def"
                                                       HZ_ANATOMY_NUMBER(HZ_CONFIG_STATS), HZ_ANATOMY_END};
#undef COUNTER

static const char *const counter_groups[] = {"counters", "mid", "remote", "os", "locks"};

static uint64_t counter_of(struct hz_counters *counters_of_one, const struct counter *counter) {
    char *base = (char *)counters_of_one;
    return hz_load_rlx((_Atomic(uint64_t) *)(void *)(base + counter->offset)); /* relaxed: counter */
}

static uint64_t counter_get(const struct counter *counter) {
    uint64_t value = counter_of(&hz_thread_blocks_ended, counter);
    for (struct hz_registered *thread = hz_registry_first(); thread != NULL; thread = thread->next) {
        uint64_t one = counter_of(&hz_thread_block_from(thread)->counters, counter);
        value = counter->kind == MAX ? hz_max(value, one) : value + one;
    }
    return value;
}

static uint64_t mid_taken(struct hz_counters *c) {
    /* relaxed, all: counters */
    return hz_load_rlx(&c->mid_cache_hit) + hz_load_rlx(&c->mid_depot_hit) + hz_load_rlx(&c->mid_lock_path);
}

/* Allocations and frees of mid blocks. Frees and refills bring blocks into a bin, allocations and flushes take them
   out. Three of these numbers, and what the bin holds, give the fourth. */
static void report_mid(struct hz_report *report) {
    uint64_t allocated = mid_taken(&hz_thread_blocks_ended);
    uint64_t freed = allocated + hz_load_rlx(&hz_thread_blocks_ended.mid_moved); /* relaxed: counter */
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next) {
        struct hz_counters *c = &hz_thread_block_from(each)->counters;
        uint64_t taken = mid_taken(c);
        allocated += taken;
        freed += taken + hz_load_rlx(&c->mid_moved); /* relaxed: counter */
        size_t in_bins[HZ_CLASS_COUNT] = {0};
        hz_figures_add_bins(in_bins, each);
        if (HZ_HAS_MID_HOME)
            hz_figures_add_remote_buffer(in_bins, each);
        for (unsigned size_class = HZ_MID_CLASS_FIRST; size_class < HZ_CLASS_COUNT; size_class++)
            freed += in_bins[size_class];
    }
    for (unsigned size_class = HZ_MID_CLASS_FIRST; size_class < HZ_CLASS_COUNT; size_class++)
        freed += hz_cpu_bins_held(size_class);
    hz_report_number(report, "malloc_calls", allocated);
    hz_report_number(report, "free_calls", freed);
    hz_report_number(report, "free_batch_enq", freed); /* every free puts its block into a bin */
}

/* Average length of a page's remote list when it was taken, times 100. */
static uint64_t blocks_per_100_pages(void) {
    uint64_t blocks = hz_load_rlx(&hz_thread_blocks_ended.drain_total); /* relaxed, both: counters */
    uint64_t pages = hz_load_rlx(&hz_thread_blocks_ended.pageq_deq);
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
        struct hz_huge_figures of_huge;
        hz_huge_figures_get(&of_huge);
        hz_report_number(report, "seg_acq", hz_arena_segments_acquired());
        hz_report_number(report, "huge_asked", of_huge.asked);
        hz_report_number(report, "huge_refused", of_huge.refused);
        hz_report_number(report, "huge_slow", of_huge.slow);
        hz_report_number(report, "huge_most_us", of_huge.most_us);
        hz_report_number(report, "huge_collapsed", of_huge.collapsed);
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

/* What rests outside the pages, what pages hold beside the blocks that are out, and what rests in the arena. */
static void report_rest(struct hz_report *report, const struct hz_figures *figures) {
    size_t in_lists = hz_figures_tier_bytes(figures, HZ_IN_PAGE_LISTS);
    hz_report_group_open(report, "rest");
    hz_report_number(report, "bins_bytes", hz_figures_tier_bytes(figures, HZ_IN_BINS));
    hz_report_number(report, "remote_bytes", hz_figures_tier_bytes(figures, HZ_IN_REMOTE_BUFFERS));
    hz_sent_report(report);
    hz_report_number(report, "page_lists_bytes", in_lists);
    hz_report_number(report, "waiting_bytes", hz_figures_tier_bytes(figures, HZ_IN_SHARDS) + in_lists);
    hz_report_number(report, "depot_bytes", hz_figures_tier_bytes(figures, HZ_IN_DEPOT));
    hz_report_number(report, "pages_bytes", hz_pressure_slack());
    hz_report_number(report, "arena_bytes", hz_arena_resting_bytes());
    hz_report_number(report, "hollow_bytes", figures->arena.hollow_bytes);
    hz_report_number(report, "keeper", hz_keeper_runs());
    hz_report_group_close(report);
}

void hz_heap_report_counters(struct hz_report *report, const struct hz_figures *figures) {
    hz_hooks_enter(); /* mends the heap of a fork's child, if nothing has done so yet */
    hz_hooks_leave();
    report_counters(report);
    report_rest(report, figures);
}

static void report_ranges(struct hz_report *report, const struct hz_figures *figures) {
    hz_report_rows_open(report, "ranges");
    for (unsigned range = 0; range < HZ_RANGES; range++) {
        struct hz_range_figures row;
        hz_figures_range(figures, (enum hz_range)range, &row);
        hz_report_row_open(report);
        hz_report_string(report, "name", row.name);
        hz_report_number(report, "up_to_bytes", row.up_to_bytes);
        hz_report_number(report, "live_bytes", row.live_bytes);
        hz_report_number(report, "resting_bytes", row.resting_bytes);
        hz_report_number(report, "free_bytes", row.free_bytes);
        hz_report_number(report, "held_bytes", row.held_bytes);
        hz_report_number(report, "live_blocks", row.live_blocks);
        hz_report_row_close(report);
    }
    hz_report_rows_close(report);
}

static void report_classes(struct hz_report *report, const struct hz_figures *figures) {
    struct hz_size_figures row;
    hz_report_rows_open(report, "classes");
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        if (!hz_figures_size(figures, size_class, &row))
            continue;
        hz_report_row_open(report);
        hz_report_number(report, "block_bytes", row.block_bytes);
        hz_report_number(report, "pages", row.pages);
        hz_report_number(report, "live", row.live_blocks);
        hz_report_number(report, "cached", row.resting_blocks);
        hz_report_number(report, "free", row.free_blocks);
        hz_report_number(report, "depot_blocks", figures->blocks[HZ_IN_DEPOT][size_class]);
        hz_report_number(report, "free_bytes", row.free_bytes);
        hz_report_number(report, "held_bytes", row.held_bytes);
        hz_report_number(report, "unused_permille", hz_figures_unused(row.live_bytes, row.held_bytes));
        hz_report_row_close(report);
    }
    hz_report_rows_close(report);
    hz_report_rows_open(report, "large");
    for (unsigned index = HZ_CLASS_COUNT; index < HZ_SIZES; index++) {
        if (!hz_figures_size(figures, index, &row))
            continue;
        hz_report_row_open(report);
        hz_report_number(report, "up_to_bytes", row.block_bytes);
        hz_report_number(report, "live_bytes", row.live_bytes);
        hz_report_number(report, "live_blocks", row.live_blocks);
        hz_report_row_close(report);
    }
    hz_report_rows_close(report);
}

/* A row for each thread of the program. One that ends meanwhile has a row or none. */
static void report_threads(struct hz_report *report) {
    hz_report_rows_open(report, "threads");
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next) {
        struct hz_thread_figures row;
        char name[HZ_THREAD_NAME_ROOM] = "";
        if (!hz_figures_thread(each, &row))
            continue;
        if (row.id != 0)
            hz_process_thread_name(row.id, name);
        hz_report_row_open(report);
        hz_report_number(report, "number", row.number);
        hz_report_number(report, "thread_id", row.id);
        hz_report_string(report, "name", name);
        hz_report_number(report, "shard", row.shard);
        hz_report_number(report, "bins_bytes", row.bins_bytes);
        hz_report_number(report, "remote_bytes", row.remote_bytes);
        hz_report_number(report, "parked", row.is_parked);
        hz_report_number(report, "refill", row.refill);
        hz_report_number(report, "flush", row.flush);
        hz_report_row_close(report);
    }
    hz_report_rows_close(report);
}

/* The sizes whose blocks cross threads, and the pairs of threads between which they do. */
static void report_flow(struct hz_report *report, const struct hz_figures *figures) {
    struct hz_flow flow;
    (void)hz_flow_get(&flow, figures); /* if nothing is known, all figures are 0, so there are no rows */
    hz_report_rows_open(report, "flow");
    for (unsigned size = 1; size < HZ_SIZES; size++) {
        const struct hz_flow_size *row = &flow.sizes[size];
        if (row->passed_blocks == 0)
            continue;
        hz_report_row_open(report);
        hz_report_number(report, "block_bytes", hz_flow_block_bytes(size));
        hz_report_number(report, "large", size >= HZ_CLASS_COUNT);
        hz_report_number(report, "sampled", flow.is_sampled);
        hz_report_number(report, "freed_blocks", row->freed_blocks);
        hz_report_number(report, "freed_bytes", row->freed_bytes);
        hz_report_number(report, "passed_blocks", row->passed_blocks);
        hz_report_number(report, "passed_bytes", row->passed_bytes);
        hz_report_number(report, "passed_samples", row->passed_samples);
        hz_report_number(report, "in_flight_blocks", row->in_flight_blocks);
        hz_report_number(report, "in_flight_bytes", row->in_flight_bytes);
        hz_report_row_close(report);
    }
    hz_report_rows_close(report);
    hz_report_rows_open(report, "flow_pairs");
    struct hz_flow_pair pair;
    for (uint32_t number = 0; hz_flow_pair_next(&number, &pair);) {
        hz_report_row_open(report);
        hz_report_number(report, "allocated_by", pair.from);
        hz_report_number(report, "freed_by", pair.to);
        hz_report_number(report, "block_bytes", pair.size < HZ_SIZES ? hz_flow_block_bytes(pair.size) : 0);
        hz_report_number(report, "blocks", pair.blocks);
        hz_report_number(report, "bytes", pair.bytes);
        hz_report_number(report, "samples", pair.samples);
        hz_report_row_close(report);
    }
    hz_report_rows_close(report);
}

void hz_heap_report_process(struct hz_report *report, const struct hz_figures *figures) {
    struct hz_process about;
    hz_process_get(&about);
    hz_report_group_open(report, "process");
    hz_report_string(report, "program", about.program);
    hz_report_number(report, "pid", about.id);
    if (about.is_known) {
        hz_report_number(report, "uptime_ms", about.uptime_ms);
        hz_report_number(report, "threads", about.threads);
        hz_report_number(report, "rss_bytes", about.rss_bytes);
        size_t ours = hz_figures_resident(figures);
        if (ours > 0) /* otherwise it is not known */
            hz_report_number(report, "heap_rss_bytes", hz_min(ours, about.rss_bytes));
    }
    struct hz_situation situation = hz_situation_get();
    hz_report_string(report, "keeper", situation.keeper.state);
    hz_report_string(report, "keeper_advice", situation.keeper.advice);
    hz_report_number(report, "soft_limit_bytes", situation.soft_limit_bytes);
    hz_report_string(report, "soft_limit_source", situation.limit_source);
    hz_report_group_close(report);
}

void hz_heap_report(struct hz_report *report, const struct hz_figures *figures) {
    hz_heap_report_counters(report, figures);
    report_ranges(report, figures);
    report_classes(report, figures);
    report_threads(report);
    report_flow(report, figures);
}
