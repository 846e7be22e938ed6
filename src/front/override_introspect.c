/*
 * override_introspect.c - glibc's own questions to an allocator, answered for our heap: malloc_trim, mallinfo,
 * mallinfo2, malloc_info, malloc_stats, mallopt. In the products only. Also the entry of a preloaded library.
 */
#include "base/arena.h"
#include "base/os.h"
#include "front/front.h"
#include "hakozuna/hakozuna.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static size_t direct_bytes(void) {
    struct hz_arena_figures figures;
    hz_arena_figures_get(&figures);
    return figures.direct_bytes;
}

/* Returns 1 if memory was given back. `pad` bytes to keep at the top have no meaning for us: there is no top. */
HZ_EXPORT int malloc_trim(size_t pad HZ_UNUSED) {
    return hz_purge() > 0;
}

/* Our lanes are compiled in: known parameters are accepted and have no effect, as glibc's return value for "done" says
 * they may. */
HZ_EXPORT int mallopt(int parameter, int value HZ_UNUSED) {
    switch (parameter) {
    case M_MXFAST:
    case M_TRIM_THRESHOLD:
    case M_TOP_PAD:
    case M_MMAP_THRESHOLD:
    case M_MMAP_MAX:
    case M_CHECK_ACTION:
    case M_PERTURB:
    case M_ARENA_TEST:
    case M_ARENA_MAX:
        return 1;
    default:
        return 0;
    }
}

/* Field meanings as in mallinfo(3): arena = from the OS for runs, hblks/hblkhd = direct mappings, uordblks = live,
   fordblks = free (cached included), keepcost = could be given back at once. */
HZ_EXPORT struct mallinfo2 mallinfo2(void) {
    struct hz_stats stats;
    hz_engine_stats(&stats);
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
HZ_EXPORT struct mallinfo mallinfo(void) {
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

/* XML in the shape of glibc's version 1: one heap, totals, system and address space sizes. options must be 0. */
HZ_EXPORT int malloc_info(int options, FILE *stream) {
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    struct hz_stats stats;
    hz_engine_stats(&stats);
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
    (void)hz_stats_print(STDERR_FILENO, HZ_STATS_TEXT); /* there is nobody to tell about an error of stderr */
    errno = saved;
}

static bool is_set(const char *variable, const char *wanted) {
    const char *value = hz_os_getenv(variable);
    return value != NULL && strcmp(value, wanted) == 0;
}

/* When the library is loaded. Our fork handler must be older than the program's: handlers run in the child in the order
   in which they were installed, and may allocate. HAKOZUNA_SHOW_CONFIG=1: the configuration on stderr. */
__attribute__((constructor)) static void at_load(void) {
    hz_engine_start();
    if (!is_set("HAKOZUNA_SHOW_CONFIG", "1"))
        return;
    const char *config = hz_config_string();
    (void)hz_os_write(STDERR_FILENO, config, strlen(config)); /* diagnostics: nothing to do if stderr is closed */
    (void)hz_os_write(STDERR_FILENO, "\n", 1);
}

/* When the program ends. HAKOZUNA_SHOW_STATS=1 or =json: the statistics on stderr. */
__attribute__((destructor)) static void at_unload(void) {
    bool json = is_set("HAKOZUNA_SHOW_STATS", "json");
    if (json || is_set("HAKOZUNA_SHOW_STATS", "1"))
        (void)hz_stats_print(STDERR_FILENO, json ? HZ_STATS_JSON : HZ_STATS_TEXT); /* as above */
}
