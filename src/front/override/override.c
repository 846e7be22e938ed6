/*
 * override.c - the standard names: malloc family and C++ operators. In the products only, so that a test program can
 * have both allocators.
 *
 * The whole family is here: a missing member would hand glibc's blocks to our free. The operators carry their mangled
 * names (Itanium C++ ABI, 64-bit: size_t is `m`), so no C++ is needed.
 */
#include "hakozuna/hakozuna.h"

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

/* glibc exports part of the family under second names, and programs that wrap malloc call these to reach the real
   functions. Here both names use one heap, since a block of one name can reach the free of the other. */
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

/*
 * A program may replace any operator, and [new.delete] in ISO C++ says which operator each of the others calls. Most
 * programs replace only plain new and plain delete, and their blocks reach all other forms: if our sized delete freed
 * such a block itself, it would free a pointer that is not ours. So each form calls the next one as the linkers have
 * chosen it, ours or the program's. All forms are weak, so a program that links the archive may define its own.
 */
#define OPERATOR(returned, symbol, ...)                                                                                \
    HZ_EXPORT HZ_WEAK returned symbol(__VA_ARGS__);                                                                    \
    HZ_EXPORT HZ_WEAK returned symbol(__VA_ARGS__)

/* The same for a form whose address is compared with `own`, to see whether the program has replaced it. */
#define OPERATOR_OWN(returned, symbol, own, ...)                                                                       \
    HZ_EXPORT HZ_WEAK returned symbol(__VA_ARGS__) __attribute__((alias(#own)))

static void *new_aligned(size_t size, size_t alignment, bool nothrow) {
    void *block = hz_front_aligned_alloc(alignment, size);
    return HZ_LIKELY(block != NULL) ? block : hz_front_new_slow(size, alignment, nothrow);
}

static inline void *new_plain(size_t size, bool nothrow) {
    void *block = hz_front_malloc(size);
    return HZ_LIKELY(block != NULL) ? block : hz_front_new_slow(size, 1, nothrow);
}

/* operator new(size_t), new[] */
static void *own_new(size_t size) {
    return new_plain(size, false);
}
OPERATOR_OWN(void *, _Znwm, own_new, size_t size);

static void *own_new_array(size_t size) {
    return HZ_LINKED(_Znwm)(size);
}
OPERATOR_OWN(void *, _Znam, own_new_array, size_t size);

/* operator new(size_t, align_val_t), new[] */
static void *own_new_aligned(size_t size, size_t alignment) {
    return new_aligned(size, alignment, false);
}
OPERATOR_OWN(void *, _ZnwmSt11align_val_t, own_new_aligned, size_t size, size_t alignment);

static void *own_new_array_aligned(size_t size, size_t alignment) {
    return HZ_LINKED(_ZnwmSt11align_val_t)(size, alignment);
}
OPERATOR_OWN(void *, _ZnamSt11align_val_t, own_new_array_aligned, size_t size, size_t alignment);

static inline bool new_is_own(void) {
    return HZ_LINKED(_Znwm) == own_new && HZ_LINKED(_Znam) == own_new_array &&
           HZ_LINKED(_ZnwmSt11align_val_t) == own_new_aligned &&
           HZ_LINKED(_ZnamSt11align_val_t) == own_new_array_aligned;
}

/* Not in ISO C++ (P0901): compilers and standard libraries that know tcmalloc's names call these. What a program's own
   operator returns need not be a block of ours, so nothing beyond the requested size is known of it. */
static struct hz_sized_block sized(void *block, size_t size) {
    return (struct hz_sized_block){.block = block, .bytes = new_is_own() ? hz_front_usable_size(block) : size};
}
OPERATOR(struct hz_sized_block, __size_returning_new, size_t size) {
    return sized(HZ_LINKED(_Znwm)(size), size);
}
OPERATOR(struct hz_sized_block, __size_returning_new_aligned, size_t size, size_t alignment) {
    return sized(HZ_LINKED(_ZnwmSt11align_val_t)(size, alignment), size);
}

/* A nothrow form calls the throwing one and catches exceptions, which only the C++ runtime can do. If no runtime is
   loaded (it is linked statically), exceptions of the program's operator propagate. */
static HZ_COLD void *new_caught(enum hz_new_form form, size_t size, size_t alignment) {
    void *block;
    if (hz_front_new_caught(form, size, alignment, &block))
        return block;
    switch (form) {
    case HZ_NEW:
        return HZ_LINKED(_Znwm)(size);
    case HZ_NEW_ARRAY:
        return HZ_LINKED(_Znam)(size);
    case HZ_NEW_ALIGNED:
        return HZ_LINKED(_ZnwmSt11align_val_t)(size, alignment);
    case HZ_NEW_ARRAY_ALIGNED:
        break;
    }
    return HZ_LINKED(_ZnamSt11align_val_t)(size, alignment);
}

/* The reference to std::nothrow arrives as a pointer. */
struct nothrow;

/* operator new(size_t, nothrow), new[] */
OPERATOR(void *, _ZnwmRKSt9nothrow_t, size_t size, const struct nothrow *tag HZ_UNUSED) {
    return new_is_own() ? new_plain(size, true) : new_caught(HZ_NEW, size, 1);
}
OPERATOR(void *, _ZnamRKSt9nothrow_t, size_t size, const struct nothrow *tag HZ_UNUSED) {
    return new_is_own() ? new_plain(size, true) : new_caught(HZ_NEW_ARRAY, size, 1);
}

/* operator new(size_t, align_val_t, nothrow), new[] */
OPERATOR(void *, _ZnwmSt11align_val_tRKSt9nothrow_t, size_t size, size_t alignment,
         const struct nothrow *tag HZ_UNUSED) {
    return new_is_own() ? new_aligned(size, alignment, true) : new_caught(HZ_NEW_ALIGNED, size, alignment);
}
OPERATOR(void *, _ZnamSt11align_val_tRKSt9nothrow_t, size_t size, size_t alignment,
         const struct nothrow *tag HZ_UNUSED) {
    return new_is_own() ? new_aligned(size, alignment, true) : new_caught(HZ_NEW_ARRAY_ALIGNED, size, alignment);
}

/* operator delete(void *), delete[] */
static void own_delete(void *block) {
    hz_front_free(block);
}
OPERATOR_OWN(void, _ZdlPv, own_delete, void *block);

static void own_delete_array(void *block) {
    HZ_LINKED(_ZdlPv)(block);
}
OPERATOR_OWN(void, _ZdaPv, own_delete_array, void *block);

/* operator delete(void *, align_val_t), delete[] */
static void own_delete_aligned(void *block, size_t alignment HZ_UNUSED) {
    hz_front_free(block);
}
OPERATOR_OWN(void, _ZdlPvSt11align_val_t, own_delete_aligned, void *block, size_t alignment);

static void own_delete_array_aligned(void *block, size_t alignment) {
    HZ_LINKED(_ZdlPvSt11align_val_t)(block, alignment);
}
OPERATOR_OWN(void, _ZdaPvSt11align_val_t, own_delete_array_aligned, void *block, size_t alignment);

/* Sizes are checked only if all operators are ours: what a program's own new returns need not be a block. */
static inline bool size_is_checked(void) {
    return HZ_CONFIG_CHECKS && new_is_own() && HZ_LINKED(_ZdlPv) == own_delete &&
           HZ_LINKED(_ZdaPv) == own_delete_array && HZ_LINKED(_ZdlPvSt11align_val_t) == own_delete_aligned &&
           HZ_LINKED(_ZdaPvSt11align_val_t) == own_delete_array_aligned;
}

/* operator delete(void *, size_t), delete[] */
OPERATOR(void, _ZdlPvm, void *block, size_t size) {
    if (size_is_checked())
        hz_front_free_sized(block, size);
    else
        HZ_LINKED(_ZdlPv)(block);
}
OPERATOR(void, _ZdaPvm, void *block, size_t size) {
    if (size_is_checked())
        hz_front_free_sized(block, size);
    else
        HZ_LINKED(_ZdaPv)(block);
}

/* operator delete(void *, size_t, align_val_t), delete[] */
OPERATOR(void, _ZdlPvmSt11align_val_t, void *block, size_t size, size_t alignment) {
    if (size_is_checked())
        hz_front_free_aligned_sized(block, alignment, size);
    else
        HZ_LINKED(_ZdlPvSt11align_val_t)(block, alignment);
}
OPERATOR(void, _ZdaPvmSt11align_val_t, void *block, size_t size, size_t alignment) {
    if (size_is_checked())
        hz_front_free_aligned_sized(block, alignment, size);
    else
        HZ_LINKED(_ZdaPvSt11align_val_t)(block, alignment);
}

/* operator delete(void *, nothrow), delete[] */
OPERATOR(void, _ZdlPvRKSt9nothrow_t, void *block, const struct nothrow *tag HZ_UNUSED) {
    HZ_LINKED(_ZdlPv)(block);
}
OPERATOR(void, _ZdaPvRKSt9nothrow_t, void *block, const struct nothrow *tag HZ_UNUSED) {
    HZ_LINKED(_ZdaPv)(block);
}

/* operator delete(void *, align_val_t, nothrow), delete[] */
OPERATOR(void, _ZdlPvSt11align_val_tRKSt9nothrow_t, void *block, size_t alignment,
         const struct nothrow *tag HZ_UNUSED) {
    HZ_LINKED(_ZdlPvSt11align_val_t)(block, alignment);
}
OPERATOR(void, _ZdaPvSt11align_val_tRKSt9nothrow_t, void *block, size_t alignment,
         const struct nothrow *tag HZ_UNUSED) {
    HZ_LINKED(_ZdaPvSt11align_val_t)(block, alignment);
}
