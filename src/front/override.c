/*
 * override.c - the standard names: malloc family and C++ operators. In the products only, so that a test program can
 * have both allocators.
 *
 * The whole family is here: a missing member would hand glibc's blocks to our free. The operators carry their mangled
 * names (Itanium C++ ABI, 64-bit: size_t is `m`), so no C++ is needed.
 */
#include "front/family.h"
#include "front/front.h"
#include "front/newdel.h"

#include <errno.h>

/* ---- malloc family ------------------------------------------------------------------------------ */

HZ_EXPORT HZ_HOT void *malloc(size_t size) {
    return hz_front_malloc(size);
}

HZ_EXPORT HZ_HOT void free(void *block) {
    hz_front_free(block);
}

HZ_EXPORT void cfree(void *block) {
    hz_front_free(block);
}

HZ_EXPORT void *calloc(size_t count, size_t size) {
    return hz_front_calloc(count, size);
}

HZ_EXPORT void *realloc(void *block, size_t size) {
    return hz_front_realloc(block, size);
}

HZ_EXPORT void *reallocarray(void *block, size_t count, size_t size) {
    return hz_front_reallocarray(block, count, size);
}

HZ_EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    return hz_front_aligned_alloc(alignment, size);
}

HZ_EXPORT int posix_memalign(void **out, size_t alignment, size_t size) {
    return hz_front_posix_memalign(out, alignment, size);
}

HZ_EXPORT void *memalign(size_t alignment, size_t size) {
    return hz_front_memalign(alignment, size);
}

HZ_EXPORT void *valloc(size_t size) {
    return hz_front_valloc(size);
}

HZ_EXPORT void *pvalloc(size_t size) {
    return hz_front_pvalloc(size);
}

HZ_EXPORT void free_sized(void *block, size_t size) {
    hz_front_free_sized(block, size);
}

HZ_EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size) {
    hz_front_free_aligned_sized(block, alignment, size);
}

HZ_EXPORT size_t malloc_usable_size(void *block) {
    return hz_front_usable_size(block);
}

/* ---- glibc's second names ------------------------------------------------------------------------- */

/* glibc exports part of the family twice, and programs that wrap malloc call these names for what is behind them.
   Here both names stand for one heap, since a block of one can reach the free of the other. */
HZ_EXPORT void *__libc_malloc(size_t size) {
    return hz_front_malloc(size);
}

HZ_EXPORT void __libc_free(void *block) {
    hz_front_free(block);
}

HZ_EXPORT void *__libc_calloc(size_t count, size_t size) {
    return hz_front_calloc(count, size);
}

HZ_EXPORT void *__libc_realloc(void *block, size_t size) {
    return hz_front_realloc(block, size);
}

HZ_EXPORT void *__libc_memalign(size_t alignment, size_t size) {
    return hz_front_memalign(alignment, size);
}

HZ_EXPORT void *__libc_valloc(size_t size) {
    return hz_front_valloc(size);
}

HZ_EXPORT void *__libc_pvalloc(size_t size) {
    return hz_front_pvalloc(size);
}

/* ---- C++ operators -------------------------------------------------------------------------------- */

static void *new_aligned(size_t size, size_t alignment, bool nothrow) {
    void *block = hz_front_aligned_alloc(alignment, size);
    return HZ_LIKELY(block != NULL) ? block : hz_front_new_slow(size, alignment, nothrow);
}

static inline void *new_plain(size_t size, bool nothrow) {
    void *block = hz_front_malloc(size);
    return HZ_LIKELY(block != NULL) ? block : hz_front_new_slow(size, 1, nothrow);
}

/* The reference to std::nothrow arrives as a pointer. */
struct nothrow;

#define OPERATOR(returned, symbol, ...)                                                                                \
    HZ_EXPORT returned symbol(__VA_ARGS__);                                                                            \
    HZ_EXPORT returned symbol(__VA_ARGS__)

/* operator new(size_t), new[](size_t) */
OPERATOR(void *, _Znwm, size_t size) {
    return new_plain(size, false);
}
OPERATOR(void *, _Znam, size_t size) {
    return new_plain(size, false);
}

/* operator new(size_t, nothrow), new[] */
OPERATOR(void *, _ZnwmRKSt9nothrow_t, size_t size, const struct nothrow *tag HZ_UNUSED) {
    return new_plain(size, true);
}
OPERATOR(void *, _ZnamRKSt9nothrow_t, size_t size, const struct nothrow *tag HZ_UNUSED) {
    return new_plain(size, true);
}

/* operator new(size_t, align_val_t), new[] */
OPERATOR(void *, _ZnwmSt11align_val_t, size_t size, size_t alignment) {
    return new_aligned(size, alignment, false);
}
OPERATOR(void *, _ZnamSt11align_val_t, size_t size, size_t alignment) {
    return new_aligned(size, alignment, false);
}

/* operator new(size_t, align_val_t, nothrow), new[] */
OPERATOR(void *, _ZnwmSt11align_val_tRKSt9nothrow_t, size_t size, size_t alignment,
         const struct nothrow *tag HZ_UNUSED) {
    return new_aligned(size, alignment, true);
}
OPERATOR(void *, _ZnamSt11align_val_tRKSt9nothrow_t, size_t size, size_t alignment,
         const struct nothrow *tag HZ_UNUSED) {
    return new_aligned(size, alignment, true);
}

/* operator delete(void *), delete[] */
OPERATOR(void, _ZdlPv, void *block) {
    hz_front_free(block);
}
OPERATOR(void, _ZdaPv, void *block) {
    hz_front_free(block);
}

/* operator delete(void *, nothrow), delete[] */
OPERATOR(void, _ZdlPvRKSt9nothrow_t, void *block, const struct nothrow *tag HZ_UNUSED) {
    hz_front_free(block);
}
OPERATOR(void, _ZdaPvRKSt9nothrow_t, void *block, const struct nothrow *tag HZ_UNUSED) {
    hz_front_free(block);
}

/* operator delete(void *, size_t), delete[] */
OPERATOR(void, _ZdlPvm, void *block, size_t size) {
    hz_front_free_sized(block, size);
}
OPERATOR(void, _ZdaPvm, void *block, size_t size) {
    hz_front_free_sized(block, size);
}

/* operator delete(void *, align_val_t), delete[] */
OPERATOR(void, _ZdlPvSt11align_val_t, void *block, size_t alignment HZ_UNUSED) {
    hz_front_free(block);
}
OPERATOR(void, _ZdaPvSt11align_val_t, void *block, size_t alignment HZ_UNUSED) {
    hz_front_free(block);
}

/* operator delete(void *, size_t, align_val_t), delete[] */
OPERATOR(void, _ZdlPvmSt11align_val_t, void *block, size_t size, size_t alignment) {
    hz_front_free_aligned_sized(block, alignment, size);
}
OPERATOR(void, _ZdaPvmSt11align_val_t, void *block, size_t size, size_t alignment) {
    hz_front_free_aligned_sized(block, alignment, size);
}

/* operator delete(void *, align_val_t, nothrow), delete[] */
OPERATOR(void, _ZdlPvSt11align_val_tRKSt9nothrow_t, void *block, size_t alignment HZ_UNUSED,
         const struct nothrow *tag HZ_UNUSED) {
    hz_front_free(block);
}
OPERATOR(void, _ZdaPvSt11align_val_tRKSt9nothrow_t, void *block, size_t alignment HZ_UNUSED,
         const struct nothrow *tag HZ_UNUSED) {
    hz_front_free(block);
}
