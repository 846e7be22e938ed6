/*
 * overview.c - see overview.h.
 */
#include "heap/report/overview.h"

#include "hakozuna/hakozuna.h"

#include "base/arena/arena.h"
#include "base/lists/registry.h"
#include "base/process/cpus.h"
#include "base/process/process.h"
#include "base/watch/report.h"
#include "heap/config.h"
#include "heap/report/figures.h"
#include "heap/report/situation.h"
#include "heap/report/stats.h"

#include <stdio.h>
#include <string.h>

/* Bytes as MiB with two decimals: MIB_FORMAT, MIB(bytes). Rounded down. */
#define MIB_FORMAT "%zu.%02zu"
#define MIB(bytes) (bytes) >> 20, (((bytes) & ((1 << 20) - 1)) * 100) >> 20

/* The same in a column. */
#define MIB_COLUMN "%8zu.%02zu"

/* For "%zu.%zu %%". */
#define PERCENT(part, whole) share(part, whole) / 10, share(part, whole) % 10

#define OVERVIEW_VERSION                                                                                               \
    HZ_STRINGIFY(HZ_VERSION_MAJOR) "." HZ_STRINGIFY(HZ_VERSION_MINOR) "." HZ_STRINGIFY(HZ_VERSION_PATCH)

enum { OVERVIEW_ROWS = 10 };

/* In thousandths. */
static size_t share(size_t part, size_t whole) {
    return whole == 0 ? 0 : part * 1000 / whole;
}

/* As `hakozuna -l` takes it. */
static const char *lane_name(void) {
    return strcmp(HZ_LANE_NAME, "default") == 0 ? HZ_ENGINE_NAME : HZ_ENGINE_NAME "-" HZ_LANE_NAME;
}

static void print_situation(struct hz_report *report) {
    struct hz_situation now = hz_situation_get();
    const char *advice = now.keeper.advice;
    hz_report_text(report, "keeper: %s%s%s\nsoft limit: ", now.keeper.state, advice[0] != '\0' ? "; " : "", advice);
    if (now.soft_limit_bytes != 0)
        hz_report_text(report, "%zu MiB, %s\n", now.soft_limit_bytes >> 20, now.limit_source);
    else
        hz_report_text(report, "none, %s\n", now.limit_source);
}

static void print_head(struct hz_report *report, const struct hz_process *about) {
    enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR };
    uint64_t up = about->uptime_ms;
    hz_report_text(report, "hakozuna " OVERVIEW_VERSION ", %s: %s, pid %u", lane_name(), about->program, about->id);
    if (about->is_known)
        hz_report_text(report, ", up %u d %u:%02u:%02u, %zu thread%s", (unsigned)(up / DAY),
                       (unsigned)(up % DAY / HOUR), (unsigned)(up % HOUR / MINUTE), (unsigned)(up % MINUTE / SECOND),
                       about->threads, about->threads == 1 ? "" : "s");
    hz_report_text(report, "\n");
    print_situation(report);
}

static void print_totals(struct hz_report *report, const struct hz_figures *figures, const struct hz_stats *stats,
                         const struct hz_process *about) {
    size_t held = stats->resident_bytes;
    size_t waiting = hz_figures_tier_bytes(figures, HZ_IN_SHARDS) + hz_figures_tier_bytes(figures, HZ_IN_PAGE_LISTS);
    size_t bins = hz_figures_tier_bytes(figures, HZ_IN_BINS);
    size_t remote = hz_figures_tier_bytes(figures, HZ_IN_REMOTE_BUFFERS);
    size_t depot = hz_figures_tier_bytes(figures, HZ_IN_DEPOT);
    struct hz_range_figures whole;
    hz_figures_range(figures, HZ_RANGE_FREE_PAGES, &whole);
    size_t in_parts = stats->free_bytes - whole.free_bytes;
    size_t ours = about->is_known ? hz_min(hz_figures_resident(figures), about->rss_bytes) : 0;
    hz_report_text(report, "live   " MIB_COLUMN " MiB %3zu.%zu %%  in use by the program:", MIB(stats->live_bytes),
                   PERCENT(stats->live_bytes, held));
    for (unsigned range = 0; range < HZ_RANGES; range++) {
        struct hz_range_figures row;
        hz_figures_range(figures, (enum hz_range)range, &row);
        if (range < HZ_RANGE_GUARDED || row.live_blocks > 0)
            hz_report_text(report, "%s %s " MIB_FORMAT, range == 0 ? "" : ",", row.name, MIB(row.live_bytes));
    }
    hz_report_text(
        report,
        "\ncached " MIB_COLUMN " MiB %3zu.%zu %%  freed, kept for reuse: in thread caches " MIB_FORMAT
        ", in remote buffers " MIB_FORMAT ", on the way to pages " MIB_FORMAT ", in the depot " MIB_FORMAT "\n",
        MIB(stats->cached_bytes), PERCENT(stats->cached_bytes, held), MIB(bins), MIB(remote), MIB(waiting), MIB(depot));
    hz_report_text(report,
                   "free   " MIB_COLUMN " MiB %3zu.%zu %%  in pages that hold blocks " MIB_FORMAT
                   ", whole pages " MIB_FORMAT "; returned to the system so far " MIB_FORMAT "\n",
                   MIB(stats->free_bytes), PERCENT(stats->free_bytes, held), MIB(in_parts), MIB(whole.free_bytes),
                   MIB(stats->purged_bytes));
    hz_report_text(report, "held   " MIB_COLUMN " MiB 100.0 %%  peak " MIB_FORMAT "; ", MIB(held),
                   MIB(stats->peak_bytes));
    if (ours > 0)
        hz_report_text(report, "process RSS " MIB_FORMAT ", of it heap " MIB_FORMAT " (%zu.%zu %%)\n",
                       MIB(about->rss_bytes), MIB(ours), PERCENT(ours, about->rss_bytes));
    else if (about->is_known)
        hz_report_text(report, "process RSS " MIB_FORMAT "\n", MIB(about->rss_bytes));
    else
        hz_report_text(report, "process RSS unknown\n");
}

