/*
 * api.c - the public API of hakozuna.h. Names only.
 */
#include "hakozuna/hakozuna.h"

#include "base/arena/arena.h"
#include "base/arena/peak.h"
#include "base/lists/registry.h"
#include "base/map/budget.h"
#include "base/os/hooks.h"
#include "base/os/os.h"
#include "base/profile/profile.h"
#include "base/watch/guard_pool.h"
#include "base/watch/report.h"
#include "front/announce.h"
#include "front/family.h"
#include "front/fence.h"
#include "front/front.h"
#include "front/reports/leaks.h"
#include "heap/back/keeper.h"
#include "heap/back/limit.h"
#include "heap/back/purge.h"
#include "heap/config.h"
#include "heap/query.h"
#include "heap/report/figures.h"
#include "heap/report/overview.h"
#include "heap/report/stats.h"
#include "heap/threads/park.h"
#include "heap/threads/sample.h"
#include "heap/threads/zone.h"

#include <errno.h>
#include <string.h>

void *hz_malloc(size_t size) {
    return hz_front_malloc(size);
}

void hz_free(void *block) {
    hz_front_free(block);
}

void *hz_calloc(size_t count, size_t size) {
    return hz_front_calloc(count, size);
}

void *hz_realloc(void *block, size_t size) {
    return hz_front_realloc(block, size);
}

void *hz_reallocarray(void *block, size_t count, size_t size) {
    return hz_front_reallocarray(block, count, size);
}

void *hz_aligned_alloc(size_t alignment, size_t size) {
    return hz_front_aligned_alloc(alignment, size);
}

void *hz_aligned_realloc(void *block, size_t alignment, size_t size) {
    return hz_front_aligned_realloc(block, alignment, size);
}

void *hz_rezalloc(void *block, size_t size) {
    return hz_front_rezalloc(block, size);
}

void *hz_recalloc(void *block, size_t count, size_t size) {
    return hz_front_recalloc(block, count, size);
}

void *hz_expand(void *block, size_t size) {
    return hz_front_expand(block, size);
}

struct hz_sized_block hz_malloc_sized(size_t size) {
    void *block = hz_front_malloc(size);
    return (struct hz_sized_block){.block = block, .bytes = hz_front_usable_size(block)};
}

int hz_posix_memalign(void **out, size_t alignment, size_t size) {
    return hz_front_posix_memalign(out, alignment, size);
}

void *hz_memalign(size_t alignment, size_t size) {
    return hz_front_memalign(alignment, size);
}

void *hz_valloc(size_t size) {
    return hz_front_valloc(size);
}

void *hz_pvalloc(size_t size) {
    return hz_front_pvalloc(size);
}

void hz_free_sized(void *block, size_t size) {
    hz_front_free_sized(block, size);
}

void hz_free_aligned_sized(void *block, size_t alignment, size_t size) {
    hz_front_free_aligned_sized(block, alignment, size);
}

void hz_free_batch(void *const *blocks, size_t count) {
    hz_front_free_batch(blocks, count);
}

size_t hz_usable_size(const void *block) {
    return hz_front_usable_size(block);
}

size_t hz_good_size(size_t size) {
    if (hz_guard_rate() != 0 && size <= HZ_GUARD_BLOCK_MAX) /* the block may be guarded, and then has no byte more */
        return hz_max(size, 1);
    return hz_query_good_size(size);
}

struct hz_zone *hz_zone_create(void) {
    return hz_malloc_zone_make();
}

void hz_zone_destroy(struct hz_zone *zone) {
    if (zone != NULL)
        hz_malloc_zone_drop(zone);
}

void *hz_zone_malloc(struct hz_zone *zone, size_t size) {
    return hz_front_zone_malloc(zone, size);
}

void *hz_zone_calloc(struct hz_zone *zone, size_t count, size_t size) {
    return hz_front_zone_calloc(zone, count, size);
}

void *hz_zone_aligned_alloc(struct hz_zone *zone, size_t alignment, size_t size) {
    return hz_front_zone_alloc(zone, alignment, size, false);
}

struct hz_zone *hz_zone_of(const void *block) {
    return hz_front_zone_of(block);
}

/* ---- figures ------------------------------------------------------------------------------------- */

