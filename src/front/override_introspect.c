/*
 * override_introspect.c - glibc's introspection of an allocator, answered for our heap: malloc_trim, mallinfo,
 * mallinfo2, malloc_info, malloc_stats, mallopt. In the products only.
 */
#include "hakozuna/hakozuna.h"

#include "base/arena.h"
#include "base/arena_figures.h"
#include "base/compiler.h"
#include "base/hooks.h"
#include "front/fence.h"
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
    if (HZ_CONFIG_FENCES)
        hz_fence_drain();
    return hz_heap_trim(pad) > 0;
}

/* Returns what glibc 2.36 returns: 0 for M_MXFAST out of range, else 1, even for a value without effect and for an
   unknown parameter. Like glibc, treats a negative size as larger than any other. Some parameters have no counterpart
   here. Does not set errno. */
HZ_EXPORT int mallopt(int parameter, int value) {
    enum { MXFAST_MAX = 80 * sizeof(size_t) / 4 }; /* mallopt(3) */
    size_t bytes = value < 0 ? HZ_ARENA_REST_ALL : (size_t)value;
    switch (parameter) {
    case M_MXFAST:
        return value >= 0 && value <= MXFAST_MAX;
    case M_TRIM_THRESHOLD:
        hz_hooks_enter();
        hz_arena_rest_set(bytes);
        hz_hooks_leave();
        break;
    case M_MMAP_THRESHOLD:
        hz_arena_alone_set(bytes);
        break;
    case M_ARENA_MAX:
        if (value >= 0)
            (void)hz_shard_limit_set((uint32_t)value); /* refused where each thread must have a shard of its own */
        break;
    default:
        break;
    }
    return 1;
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

/* XML in the shape of glibc's version 1: one heap, totals, system and address space sizes. Returns what glibc returns:
   for unknown options the error number (its manual says -1 and errno), else 0. ferror reports an
   error of the stream, as after every other function that writes to a stream. */
HZ_EXPORT int malloc_info(int options, FILE *stream) {
    if (options != 0)
        return EINVAL;
    struct hz_stats stats;
    (void)hz_stats_get(&stats); /* fails for NULL only */
    (void)fprintf(stream,
                  "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n</sizes>\n"
                  "<total type=\"fast\" count=\"0\" size=\"%zu\"/>\n<total type=\"rest\" count=\"0\" size=\"%zu\"/>\n"
                  "<system type=\"current\" size=\"%zu\"/>\n</heap>\n"
                  "<total type=\"fast\" count=\"0\" size=\"%zu\"/>\n<total type=\"rest\" count=\"0\" size=\"%zu\"/>\n"
                  "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n"
                  "<system type=\"current\" size=\"%zu\"/>\n<aspace type=\"total\" size=\"%zu\"/>\n</malloc>\n",
                  stats.cached_bytes, stats.free_bytes, stats.resident_bytes, stats.cached_bytes, stats.free_bytes,
                  stats.mapping_count, direct_bytes(), stats.resident_bytes, stats.mapped_bytes);
    return 0;
}

/* To stderr, as glibc does. */
HZ_EXPORT void malloc_stats(void) {
    int saved = errno;
    (void)hz_stats_print(STDERR_FILENO, HZ_STATS_TEXT); /* an error of stderr cannot be reported */
    errno = saved;
}