/* One line of a table of sizes. `held` is 0 where it would say nothing. */
static void print_size(struct hz_report *report, const char *name, const struct hz_size_figures *row) {
    hz_report_text(report, "%-24s" MIB_COLUMN MIB_COLUMN MIB_COLUMN MIB_COLUMN "%11zu", name, MIB(row->live_bytes),
                   MIB(row->resting_bytes), MIB(row->free_bytes), MIB(row->held_bytes), row->live_blocks);
    unsigned unused = hz_figures_unused(row->live_bytes, row->held_bytes);
    hz_report_text(report, "%7u.%u %%\n", unused / 10, unused % 10);
}

static void print_columns(struct hz_report *report, const char *what) {
    hz_report_text(report, "\n%-24s   live MiB     cached       free       held     blocks   unused\n", what);
}

static void print_ranges(struct hz_report *report, const struct hz_figures *figures) {
    static const char *const names[HZ_RANGES] = {
        "small, up to 2 KiB",      "medium, up to 2 MiB", "large, up to 2 MiB", "mapped, above 2 MiB", "guarded",
        "sampled for the profile", "free pages"};
    struct hz_size_figures all = {0};
    print_columns(report, "sizes");
    for (unsigned range = 0; range < HZ_RANGES; range++) {
        struct hz_range_figures figure;
        hz_figures_range(figures, (enum hz_range)range, &figure);
        if (range >= HZ_RANGE_GUARDED && range != HZ_RANGE_FREE_PAGES && figure.held_bytes == 0)
            continue;
        struct hz_size_figures row = {
            .live_bytes = figure.live_bytes,
            .resting_bytes = figure.resting_bytes,
            .free_bytes = figure.free_bytes,
            .held_bytes = figure.held_bytes,
            .live_blocks = figure.live_blocks,
        };
        print_size(report, names[range], &row);
        all.live_bytes += row.live_bytes;
        all.resting_bytes += row.resting_bytes;
        all.free_bytes += row.free_bytes;
        all.held_bytes += row.held_bytes;
        all.live_blocks += row.live_blocks;
    }
    print_size(report, "all", &all);
    if (figures->arena.hollow_bytes > 0)
        hz_report_text(report,
                       "and " MIB_FORMAT " MiB of pages without memory: returned to the system, or never touched\n",
                       MIB(figures->arena.hollow_bytes));
}

static size_t held_by(const struct hz_figures *figures, unsigned index) {
    struct hz_size_figures row;
    return hz_figures_size(figures, index, &row) ? hz_max(row.held_bytes, 1) : 0;
}

/* The row that holds most among those that hold less than `bound`, or as much and come later than `after`. HZ_SIZES
   when there is none. */
static unsigned next_largest(const struct hz_figures *figures, size_t bound, unsigned after) {
    unsigned found = HZ_SIZES;
    size_t most = 0;
    for (unsigned index = 0; index < HZ_SIZES; index++) {
        size_t held = held_by(figures, index);
        bool is_left = held < bound || (held == bound && index > after);
        if (is_left && held > most) {
            most = held;
            found = index;
        }
    }
    return found;
}