/* Whether the program can be given a struct; if not, sets errno. */
static bool struct_is_wanted(const void *out, size_t bytes) {
    if (out != NULL && bytes != 0)
        return true;
    errno = EINVAL;
    return false;
}

/* The program's struct may be that of an earlier version, which has fewer members, or of a later one, which has more.
 */
static void struct_give(void *out, size_t bytes, const void *ours, size_t our_bytes) {
    size_t known = hz_min(bytes, our_bytes);
    memcpy(out, ours, known);
    memset((char *)out + known, 0, bytes - known);
}

int hz_zone_stats_get(struct hz_zone *zone, struct hz_zone_stats *out, size_t bytes) {
    if (!struct_is_wanted(out, bytes))
        return -1;
    struct hz_zone_figures figures;
    hz_hooks_enter();
    hz_zone_figures_get(zone, &figures);
    hz_hooks_leave();
    const struct hz_zone_stats stats = {
        .live_blocks = figures.live_blocks,
        .live_bytes = figures.live_bytes,
        .free_bytes = figures.free_bytes,
        .held_bytes = figures.held_bytes,
    };
    struct_give(out, bytes, &stats, sizeof(stats));
    return 0;
}

int hz_limit_set(size_t soft_bytes, size_t hard_bytes) {
    if (soft_bytes > hard_bytes && hard_bytes != 0) {
        errno = EINVAL;
        return -1;
    }
    hz_heap_limit_set(soft_bytes, hard_bytes);
    return 0;
}

int hz_limit_get(struct hz_limits *out, size_t bytes) {
    if (!struct_is_wanted(out, bytes))
        return -1;
    const struct hz_limits limits = {
        .soft_bytes = hz_budget_soft_limit(),
        .hard_bytes = hz_budget_hard_limit(),
        .held_bytes = hz_arena_held_bytes(),
    };
    struct_give(out, bytes, &limits, sizeof(limits));
    return 0;
}

void hz_limit_notify(hz_limit_callback *callback, void *context) {
    hz_heap_limit_notify(callback, context);
}

size_t hz_purge(void) {
    if (HZ_CONFIG_FENCES)
        hz_fence_drain();
    return hz_heap_trim(0);
}

void hz_thread_idle(void) {
    hz_heap_thread_idle();
}

int hz_background_set(int on) {
    if (on != 0 && on != 1) {
        errno = EINVAL;
        return -1;
    }
    if (on != 0 ? hz_keeper_allow() : hz_keeper_stop())
        return 0;
    errno = EPERM;
    return -1;
}

void hz_confine(void) {
    hz_announce_filter();
}

const char *hz_version(void) {
    return HZ_STRINGIFY(HZ_VERSION_MAJOR) "." HZ_STRINGIFY(HZ_VERSION_MINOR) "." HZ_STRINGIFY(HZ_VERSION_PATCH);
}

const char *hz_config_string(void) {
    return hz_heap_config_string();
}

int hz_stats_get(struct hz_stats *out, size_t bytes) {
    if (!struct_is_wanted(out, bytes))
        return -1;
    struct hz_stats stats;
    hz_heap_stats(&stats);
    struct_give(out, bytes, &stats, sizeof(stats));
    return 0;
}

void hz_stats_peak_reset(void) {
    hz_peak_reset();
}

static struct hz_thread_stats thread_stats_from(const struct hz_thread_figures *figures) {
    return (struct hz_thread_stats){
        .thread_id = figures->id,
        .shard = figures->shard,
        .is_parked = figures->is_parked,
        .cached_bytes = figures->bins_bytes + figures->remote_bytes,
        .remote_bytes = figures->remote_bytes,
    };
}

int hz_thread_stats_get(struct hz_thread_stats *out, size_t bytes) {
    if (!struct_is_wanted(out, bytes))
        return -1;
    struct hz_thread_block *mine = hz_thread_mine;
    struct hz_thread_figures figures;
    struct hz_thread_stats stats = {0};
    if (mine != NULL && hz_figures_thread(hz_thread_registered(mine), &figures))
        stats = thread_stats_from(&figures);
    struct_give(out, bytes, &stats, sizeof(stats));
    return 0;
}

