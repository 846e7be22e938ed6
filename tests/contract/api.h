/*
 * api.h - the names that the contract, stress and death suites call.
 *
 * t_malloc and its relatives stand for one of two families:
 *   default           hz_malloc ... of hakozuna.h, linked into the test program;
 *   HZ_TEST_SYSTEM=1  malloc ... of the library that the dynamic linker finds: glibc, or, when the program runs with
 *                     LD_PRELOAD=libhakozuna.so, the override names of our library. Functions that glibc 2.36 lacks
 *                     (free_sized, hz_good_size, ...) are looked up with dlsym and tested where they exist.
 * So one suite checks itself on glibc, and tests our API under its own names and our replacement of the system's names.
 *
 * All calls are out of line, through pointers and an asm barrier: compilers know what malloc means and would
 * otherwise remove pairs of calls or warn about the deliberate misuse in these tests.
 */
#ifndef HZ_TESTS_CONTRACT_API_H
#define HZ_TESTS_CONTRACT_API_H

#include "hakozuna/hakozuna.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <malloc.h>

#ifndef HZ_TEST_SYSTEM
#define HZ_TEST_SYSTEM 0
#endif

struct t_entries {
    void *(*malloc_fn)(size_t);
    void (*free_fn)(void *);
    void *(*calloc_fn)(size_t, size_t);
    void *(*realloc_fn)(void *, size_t);
    void *(*reallocarray_fn)(void *, size_t, size_t);
    void *(*aligned_alloc_fn)(size_t, size_t);
    int (*posix_memalign_fn)(void **, size_t, size_t);
    void *(*memalign_fn)(size_t, size_t);
    void *(*valloc_fn)(size_t);
    void *(*pvalloc_fn)(size_t);
    /* The entries below are NULL where the family under test lacks the function. */
    size_t (*usable_size_fn)(const void *);
    void (*free_sized_fn)(void *, size_t);
    void (*free_aligned_sized_fn)(void *, size_t, size_t);
    size_t (*good_size_fn)(size_t);
    void *(*aligned_realloc_fn)(void *, size_t, size_t);
    void *(*rezalloc_fn)(void *, size_t);
    void *(*recalloc_fn)(void *, size_t, size_t);
    void *(*expand_fn)(void *, size_t);
    struct hz_sized_block (*malloc_sized_fn)(size_t);
    void (*free_batch_fn)(void *const *, size_t);
    void (*thread_idle_fn)(void);
    int (*background_set_fn)(int);
    int (*thread_stats_get_fn)(struct hz_thread_stats *, size_t);
    size_t (*threads_stats_get_fn)(struct hz_thread_stats *, size_t, size_t);
    void (*stats_peak_reset_fn)(void);
    struct hz_zone *(*zone_create_fn)(void);
    void (*zone_destroy_fn)(struct hz_zone *);
    void *(*zone_malloc_fn)(struct hz_zone *, size_t);
    void *(*zone_calloc_fn)(struct hz_zone *, size_t, size_t);
    void *(*zone_aligned_alloc_fn)(struct hz_zone *, size_t, size_t);
    struct hz_zone *(*zone_of_fn)(const void *);
    int (*zone_stats_get_fn)(struct hz_zone *, struct hz_zone_stats *, size_t);
    size_t (*purge_fn)(void);
    const char *(*version_fn)(void);
    const char *(*config_fn)(void);
    int (*stats_print_fn)(int, enum hz_stats_format);
    int (*stats_get_fn)(struct hz_stats *, size_t);
    int (*limit_set_fn)(size_t, size_t);
    int (*limit_get_fn)(struct hz_limits *, size_t);
    void (*limit_notify_fn)(hz_limit_callback *, void *);
    int (*sampling_start_fn)(size_t);
    int (*sampling_notify_fn)(hz_sampling_callback *, void *);
};

#if HZ_TEST_SYSTEM

inline constexpr bool t_system = true;

template <typename Fn> inline void t_find(Fn &entry, const char *name) {
    entry = reinterpret_cast<Fn>(dlsym(RTLD_DEFAULT, name));
}

