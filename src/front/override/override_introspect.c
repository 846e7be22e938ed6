/*
 * override_introspect.c - glibc's introspection of an allocator, answered for our heap: malloc_trim, mallinfo,
 * mallinfo2, malloc_info, malloc_stats, mallopt. In the products only.
 */
#include "hakozuna/hakozuna.h"

#include "base/arena/arena.h"
#include "base/map/region.h"
#include "base/os/compiler.h"
#include "base/os/hooks.h"
#include "front/fence.h"
#include "heap/back/purge.h"
#include "heap/pages/shard.h"
#include "heap/report/figures.h"

#include <errno.h>
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

/* What glibc's forms say, all from one gathering, so the figures of a form agree with each other. */
struct forms {
    struct hz_figures figures;
    struct hz_stats totals;
    size_t in_use_bytes;   /* live, but for blocks that are mappings of their own */
    size_t arena_bytes;    /* in use, at rest or free */
    size_t fast_count;     /* freed blocks that rest; "fast", as glibc calls them */
    size_t rest_count;     /* the other free blocks that hold memory, and free pages */
    size_t unsorted_bytes; /* what is free beside such blocks: free pages, and parts of pages too small for a block */
    size_t unsorted_count; /* free pages */
};

/* Free blocks of a class that hold memory: those that rest, and those in pages. */
struct free_blocks {
    size_t fast_count;
    size_t rest_count;
};

static struct free_blocks free_blocks_of(const struct hz_figures *figures, unsigned size_class) {
    struct hz_size_figures row;
    if (!hz_figures_size(figures, size_class, &row))
        return (struct free_blocks){0};
    return (struct free_blocks){
        .fast_count = row.resting_blocks,
        .rest_count = hz_min(row.free_blocks, row.free_bytes / row.block_bytes),
    };
}

static void forms_get(struct forms *forms) {
    struct hz_range_figures pages;
    *forms = (struct forms){0};
    hz_figures_get(&forms->figures);
    hz_figures_totals(&forms->figures, &forms->totals);
    hz_figures_range(&forms->figures, HZ_RANGE_FREE_PAGES, &pages);
    forms->in_use_bytes = forms->totals.live_bytes - forms->figures.large.alone_bytes;
    forms->arena_bytes = forms->in_use_bytes + forms->totals.cached_bytes + forms->totals.free_bytes;
    forms->unsorted_bytes = forms->totals.free_bytes;
    forms->unsorted_count = forms->rest_count = pages.held_bytes >> HZ_PAGE_LOG2;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        struct free_blocks blocks = free_blocks_of(&forms->figures, size_class);
        forms->fast_count += blocks.fast_count;
        forms->rest_count += blocks.rest_count;
        forms->unsorted_bytes -= blocks.rest_count * hz_class_bytes(size_class);
    }
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

/* The equations of mallinfo(3) hold: arena = uordblks + fordblks; a block is in uordblks, or in hblks and hblkhd if it
   is a mapping of its own. Memory that was given back to the system is in no field, so arena + hblkhd is resident_bytes
   of hz_stats_get. smblks and fsmblks: what rests in bins and the like; ordblks: the other free blocks, and free pages;
   keepcost: their bytes. */
HZ_EXPORT struct mallinfo2 mallinfo2(void) {
    struct forms forms;
    forms_get(&forms);
    return (struct mallinfo2){
        .arena = forms.arena_bytes,
        .ordblks = forms.rest_count,
        .smblks = forms.fast_count,
        .hblks = forms.figures.large.alone_count,
        .hblkhd = forms.figures.large.alone_bytes,
        .uordblks = forms.in_use_bytes,
        .fordblks = forms.totals.cached_bytes + forms.totals.free_bytes,
        .fsmblks = forms.totals.cached_bytes,
        .keepcost = forms.totals.free_bytes,
    };
}

/* The low 32 bits, as in glibc. */
static int to_int(size_t value) {
    return (int)(uint32_t)value;
}

/* The old interface with int fields. What does not fit wraps, as in glibc: programs that know of it add 2^32. */
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

/* A line for each size class that has free blocks, as glibc has one for each size of free chunks. The sums of all lines
   are those of "fast" and "rest" together. */
static void xml_sizes(const struct forms *forms, FILE *stream) {
    size_t below = 0;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        size_t block_bytes = hz_class_bytes(size_class);
        struct free_blocks blocks = free_blocks_of(&forms->figures, size_class);
        size_t count = blocks.fast_count + blocks.rest_count;
        if (count > 0)
            (void)fprintf(stream, "  <size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\"/>\n", below + 1,
                          block_bytes, count * block_bytes, count);
        below = block_bytes;
    }
    if (forms->unsorted_bytes > 0)
        (void)fprintf(stream, "  <unsorted from=\"1\" to=\"%d\" total=\"%zu\" count=\"%zu\"/>\n", HZ_UNIT_BYTES,
                      forms->unsorted_bytes, forms->unsorted_count);
}

static void xml_totals(const struct forms *forms, FILE *stream) {
    (void)fprintf(stream,
                  "<total type=\"fast\" count=\"%zu\" size=\"%zu\"/>\n"
                  "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n",
                  forms->fast_count, forms->totals.cached_bytes, forms->rest_count, forms->totals.free_bytes);
}

/* "current" is mallinfo2's arena. The most so far includes blocks that are mappings of their own. */
static void xml_system(const struct forms *forms, FILE *stream) {
    size_t mapped = forms->totals.mapped_bytes - forms->figures.large.alone_bytes;
    (void)fprintf(stream,
                  "<system type=\"current\" size=\"%zu\"/>\n<system type=\"max\" size=\"%zu\"/>\n"
                  "<aspace type=\"total\" size=\"%zu\"/>\n<aspace type=\"mprotect\" size=\"%zu\"/>\n",
                  forms->arena_bytes, forms->totals.peak_bytes, mapped, mapped);
}

/* XML in the shape of glibc's version 1: one heap with its free blocks by size, totals, system and address space sizes.
   Returns what glibc returns: for unknown options the error number (its manual says -1 and errno), else 0. ferror
   reports an error of the stream, as after every other function that writes to a stream. */
HZ_EXPORT int malloc_info(int options, FILE *stream) {
    if (options != 0)
        return EINVAL;
    struct forms forms;
    forms_get(&forms); /* before the stream allocates its buffer */
    (void)fprintf(stream, "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n");
    xml_sizes(&forms, stream);
    (void)fprintf(stream, "</sizes>\n");
    xml_totals(&forms, stream);
    xml_system(&forms, stream);
    (void)fprintf(stream, "</heap>\n");
    xml_totals(&forms, stream);
    (void)fprintf(stream, "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n", forms.figures.large.alone_count,
                  forms.figures.large.alone_bytes);
    xml_system(&forms, stream);
    (void)fprintf(stream, "</malloc>\n");
    return 0;
}

/* To stderr, as glibc does. */
HZ_EXPORT void malloc_stats(void) {
    int saved = errno;
    (void)hz_stats_print(STDERR_FILENO, HZ_STATS_TEXT); /* an error of stderr cannot be reported */
    errno = saved;
}
