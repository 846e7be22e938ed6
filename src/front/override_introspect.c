/*
 * override_introspect.c - glibc's introspection of an allocator, answered for our heap: malloc_trim, mallinfo,
 * mallinfo2, malloc_info, malloc_stats, mallopt. In the products only.
 */
#include "hakozuna/hakozuna.h"

#include "base/arena.h"
#include "base/compiler.h"
#include "base/hooks.h"
#include "heap/pages/shard.h"
#include "heap/purge.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

static size_t direct_bytes(void) {
    struct hz_arena_figures figures;
    hz_arena_figures_get(&figures);
    return figures.direct_bytes;
}

/* Returns 1 if memory was given back. `pad`: bytes of free memory that may stay, wherever they are. */
HZ_EXPORT int malloc_trim(size_t pad) {
    return hz_heap_trim(pad) > 0;
}

/* Bytes that may rest; -1 as in glibc: memory never goes back because of their number. */
static bool trim_threshold_set(int bytes) {
    if (bytes < -1)
        return false;
    hz_hooks_enter();
    hz_arena_rest_set(bytes == -1 ? HZ_ARENA_REST_ALL : (size_t)bytes);
    hz_hooks_leave();
    return true;
}

/* Returns 1, or 0 for a value out of range and for an unknown parameter. Some parameters have no counterpart here:
   those are accepted as glibc accepts them, and have no effect. Does not set errno. */
HZ_EXPORT int mallopt(int parameter, int value) {
    enum { MXFAST_MAX = 80 * sizeof(size_t) / 4 }; /* mallopt(3) */
    switch (parameter) {
    case M_TRIM_THRESHOLD:
        return trim_threshold_set(value);
    case M_MMAP_THRESHOLD:
        return value >= 0 && hz_arena_alone_set((size_t)value);
    case M_ARENA_MAX:
        return value >= 0 && hz_shard_limit_set((uint32_t)value);
    case M_MXFAST:
        return value >= 0 && value <= MXFAST_MAX;
    case M_TOP_PAD:
    case M_MMAP_MAX:
    case M_CHECK_ACTION:
    case M_PERTURB:
    case M_ARENA_TEST:
        return 1;
    default:
        return 0;
    }
}

/* Field meanings as in mallinfo(3): arena = from the OS for runs, hblks/hblkhd = direct mappings, uordblks = live,
   fordblks = free (cached included), fsmblks = cached, keepcost = free (cached excluded). */
HZ_EXPORT struct mallinfo2 mallinfo2(void) {
    struct hz_stats stats;
    (void)hz_stats_get(&stats); /* fails for NULL only */
    size_t direct = direct_bytes();
    return (struct mallinfo2){
        .arena = stats.mapped_bytes - hz_min(direct, stats.mapped_bytes),
        .hblks = stats.mapping_count,
        .hblkhd = direct,
        .uordblks = stats.live_bytes,
        .fordblks = stats.cached_bytes + stats.free_bytes,
        .fsmblks = stats.cached_bytes,
        .keepcost = stats.free_bytes,
    };
}

static int to_int(size_t value) {
    return value > INT_MAX ? INT_MAX : (int)value;
}

/* The old interface with int fields: what does not fit shows as INT_MAX instead of wrapping. */
static struct mallinfo info_as_int(void) {
    struct mallinfo2 info = mallinfo2();
    return (struct mallinfo){
        .arena = to_int(info.arena),
        .hblks = to_int(info.hblks),
        .hblkhd = to_int(info.hblkhd),
        .uordblks = to_int(info.uordblks),
        .fordblks = to_int(info.fordblks),
        .fsmblks = to_int(info.fsmblks),
        .keepcost = to_int(info.keepcost),
    };
}

HZ_EXPORT struct mallinfo mallinfo(void) {
    return info_as_int();
}

/* glibc exports two of these functions a second time. */
HZ_EXPORT struct mallinfo __libc_mallinfo(void) {
    return info_as_int();
}

HZ_EXPORT int __libc_mallopt(int parameter, int value) {
    return mallopt(parameter, value);
}

/* XML in the shape of glibc's version 1: one heap, totals, system and address space sizes. options must be 0. */
HZ_EXPORT int malloc_info(int options, FILE *stream) {
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    struct hz_stats stats;
    (void)hz_stats_get(&stats); /* fails for NULL only */
    int written =
        fprintf(stream,
                "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n</sizes>\n"
                "<total type=\"fast\" count=\"0\" size=\"%zu\"/>\n<total type=\"rest\" count=\"0\" size=\"%zu\"/>\n"
                "<system type=\"current\" size=\"%zu\"/>\n</heap>\n"
                "<total type=\"fast\" count=\"0\" size=\"%zu\"/>\n<total type=\"rest\" count=\"0\" size=\"%zu\"/>\n"
                "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n"
                "<system type=\"current\" size=\"%zu\"/>\n<aspace type=\"total\" size=\"%zu\"/>\n</malloc>\n",
                stats.cached_bytes, stats.free_bytes, stats.resident_bytes, stats.cached_bytes, stats.free_bytes,
                stats.mapping_count, direct_bytes(), stats.resident_bytes, stats.mapped_bytes);
    return written < 0 ? -1 : 0;
}

/* To stderr, as glibc does. */
HZ_EXPORT void malloc_stats(void) {
    int saved = errno;
    (void)hz_stats_print(STDERR_FILENO, HZ_STATS_TEXT); /* an error of stderr cannot be reported */
    errno = saved;
}