inline t_entries t_make_entries() {
    t_entries e = {};
    e.malloc_fn = malloc;
    e.free_fn = free;
    e.calloc_fn = calloc;
    e.realloc_fn = realloc;
    e.reallocarray_fn = reallocarray;
    e.aligned_alloc_fn = aligned_alloc;
    e.posix_memalign_fn = posix_memalign;
    e.memalign_fn = memalign;
    e.valloc_fn = valloc;
    e.pvalloc_fn = pvalloc;
    t_find(e.usable_size_fn, "malloc_usable_size");
    t_find(e.free_sized_fn, "free_sized");
    t_find(e.free_aligned_sized_fn, "free_aligned_sized");
    t_find(e.good_size_fn, "hz_good_size");
    t_find(e.aligned_realloc_fn, "hz_aligned_realloc");
    t_find(e.rezalloc_fn, "hz_rezalloc");
    t_find(e.recalloc_fn, "hz_recalloc");
    t_find(e.expand_fn, "hz_expand");
    t_find(e.malloc_sized_fn, "hz_malloc_sized");
    t_find(e.free_batch_fn, "hz_free_batch");
    t_find(e.thread_idle_fn, "hz_thread_idle");
    t_find(e.background_set_fn, "hz_background_set");
    t_find(e.thread_stats_get_fn, "hz_thread_stats_get");
    t_find(e.threads_stats_get_fn, "hz_threads_stats_get");
    t_find(e.stats_peak_reset_fn, "hz_stats_peak_reset");
    t_find(e.zone_create_fn, "hz_zone_create");
    t_find(e.zone_destroy_fn, "hz_zone_destroy");
    t_find(e.zone_malloc_fn, "hz_zone_malloc");
    t_find(e.zone_calloc_fn, "hz_zone_calloc");
    t_find(e.zone_aligned_alloc_fn, "hz_zone_aligned_alloc");
    t_find(e.zone_of_fn, "hz_zone_of");
    t_find(e.zone_stats_get_fn, "hz_zone_stats_get");
    t_find(e.purge_fn, "hz_purge");
    t_find(e.version_fn, "hz_version");
    t_find(e.config_fn, "hz_config_string");
    t_find(e.stats_print_fn, "hz_stats_print");
    t_find(e.stats_get_fn, "hz_stats_get");
    t_find(e.limit_set_fn, "hz_limit_set");
    t_find(e.limit_get_fn, "hz_limit_get");
    t_find(e.limit_notify_fn, "hz_limit_notify");
    t_find(e.sampling_start_fn, "hz_sampling_start");
    t_find(e.sampling_notify_fn, "hz_sampling_notify");
    return e;
}

#else

inline constexpr bool t_system = false;

inline t_entries t_make_entries() {
    t_entries e = {};
    e.malloc_fn = hz_malloc;
    e.free_fn = hz_free;
    e.calloc_fn = hz_calloc;
    e.realloc_fn = hz_realloc;
    e.reallocarray_fn = hz_reallocarray;
    e.aligned_alloc_fn = hz_aligned_alloc;
    e.posix_memalign_fn = hz_posix_memalign;
    e.memalign_fn = hz_memalign;
    e.valloc_fn = hz_valloc;
    e.pvalloc_fn = hz_pvalloc;
    e.usable_size_fn = hz_usable_size;
    e.free_sized_fn = hz_free_sized;
    e.free_aligned_sized_fn = hz_free_aligned_sized;
    e.good_size_fn = hz_good_size;
    e.aligned_realloc_fn = hz_aligned_realloc;
    e.rezalloc_fn = hz_rezalloc;
    e.recalloc_fn = hz_recalloc;
    e.expand_fn = hz_expand;
    e.malloc_sized_fn = hz_malloc_sized;
    e.free_batch_fn = hz_free_batch;
    e.thread_idle_fn = hz_thread_idle;
    e.background_set_fn = hz_background_set;
    e.thread_stats_get_fn = hz_thread_stats_get;
    e.threads_stats_get_fn = hz_threads_stats_get;
    e.stats_peak_reset_fn = hz_stats_peak_reset;
    e.zone_create_fn = hz_zone_create;
    e.zone_destroy_fn = hz_zone_destroy;
    e.zone_malloc_fn = hz_zone_malloc;
    e.zone_calloc_fn = hz_zone_calloc;
    e.zone_aligned_alloc_fn = hz_zone_aligned_alloc;
    e.zone_of_fn = hz_zone_of;
    e.zone_stats_get_fn = hz_zone_stats_get;
    e.purge_fn = hz_purge;
    e.version_fn = hz_version;
    e.config_fn = hz_config_string;
    e.stats_print_fn = hz_stats_print;
    e.stats_get_fn = hz_stats_get;
    e.limit_set_fn = hz_limit_set;
    e.limit_get_fn = hz_limit_get;
    e.limit_notify_fn = hz_limit_notify;
    e.sampling_start_fn = hz_sampling_start;
    e.sampling_notify_fn = hz_sampling_notify;
    return e;
}

#endif

inline const t_entries t_table = t_make_entries();

#define T_OUT_OF_LINE inline __attribute__((noinline))