static void print_sizes(struct hz_report *report, const struct hz_figures *figures, bool verbose) {
    unsigned count = 0;
    for (unsigned index = 0; index < HZ_SIZES; index++)
        count += held_by(figures, index) > 0;
    print_columns(report, "classes that hold most");
    unsigned index = next_largest(figures, SIZE_MAX, 0);
    for (unsigned row = 0; index < HZ_SIZES && (verbose || row < OVERVIEW_ROWS); row++) {
        char name[32];
        struct hz_size_figures figure;
        if (!hz_figures_size(figures, index, &figure))
            break;
        const char *kind = figure.block_bytes <= (size_t)HZ_RUN_PAGES_MAX << HZ_PAGE_LOG2 ? "large" : "mapped";
        int length = figure.is_large ? snprintf(name, sizeof(name), "%s, up to %zu KiB", kind, figure.block_bytes >> 10)
                                     : snprintf(name, sizeof(name), "%zu B", figure.block_bytes);
        if (length > 0)
            print_size(report, name, &figure);
        index = next_largest(figures, held_by(figures, index), index);
    }
    if (!verbose && count > OVERVIEW_ROWS)
        hz_report_text(report, "and %u other classes\n", count - OVERVIEW_ROWS);
}

static void print_thread(struct hz_report *report, const struct hz_thread_figures *thread) {
    char name[HZ_THREAD_NAME_ROOM] = "";
    if (thread->id != 0)
        hz_process_thread_name(thread->id, name);
    hz_report_text(report, "%8u %-15s" MIB_COLUMN MIB_COLUMN "%11u%s\n", thread->id, name, MIB(thread->bins_bytes),
                   MIB(thread->remote_bytes), thread->shard, thread->is_parked ? "  parked" : "");
}

/* Puts a thread into its place among those that keep most; `top` has room for OVERVIEW_ROWS of them. */
static void rank_thread(struct hz_thread_figures *top, unsigned count, const struct hz_thread_figures *thread) {
    size_t kept = thread->bins_bytes + thread->remote_bytes;
    unsigned place = (unsigned)hz_min(count, OVERVIEW_ROWS);
    while (place > 0 && top[place - 1].bins_bytes + top[place - 1].remote_bytes < kept) {
        if (place < OVERVIEW_ROWS)
            top[place] = top[place - 1];
        place--;
    }
    if (place < OVERVIEW_ROWS)
        top[place] = *thread;
}

static void print_threads(struct hz_report *report, bool verbose) {
    struct hz_thread_figures top[OVERVIEW_ROWS];
    struct hz_thread_figures thread;
    unsigned count = 0;
    hz_report_text(report, "\n  thread name                   cached MiB    in buffer      shard\n");
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next) {
        if (!hz_figures_thread(each, &thread))
            continue;
        if (verbose)
            print_thread(report, &thread);
        else
            rank_thread(top, count, &thread);
        count++;
    }
    for (unsigned place = 0; !verbose && place < hz_min(count, OVERVIEW_ROWS); place++)
        print_thread(report, &top[place]);
    if (!verbose && count > OVERVIEW_ROWS)
        hz_report_text(report, "and %u other threads\n", count - OVERVIEW_ROWS);
}

int hz_overview_print(int fd, bool verbose) {
    struct hz_figures figures;
    struct hz_stats stats;
    struct hz_process about;
    struct hz_report report;
    hz_figures_get(&figures);
    hz_figures_totals(&figures, &stats);
    hz_process_get(&about);
    hz_report_begin(&report, fd, false);
    print_head(&report, &about);
    print_totals(&report, &figures, &stats, &about);
    print_ranges(&report, &figures);
    print_sizes(&report, &figures, verbose);
    print_threads(&report, verbose);
    if (verbose) {
        hz_report_text(&report, "\nfigures below that are 0 are left out\n");
        hz_heap_report_counters(&report, &figures);
        hz_report_string(&report, "config", hz_heap_config_string());
    }
    return hz_report_end(&report);
}

void hz_overview_introduce(int fd, bool whole) {
    struct hz_process about;
    struct hz_report report;
    const char *config = hz_heap_config_string();
    const char *keeper = hz_situation_get().keeper.state;
    bool is_none = strlen(keeper) > 6 && memcmp(keeper, "none: ", 6) == 0;
    uint32_t cpus = hz_cpus_count();
    hz_process_get(&about);
    hz_report_begin(&report, fd, false);
    hz_report_text(&report, "hakozuna " OVERVIEW_VERSION " in %.80s (pid %u): %s, %u CPU%s, %s%s\n", about.program,
                   about.id, lane_name(), cpus, cpus == 1 ? "" : "s", is_none ? "no keeper: " : "keeper ",
                   keeper + 6 * is_none);
    for (size_t at = 0; whole && at < strlen(config); at += 400) /* a text has at most 512 bytes */
        hz_report_text(&report, "%.400s%s", config + at, at + 400 < strlen(config) ? "" : "\n");
    if (whole)
        print_situation(&report);
    (void)hz_report_end(&report); /* diagnostics: a closed stderr cannot be reported */
}