size_t hz_threads_stats_get(struct hz_thread_stats *out, size_t count, size_t bytes) {
    size_t found = 0;
    if (count != 0 && !struct_is_wanted(out, bytes))
        return 0;
    struct hz_thread_figures figures;
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next) {
        if (!hz_figures_thread(each, &figures))
            continue;
        if (found < count) {
            struct hz_thread_stats stats = thread_stats_from(&figures);
            struct_give((char *)out + found * bytes, bytes, &stats, sizeof(stats));
        }
        found++;
    }
    return found;
}

/* 0, or the errno that says why sampling cannot begin. */
static int sampling_refusal(size_t rate_bytes) {
    if (rate_bytes == 0 || rate_bytes > HZ_PROFILE_RATE_MAX)
        return EINVAL;
    if (HZ_CONFIG_FENCES)
        return ENOTSUP;
    if (hz_sampling_is_on())
        return EALREADY;
    if (hz_profile_prepared_rate() != 0) /* it waits */
        return 0;
    bool is_alone = hz_threads_stats_get(NULL, 0, 0) <= (size_t)(hz_thread_mine != NULL);
    return hz_os_is_first_thread() && is_alone ? 0 : EBUSY;
}

int hz_sampling_start(size_t rate_bytes) {
    int error = sampling_refusal(rate_bytes);
    if (error == 0 && hz_profile_prepared_rate() != 0)
        (void)hz_sample_begin(HZ_SAMPLE_FOR_GOOD); /* a thread that cannot be parked is not sampled */
    else if (error == 0 && !hz_sample_start_profile(rate_bytes))
        error = ENOMEM;
    if (error != 0)
        errno = error;
    return error == 0 ? 0 : -1;
}

int hz_sampling_notify(hz_sampling_callback *callback, void *context) {
    if (hz_profile_rate() == 0) {
        errno = ENOTSUP;
        return -1;
    }
    hz_hooks_enter(); /* in a fork's child a vanished thread may hold the profile's lock */
    hz_profile_listen(callback, context);
    hz_hooks_leave();
    return 0;
}

/* Names of the heap group's figures in JSON. */
static void report_heap(struct hz_report *report, const struct hz_figures *figures, const struct hz_stats *stats) {
    hz_report_group_open(report, "heap");
    hz_report_number(report, "live_bytes", stats->live_bytes);
    hz_report_number(report, "cached_bytes", stats->cached_bytes);
    hz_report_number(report, "free_bytes", stats->free_bytes);
    hz_report_number(report, "resident_bytes", stats->resident_bytes);
    hz_report_number(report, "mapped_bytes", stats->mapped_bytes);
    hz_report_number(report, "purged_bytes", stats->purged_bytes);
    hz_report_number(report, "mapping_count", stats->mapping_count);
    hz_report_number(report, "alone_count", figures->large.alone_count);
    hz_report_number(report, "alone_bytes", figures->large.alone_bytes);
    hz_report_number(report, "peak_bytes", stats->peak_bytes);
    hz_report_group_close(report);
}

static int print_json(int fd) {
    struct hz_figures figures;
    struct hz_stats stats;
    struct hz_report report;
    hz_figures_get(&figures);
    hz_figures_totals(&figures, &stats);
    hz_report_begin(&report, fd, true);
    hz_report_string(&report, "version", hz_version());
    hz_report_string(&report, "config", hz_config_string());
    hz_heap_report_process(&report, &figures);
    report_heap(&report, &figures, &stats);
    hz_heap_report(&report, &figures);
    return hz_report_end(&report);
}

int hz_stats_print(int fd, enum hz_stats_format format) {
    int error = EINVAL;
    if (format == HZ_STATS_JSON)
        error = print_json(fd);
    else if (format == HZ_STATS_TEXT || format == HZ_STATS_VERBOSE)
        error = hz_overview_print(fd, format == HZ_STATS_VERBOSE);
    if (error != 0)
        errno = error;
    return error == 0 ? 0 : -1;
}

int hz_leaks_check(int fd, struct hz_leaks *out, size_t bytes) {
    struct hz_leaks leaks;
    if (!struct_is_wanted(out, bytes))
        return -1;
    int error = hz_leaks_report(fd, &leaks);
    struct_give(out, bytes, &leaks, sizeof(leaks));
    if (error != 0)
        errno = error;
    return error == 0 ? 0 : -1;
}