template <typename T> inline T *t_opaque(T *pointer) {
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

T_OUT_OF_LINE void *t_malloc(size_t size) {
    return t_opaque(t_table.malloc_fn(size));
}
T_OUT_OF_LINE void t_free(void *block) {
    t_table.free_fn(t_opaque(block));
}
T_OUT_OF_LINE void *t_calloc(size_t count, size_t size) {
    return t_opaque(t_table.calloc_fn(count, size));
}
T_OUT_OF_LINE void *t_realloc(void *block, size_t size) {
    return t_opaque(t_table.realloc_fn(t_opaque(block), size));
}
T_OUT_OF_LINE void *t_reallocarray(void *block, size_t count, size_t size) {
    return t_opaque(t_table.reallocarray_fn(t_opaque(block), count, size));
}
T_OUT_OF_LINE void *t_aligned_alloc(size_t alignment, size_t size) {
    return t_opaque(t_table.aligned_alloc_fn(alignment, size));
}
T_OUT_OF_LINE int t_posix_memalign(void **out, size_t alignment, size_t size) {
    return t_table.posix_memalign_fn(t_opaque(out), alignment, size);
}
T_OUT_OF_LINE void *t_memalign(size_t alignment, size_t size) {
    return t_opaque(t_table.memalign_fn(alignment, size));
}
T_OUT_OF_LINE void *t_valloc(size_t size) {
    return t_opaque(t_table.valloc_fn(size));
}
T_OUT_OF_LINE void *t_pvalloc(size_t size) {
    return t_opaque(t_table.pvalloc_fn(size));
}
T_OUT_OF_LINE size_t t_usable_size(const void *block) {
    return t_table.usable_size_fn(t_opaque(block));
}
T_OUT_OF_LINE void t_free_sized(void *block, size_t size) {
    t_table.free_sized_fn(t_opaque(block), size);
}
T_OUT_OF_LINE void t_free_aligned_sized(void *block, size_t alignment, size_t size) {
    t_table.free_aligned_sized_fn(t_opaque(block), alignment, size);
}
T_OUT_OF_LINE void *t_aligned_realloc(void *block, size_t alignment, size_t size) {
    return t_table.aligned_realloc_fn(t_opaque(block), alignment, size);
}
T_OUT_OF_LINE void *t_rezalloc(void *block, size_t size) {
    return t_opaque(t_table.rezalloc_fn(t_opaque(block), size));
}
T_OUT_OF_LINE void *t_recalloc(void *block, size_t count, size_t size) {
    return t_opaque(t_table.recalloc_fn(t_opaque(block), count, size));
}
T_OUT_OF_LINE void *t_expand(void *block, size_t size) {
    return t_table.expand_fn(t_opaque(block), size);
}
T_OUT_OF_LINE size_t t_good_size(size_t size) {
    return t_table.good_size_fn(size);
}
/* A C caller can pass any int, which is no value of the enum to C++. */
__attribute__((no_sanitize("enum"))) T_OUT_OF_LINE int t_stats_print(int fd, enum hz_stats_format format) {
    return t_table.stats_print_fn(fd, format);
}
T_OUT_OF_LINE int t_stats_get(struct hz_stats *out) {
    return t_table.stats_get_fn(out, sizeof(*out));
}

/* True when the blocks come from our library, under either family of names. */
inline bool t_ours() {
    return t_table.config_fn != nullptr;
}

/* True when the library's configuration has this word, for example "checks=1". */
inline bool t_config_has(const char *word) {
    if (t_table.config_fn == nullptr)
        return false;
    size_t length = strlen(word);
    for (const char *at = t_table.config_fn(); (at = strstr(at, word)) != nullptr; at += length) {
        bool starts = at == t_table.config_fn() || at[-1] == ' ';
        if (starts && (at[length] == ' ' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* Under a sanitizer nothing but malloc_trim uses glibc's own malloc, whose first call sets it up without a lock:
 * threads whose first calls overlapped would find it half set up. So one call comes before main. */
inline const int t_first_trim = malloc_trim(0);

/* Returns free memory to the OS: that of the family under test, and glibc's, which may hold the test's containers. */
inline void t_give_back() {
    if (t_table.purge_fn != nullptr)
        (void)t_table.purge_fn();
    malloc_trim(0);
}

/* For tests of promises that only our library makes. */
#define T_ONLY_OURS()                                                                                                  \
    if (!t_ours()) {                                                                                                   \
        GTEST_SKIP() << "only promised by hakozuna; this run tests the system's malloc";                               \
    }

/* For functions that have no hz_ name and exist under the system's names only. */
#define T_ONLY_SYSTEM_NAMES()                                                                                          \
    if (!t_system) {                                                                                                   \
        GTEST_SKIP() << "a test of the system's names; run the HZ_TEST_SYSTEM build under LD_PRELOAD";                 \
    }

/* Suites on the preloaded library run with the keeper. The test libraries have none: tests that compare figures with a
   ledger need a heap that only their own calls change, and unit tests do the keeper's work themselves. */
#ifndef HZ_TESTS_WITH_KEEPER
extern "C" void hz_keeper_forbid(void) __attribute__((weak));

namespace support {

inline const bool keeper_is_forbidden = [] {
    if (&hz_keeper_forbid != nullptr)
        hz_keeper_forbid();
    return true;
}();

} // namespace support
#endif

#endif
