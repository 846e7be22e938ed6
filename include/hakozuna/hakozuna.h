/*
 * hakozuna.h - the public API of the hakozuna memory allocators.
 *
 * Linking or preloading the library replaces malloc, free and the C++ operators of the whole
 * program; nothing in this header is needed for that. What is here is for programs that want to
 * call the allocator under its own names, to look into it, or to hand memory back.
 *
 * Thread rules: every function may be called from any thread at any time, a block may be freed by
 * any thread. None may be called from a signal handler that interrupted one of them.
 * Units: sizes are bytes. Errors: NULL (or the named error value) with errno set; free and the
 * functions that report keep errno as it was.
 */
#ifndef HAKOZUNA_H
#define HAKOZUNA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HZ_VERSION_MAJOR 0
#define HZ_VERSION_MINOR 1
#define HZ_VERSION_PATCH 0

#if defined(__GNUC__) || defined(__clang__)
#define HZ_API              __attribute__((visibility("default")))
#define HZ_ATTR_MALLOC      __attribute__((malloc))
#define HZ_ATTR_SIZE(n)     __attribute__((alloc_size(n)))
#define HZ_ATTR_SIZE2(n, m) __attribute__((alloc_size(n, m)))
#define HZ_ATTR_ALIGN(n)    __attribute__((alloc_align(n)))
#define HZ_ATTR_USED        __attribute__((warn_unused_result))
#else
#define HZ_API
#define HZ_ATTR_MALLOC
#define HZ_ATTR_SIZE(n)
#define HZ_ATTR_SIZE2(n, m)
#define HZ_ATTR_ALIGN(n)
#define HZ_ATTR_USED
#endif

/* ---- the malloc family (semantics of glibc 2.36; ISO C17 7.22.3, POSIX.1-2017) ---------------- */

/* At least `size` bytes, aligned to 16; size 0 gives a unique block. Sizes above PTRDIFF_MAX, and
   sizes for which there is no memory: NULL, ENOMEM. */
HZ_API void *hz_malloc(size_t size) HZ_ATTR_MALLOC HZ_ATTR_SIZE(1) HZ_ATTR_USED;

/* Frees a block of this library; NULL does nothing. A pointer that is not the start of a live block
   ends the program with a message where it is noticed. */
HZ_API void hz_free(void *block);

/* count * size zeroed bytes; NULL and ENOMEM when the product overflows. */
HZ_API void *hz_calloc(size_t count, size_t size) HZ_ATTR_MALLOC HZ_ATTR_SIZE2(1, 2) HZ_ATTR_USED;

/* Resizes; the contents up to the smaller size stay. block NULL: malloc. size 0: frees, returns NULL
   (as glibc). On failure NULL and ENOMEM, and `block` is untouched. */
HZ_API void *hz_realloc(void *block, size_t size) HZ_ATTR_SIZE(2) HZ_ATTR_USED;

/* realloc of count * size with an overflow check (glibc, OpenBSD). */
HZ_API void *hz_reallocarray(void *block, size_t count, size_t size) HZ_ATTR_SIZE2(2, 3) HZ_ATTR_USED;

/* Block aligned to `alignment`, a power of two, else NULL and EINVAL (C17 as amended by DR 460:
   size need not be a multiple). */
HZ_API void *hz_aligned_alloc(size_t alignment, size_t size) HZ_ATTR_MALLOC HZ_ATTR_SIZE(2)
    HZ_ATTR_ALIGN(1) HZ_ATTR_USED;

/* As POSIX: 0 and *out set, or EINVAL (alignment not a power of two multiple of sizeof(void *)) or
   ENOMEM, with *out and errno left alone. */
HZ_API int hz_posix_memalign(void **out, size_t alignment, size_t size) HZ_ATTR_USED;

/* As glibc's memalign: an alignment that is not a power of two is rounded up to the next one;
   above PTRDIFF_MAX / 2 + 1: NULL and EINVAL. */
HZ_API void *hz_memalign(size_t alignment, size_t size) HZ_ATTR_MALLOC HZ_ATTR_SIZE(2) HZ_ATTR_USED;

/* Page-aligned; pvalloc also rounds the size up to whole pages (of the system's page size). */
HZ_API void *hz_valloc(size_t size) HZ_ATTR_MALLOC HZ_ATTR_SIZE(1) HZ_ATTR_USED;
HZ_API void *hz_pvalloc(size_t size) HZ_ATTR_MALLOC HZ_ATTR_USED;

/* C23 7.24.3.4, .5: as free. `size` (and `alignment`) must be what was asked for at allocation; NULL
   does nothing. The check build ends the program when the size cannot be the one of that block. */
HZ_API void hz_free_sized(void *block, size_t size);
HZ_API void hz_free_aligned_sized(void *block, size_t alignment, size_t size);

/* Bytes that may be used at `block`: at least what was asked for, all of it writable; NULL gives 0. */
HZ_API size_t hz_usable_size(const void *block);

/* The usable size a malloc(size) would have; for containers that want to use all of it. 0 if `size`
   can never be had. Allocates nothing. */
HZ_API size_t hz_good_size(size_t size);

/* ---- looking in, giving back ------------------------------------------------------------------- */

/* Gives back to the OS what can be given back: caches of this thread, blocks resting between threads,
   every free page, of all threads; what other running threads hold in their own caches (bounded, see
   docs/architecture.md) stays. Returns the bytes handed to the OS. Takes milliseconds, not for hot loops. */
HZ_API size_t hz_purge(void);

/* "0.1.0"; never NULL. */
HZ_API const char *hz_version(void);

/* The configuration that was compiled in, as words "key=value" on one line: engine, lane, version, shards,
   every knob, compiler, build. A constant string, never NULL. */
HZ_API const char *hz_config_string(void);

enum hz_stats_format { HZ_STATS_TEXT = 0, HZ_STATS_JSON = 1 };

/* Writes the allocator's figures to the file descriptor: live, cached, free-but-resident and mapped bytes,
   counters, per size class figures. Allocates nothing. Returns 0, or -1 with errno (EINVAL for an unknown
   format; write's errors). Other threads go on; figures of running threads may be a little behind. */
HZ_API int hz_stats_print(int fd, enum hz_stats_format format);

/* The figures that hz_stats_print writes, for programs. All in bytes. */
struct hz_stats {
    size_t live_bytes;     /* handed out and not freed, in usable sizes */
    size_t cached_bytes;   /* freed blocks resting in bins, buffers, stashes, transfer, central, depot */
    size_t free_bytes;     /* free within pages that hold blocks, and in free resident pages */
    size_t resident_bytes; /* pages in use or free but not purged; an upper bound of the heap's RSS */
    size_t mapped_bytes;   /* address space obtained from the OS for blocks */
    size_t purged_bytes;   /* handed back to the OS since the start, cumulative */
    size_t mapping_count;  /* live direct mappings (blocks above the span sizes) */
};

/* Fills *out. Returns 0, or -1 and EINVAL when out is NULL. */
HZ_API int hz_stats_get(struct hz_stats *out);

#ifdef __cplusplus
}
#endif

#endif /* HAKOZUNA_H */
