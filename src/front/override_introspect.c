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
#include "heap/figures.h"
#include "heap/pages/shard.h"
#include "heap/purge.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

/* What this file needs of glibc's <malloc.h>. The header itself is not included: before glibc 2.33 it has no mallinfo2,
   and a library built with such a glibc may run with a later one. */
enum { M_MXFAST = 1, M_TRIM_THRESHOLD = -1, M_MMAP_THRESHOLD = -3, M_ARENA_MAX = -8 };

struct mallinfo {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

struct mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

/* Bytes and number of free blocks: in bins and the like ("fast", as glibc calls it), and in pages. */
struct free_blocks {
    size_t fast_count;
    size_t fast_bytes;
    size_t rest_count;
    size_t rest_bytes;
};

static struct free_blocks free_blocks_of(const struct hz_size_figures *row) {
    return (struct free_blocks){
        .fast_count = row->resting_blocks,
        .fast_bytes = row->resting_bytes,
        .rest_count = row->free_blocks,
        .rest_bytes = row->free_bytes,
    };
}

static struct free_blocks free_blocks_of_all(const struct hz_figures *figures) {
    struct free_blocks all = {0};
    struct hz_size_figures row;
    for (unsigned index = 0; index < HZ_SIZES; index++) {
        if (!hz_figures_size(figures, index, &row))
            continue;
        struct free_blocks one = free_blocks_of(&row);
        all.fast_count += one.fast_count;
        all.fast_bytes += one.fast_bytes;
        all.rest_count += one.rest_count;
        all.rest_bytes += one.rest_bytes;
    }
    return all;
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
   fordblks = free (cached included), ordblks = number of free blocks in pages, smblks/fsmblks = cached, keepcost = free
   (cached excluded). */
HZ_EXPORT struct mallinfo2 mallinfo2(void) {
    struct hz_figures figures;
    struct hz_stats stats;
    hz_figures_get(&figures);
    hz_figures_totals(&figures, &stats);
    struct free_blocks all = free_blocks_of_all(&figures);
    size_t direct = figures.arena.direct_bytes;
    return (struct mallinfo2){
        .arena = stats.mapped_bytes - hz_min(direct, stats.mapped_bytes),
        .ordblks = all.rest_count,
        .smblks = all.fast_count,
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
        .ordblks = to_int(info.ordblks),
        .smblks = to_int(info.smblks),
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

/* A line for each size class that has free blocks, as glibc has one for each size of free chunks. */
static void xml_sizes(const struct hz_figures *figures, FILE *stream) {
    size_t below = 0;
    struct hz_size_figures row;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        size_t block_bytes = hz_class_bytes(size_class);
        if (hz_figures_size(figures, size_class, &row) && row.resting_blocks + row.free_blocks > 0)
            (void)fprintf(stream, "  <size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\"/>\n", below + 1,
                          block_bytes, row.resting_bytes + row.free_bytes, row.resting_blocks + row.free_blocks);
        below = block_bytes;
    }
}

static void xml_totals(const struct free_blocks *all, FILE *stream) {
    (void)fprintf(stream,
                  "<total type=\"fast\" count=\"%zu\" size=\"%zu\"/>\n"
                  "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n",
                  all->fast_count, all->fast_bytes, all->rest_count, all->rest_bytes);
}

/* XML in the shape of glibc's version 1: one heap with its free blocks by size, totals, system and address space sizes.
   Returns what glibc returns: for unknown options the error number (its manual says -1 and errno), else 0. ferror
   reports an error of the stream, as after every other function that writes to a stream. */
HZ_EXPORT int malloc_info(int options, FILE *stream) {
    if (options != 0)
        return EINVAL;
    struct hz_figures figures;
    struct hz_stats stats;
    hz_figures_get(&figures); /* before the stream allocates its buffer */
    hz_figures_totals(&figures, &stats);
    struct free_blocks all = free_blocks_of_all(&figures);
    (void)fprintf(stream, "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n");
    xml_sizes(&figures, stream);
    (void)fprintf(stream, "</sizes>\n");
    xml_totals(&all, stream);
    (void)fprintf(stream, "<system type=\"current\" size=\"%zu\"/>\n</heap>\n", stats.resident_bytes);
    xml_totals(&all, stream);
    (void)fprintf(stream,
                  "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n<system type=\"current\" size=\"%zu\"/>\n"
                  "<aspace type=\"total\" size=\"%zu\"/>\n</malloc>\n",
                  figures.arena.direct_count, figures.arena.direct_bytes, stats.resident_bytes, stats.mapped_bytes);
    return 0;
}

/* To stderr, as glibc does. */
HZ_EXPORT void malloc_stats(void) {
    int saved = errno;
    (void)hz_stats_print(STDERR_FILENO, HZ_STATS_TEXT); /* an error of stderr cannot be reported */
    errno = saved;
}
