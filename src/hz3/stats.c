/*
 * stats.c - figures, summed on demand from pages, bins, shards and per-thread counters. Takes no lock; figures of
 * running threads move meanwhile.
 */
#include "base/meta.h"
#include "base/report.h"
#include "hakozuna/hakozuna.h"
#include "hz3/engine.h"

struct class_figures {
    size_t pages;
    size_t run_pages;
    size_t capacity;
    size_t free_blocks;
    size_t cached;
};

struct figures {
    struct class_figures classes[HZ3_CLASS_COUNT];
};

static void add_page(void *context, struct hz3_page *page) {
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
}

static void figures_get(struct figures *figures) {
    *figures = (struct figures){0};
    hz3_pages_walk(add_page, figures);
    for (unsigned size_class = 1; size_class < HZ3_CLASS_COUNT; size_class++) {
        struct class_figures *f = &figures->classes[size_class];
        f->cached += (size_t)hz3_depot_batches(size_class) * hz3_batch_count(size_class);
        for (unsigned index = 0; index < HZ3_NUM_SHARDS; index++)
            if (hz3_shard_get(index) != NULL)
                f->cached += hz3_shard_waiting(hz3_shard_get(index), size_class);
        for (struct hz_thread *thread = hz_thread_first(); thread != NULL; thread = thread->next) {
            struct hz3_bin *bin = &hz3_thread_from(thread)->bins[size_class];
            f->cached += (size_t)(hz_load_rlx(&bin->top) - hz3_bin_base(bin, size_class)); /* relaxed: figure */
        }
    }
}

static size_t not_below_zero(size_t a, size_t b) {
    return a > b ? a - b : 0;
}

void hz_engine_stats(struct hz_stats *stats) {
    struct figures figures;
    figures_get(&figures);
    struct hz_arena_figures spans;
    hz_arena_figures_get(&spans);
    *stats = (struct hz_stats){
        .resident_bytes = spans.dirty_bytes,
        .mapped_bytes = spans.mapped_bytes,
        .purged_bytes = spans.purged_bytes,
        .mapping_count = spans.direct_count,
        .free_bytes = spans.free_dirty_bytes,
    };
    size_t small_pages = 0;
    size_t out_bytes = 0;
    for (unsigned size_class = 1; size_class < HZ3_CLASS_COUNT; size_class++) {
        const struct class_figures *f = &figures.classes[size_class];
        size_t block_bytes = hz_class_bytes(size_class);
        small_pages += f->run_pages;
        out_bytes += not_below_zero(f->capacity, f->free_blocks) * block_bytes;
        stats->cached_bytes += f->cached * block_bytes;
        stats->free_bytes += f->free_blocks * block_bytes;
    }
    size_t span_bytes = not_below_zero(spans.used_bytes, small_pages << HZ_PAGE_LOG2);
    stats->live_bytes = not_below_zero(out_bytes, stats->cached_bytes) + span_bytes + spans.direct_bytes;
}

static void add_counters(struct hz3_counters *sum, struct hz3_thread *thread) {
    _Atomic(uint64_t) *to = (_Atomic(uint64_t) *)(void *)sum;
    _Atomic(uint64_t) *from = (_Atomic(uint64_t) *)(void *)&thread->counters;
    for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
        hz3_count(&to[i], hz_load_rlx(&from[i])); /* relaxed: counters */
}

static void report_counters(struct hz_report *report) {
    struct hz3_counters sum = {0};
    uint64_t thread_blocks = 0;
    uint64_t threads = 0;
    for (struct hz_thread *thread = hz_thread_first(); thread != NULL; thread = thread->next) {
        add_counters(&sum, hz3_thread_from(thread));
        thread_blocks++;
        threads += hz_load_rlx(&thread->state) == HZ_THREAD_USED; /* relaxed: figure */
    }
    hz_report_group_open(report, "counters");
    hz_report_number(report, "threads", threads);
    hz_report_number(report, "thread_blocks", thread_blocks);
    hz_report_number(report, "meta_bytes", hz_meta_bytes());
#define COUNTER(name) hz_report_number(report, #name, hz_load_rlx(&sum.name))
    COUNTER(refill);
    COUNTER(refill_depot);
    COUNTER(refill_carry);
    COUNTER(refill_stash);
    COUNTER(refill_transfer);
    COUNTER(refill_central);
    COUNTER(refill_page);
    COUNTER(page_create);
    COUNTER(page_retire);
    COUNTER(flush);
    COUNTER(depot_push);
    COUNTER(home_blocks);
    COUNTER(stash_send);
    COUNTER(transfer_send);
    COUNTER(central_send);
    COUNTER(direct_home);
    COUNTER(remote_free);
    COUNTER(large_alloc);
    COUNTER(large_free);
#undef COUNTER
    hz_report_group_close(report);
}

void hz_engine_report(struct hz_report *report) {
    report_counters(report);
    struct figures figures;
    figures_get(&figures);
    hz_report_rows_open(report, "classes");
    for (unsigned size_class = 1; size_class < HZ3_CLASS_COUNT; size_class++) {
        const struct class_figures *f = &figures.classes[size_class];
        if (f->pages == 0)
            continue;
        size_t out = not_below_zero(f->capacity, f->free_blocks);
        hz_report_row_open(report);
        hz_report_number(report, "block_bytes", hz_class_bytes(size_class));
        hz_report_number(report, "pages", f->pages);
        hz_report_number(report, "live", not_below_zero(out, f->cached));
        hz_report_number(report, "cached", f->cached);
        hz_report_number(report, "free", f->free_blocks);
        hz_report_number(report, "depot_batches", hz3_depot_batches(size_class));
        hz_report_row_close(report);
    }
    hz_report_rows_close(report);
}

const char *hz_engine_config_string(void) {
    return hz3_config_string();
}
