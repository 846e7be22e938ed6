/*
 * family.c - the members of the malloc family that need no fast path, with glibc's semantics.
 */
#include "front/family.h"

#include "base/os/check.h"
#include "base/os/os.h"
#include "base/profile/profile.h"
#include "base/watch/guard_pool.h"
#include "front/front.h"
#include "heap/query.h"
#include "heap/resize.h"
#include "heap/threads/zone.h"

#include <errno.h>
#include <string.h>

enum { GROWING_SHARE = 4 };

static void *fail(int error) {
    errno = error;
    return NULL;
}

void *hz_front_calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return fail(ENOMEM);
    if (HZ_CONFIG_FENCES)
        return hz_fence_alloc(1, bytes);
    return hz_live_add(hz_heap_calloc(bytes));
}

/* A block may stay where it is if the new size fits and leaves at most half of it unused; of a block above 8 KiB at
   most an eighth. */
static bool fits_well(size_t usable, size_t size) {
    size_t unused_max = usable > HZ_SPREAD_ABOVE_BYTES ? usable / 8 : usable - usable / 2;
    return size <= usable && usable - size <= unused_max;
}

/* How far the block begins behind its place (base/arena/spread.h). */
static size_t offset_of(const void *block, size_t usable) {
    return usable > HZ_SPREAD_ABOVE_BYTES ? hz_query_offset(block) : 0;
}

/* Whether the block can be one for `size`: of its class, or a run of pages. */
static bool is_good(const void *block, size_t usable, size_t size) {
    size_t offset = offset_of(block, usable);
    return usable + offset == hz_query_bytes_for(size) ||
           (size > HZ_RUN_ABOVE_BYTES && usable + offset == hz_large_bytes_for(offset + size));
}

/* Whether a new block for `size` would be about as long: as a run of pages if this block is one, else as a block of a
   class, which above 8 KiB leaves at most an eighth unused. */
static bool is_as_new(const void *block, size_t usable, size_t size) {
    if (size > usable)
        return false;
    if (size <= HZ_RUN_ABOVE_BYTES || hz_pagetag_class(block) != HZ_CLASS_LARGE)
        return usable > HZ_SPREAD_ABOVE_BYTES ? fits_well(usable, size) : usable == hz_query_bytes_for(size);
    size_t offset = hz_query_offset(block);
    return usable + offset == hz_large_bytes_for(offset + size);
}

/* Whether a new block for `size` at a multiple of `alignment` would have the same class. */
static bool has_class_for(const void *block, size_t usable, size_t alignment, size_t size) {
    unsigned size_class = size <= HZ_CLASS_BYTES_MAX ? hz_class_of_aligned(size, alignment) : HZ_CLASS_NONE;
    return size_class != HZ_CLASS_NONE && usable + offset_of(block, usable) == hz_class_bytes(size_class);
}

/* hint: for lack of memory, realloc has left a block in place that is more than twice as large as requested. The thread
 * that resized the block passed it to the thread that frees it, so that thread sees this too. */
static _Atomic(bool) has_kept_larger;

/* The pools' addresses have no page tags of their own. */
static bool is_of_zone(const void *block) {
    return !hz_guard_has(block) && !hz_profile_has(block) && hz_zone_has(block);
}

/* Whether the block's usable size is exactly the requested size. */
static bool has_exact_size(const void *block) {
    return HZ_CONFIG_FENCES ? !is_of_zone(block) : hz_guard_has(block);
}

static size_t usable_of(const void *block, const char *function) {
    return HZ_CONFIG_FENCES ? hz_fence_size(block, function) : hz_query_usable(block, function);
}

/* The alignment is a power of two. */
static void *aligned(size_t alignment, size_t size) {
    if (size > PTRDIFF_MAX || alignment > PTRDIFF_MAX - size)
        return fail(ENOMEM);
    if (HZ_CONFIG_FENCES)
        return hz_fence_alloc(alignment, size);
    return hz_live_add(hz_heap_aligned(alignment, size));
}

/* A block that has grown once often grows again: a run of pages can do so in place, and a block of a class if it does
   not begin far behind its place (base/arena/spread.h). So it is placed as if it needed most of its slack. Where
   allocations are sampled the size matters more. */
static void *grown(size_t size) {
    if (HZ_CONFIG_FENCES || size <= HZ_SPREAD_ABOVE_BYTES)
        return hz_front_malloc(size);
    if (size > HZ_RUN_ABOVE_BYTES)
        return hz_live_add(hz_malloc_run(size, false));
    size_t slack = hz_sampling_is_on() ? 0 : hz_query_bytes_for(size) - size;
    return hz_front_malloc(size + slack - slack / GROWING_SHARE);
}

/* A block to which `block` can move: of the same zone, if it has one. */
static void *alloc_beside(const void *block, size_t usable, size_t alignment, size_t size) {
    if (is_of_zone(block))
        return hz_front_zone_alloc(hz_zone_of_block(block), alignment, size, false);
    if (alignment != 1)
        return aligned(alignment, size);
    return size > usable ? grown(size) : hz_front_malloc(size);
}

static void *move(void *block, size_t usable, size_t alignment, size_t size) {
    void *moved = alloc_beside(block, usable, alignment, size);
    if (moved == NULL)
        return NULL;
    memcpy(moved, block, hz_min(usable, size));
    hz_front_free(block);
    return moved;
}

/* If there is no memory for a smaller block, the old one still serves, if it may: then nothing has failed. */
static void *move_or_keep(void *block, size_t usable, size_t alignment, size_t size, bool may_stay) {
    int saved = errno;
    void *moved = move(block, usable, alignment, size);
    if (moved != NULL || !may_stay || size > usable)
        return moved;
    errno = saved;
    hz_store_rlx(&has_kept_larger, true); /* relaxed: hint */
    return block;
}

void *hz_front_realloc(void *block, size_t size) {
    if (block == NULL)
        return hz_front_malloc(size);
    if (size == 0) {
        hz_front_free(block);
        return NULL;
    }
    size_t usable = usable_of(block, HZ_IN_REALLOC);
    if (size > PTRDIFF_MAX)
        return fail(ENOMEM);
    bool is_exact = has_exact_size(block); /* then it always moves */
    if (!is_exact && is_as_new(block, usable, size))
        return block;
    /* a block of a class cannot be resized; hz_resize would look the block up again to find that out */
    bool may_resize = !is_exact && hz_pagetag_class(block) == HZ_CLASS_LARGE;
    void *resized = may_resize ? hz_resize(block, size, true, HZ_IN_REALLOC) : NULL;
    if (resized != NULL)
        return resized; /* a mapping that moved keeps its segment, and with it its place in the live map */
    if (!is_exact && fits_well(usable, size))
        return block;
    return move_or_keep(block, usable, 1, size, true);
}

void *hz_front_reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return fail(ENOMEM);
    return hz_front_realloc(block, bytes);
}

void *hz_front_aligned_alloc(size_t alignment, size_t size) {
    return hz_is_power_of_two(alignment) ? aligned(alignment, size) : fail(EINVAL);
}

void *hz_front_aligned_realloc(void *block, size_t alignment, size_t size) {
    if (!hz_is_power_of_two(alignment))
        return fail(EINVAL);
    if (block == NULL)
        return aligned(alignment, size);
    if (size == 0) {
        hz_front_free(block);
        return NULL;
    }
    size_t usable = usable_of(block, HZ_IN_REALLOC);
    if (size > PTRDIFF_MAX)
        return fail(ENOMEM);
    bool may_stay = !has_exact_size(block) && (uintptr_t)block % alignment == 0;
    if (may_stay && size <= usable && (fits_well(usable, size) || has_class_for(block, usable, alignment, size)))
        return block;
    /* a resized large block keeps its distance from a multiple of 64 KiB, wherever its pages move */
    void *resized = may_stay && alignment <= HZ_PAGE_BYTES ? hz_resize(block, size, true, HZ_IN_REALLOC) : NULL;
    if (resized != NULL)
        return resized;
    return move_or_keep(block, usable, alignment, size, may_stay);
}

/* Zeroes what the program may use of a block behind the first `kept` bytes. */
static void *zero_behind(void *block, size_t kept) {
    if (block != NULL)
        memset((char *)block + kept, 0, usable_of(block, HZ_IN_REALLOC) - kept);
    return block;
}

void *hz_front_rezalloc(void *block, size_t size) {
    if (block == NULL)
        return zero_behind(hz_front_calloc(1, size), size);
    size_t kept = hz_min(usable_of(block, HZ_IN_REALLOC), size);
    return zero_behind(hz_front_realloc(block, size), kept);
}

void *hz_front_recalloc(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return fail(ENOMEM);
    return hz_front_rezalloc(block, bytes);
}

void *hz_front_expand(void *block, size_t size) {
    if (block == NULL)
        return fail(EINVAL);
    if (size <= usable_of(block, HZ_IN_EXPAND))
        return block;
    if (size > PTRDIFF_MAX || has_exact_size(block) || hz_resize(block, size, false, HZ_IN_EXPAND) == NULL)
        return fail(ENOMEM);
    return block;
}

int hz_front_posix_memalign(void **out, size_t alignment, size_t size) {
    if (!hz_is_power_of_two(alignment) || alignment % sizeof(void *) != 0)
        return EINVAL;
    int saved = errno;
    void *block = aligned(alignment, size);
    errno = saved;
    if (block == NULL)
        return ENOMEM;
    *out = block;
    return 0;
}

void *hz_front_memalign(size_t alignment, size_t size) {
    if (alignment > (size_t)PTRDIFF_MAX + 1)
        return fail(EINVAL); /* no power of two is that large */
    size_t power_of_two = alignment <= 1 ? 1 : (size_t)1 << (hz_log2(alignment - 1) + 1);
    return aligned(power_of_two, size);
}

void *hz_front_valloc(size_t size) {
    return aligned(hz_os_page_bytes(), size);
}

void *hz_front_pvalloc(size_t size) {
    if (size > PTRDIFF_MAX)
        return fail(ENOMEM);
    size_t rounded = hz_round_up(hz_max(size, 1), hz_os_page_bytes());
    return aligned(hz_os_page_bytes(), rounded);
}

/* A correct `size` leads to the block's usable size, unless realloc left the block in place. The guard build knows the
   size that was asked for. */
static bool may_have_size(const void *block, size_t size) {
    size_t usable = usable_of(block, HZ_IN_FREE_SIZED);
    bool may_have = has_exact_size(block) ? usable == size : is_good(block, usable, size) || fits_well(usable, size);
    return may_have || (size <= usable && hz_load_rlx(&has_kept_larger)); /* relaxed: hint */
}

void hz_front_free_sized(void *block, size_t size) {
    if ((HZ_CONFIG_CHECKS || HZ_CONFIG_FENCES) && block != NULL && !may_have_size(block, size))
        hz_misuse(HZ_TEXT_SIZE, block, HZ_IN_FREE_SIZED);
    hz_front_free(block);
}

/* The block may be larger than `size` needs, for the sake of its alignment. */
void hz_front_free_aligned_sized(void *block, size_t alignment, size_t size) {
    if ((HZ_CONFIG_CHECKS || HZ_CONFIG_FENCES) && block != NULL &&
        (!hz_is_power_of_two(alignment) || (uintptr_t)block % alignment != 0 ||
         usable_of(block, HZ_IN_FREE_SIZED) < size))
        hz_misuse(HZ_TEXT_SIZE, block, HZ_IN_FREE_SIZED);
    hz_front_free(block);
}

void hz_front_free_batch(void *const *blocks, size_t count) {
    for (size_t i = 0; i < count; i++)
        hz_front_free(blocks[i]);
}

size_t hz_front_usable_size(const void *block) {
    return block == NULL ? 0 : usable_of(block, HZ_IN_USABLE_SIZE);
}

/* ---- zones ----------------------------------------------------------------------------------------- */

/* A zone's blocks have no fences: they go home without a wait in the quarantine. */
static void *zone_watch(void *block) {
    if (HZ_CONFIG_FENCES && block != NULL)
        hz_livemap_add(block);
    return HZ_CONFIG_FENCES ? block : hz_live_add(block);
}

HZ_INLINE void *zone_pop(struct hz_zone *zone, unsigned size_class) {
    return hz_malloc_unseal(hz_zone_pop(zone, size_class));
}

static HZ_NOINLINE void *zone_alloc_slow(struct hz_zone *zone, size_t size) {
    return zone_watch(hz_malloc_in_zone(zone, 1, size, false));
}

void *hz_front_zone_alloc(struct hz_zone *zone, size_t alignment, size_t size, bool zeroed) {
    if (!hz_is_power_of_two(alignment))
        return fail(EINVAL);
    unsigned size_class = hz_zone_class(alignment, size);
    void *block = size_class != HZ_CLASS_NONE && size_class < HZ_ZONE_CURSORS ? zone_pop(zone, size_class) : NULL;
    if (HZ_UNLIKELY(block == NULL))
        return zone_watch(hz_malloc_in_zone(zone, alignment, size, zeroed));
    return zone_watch(zeroed ? memset(block, 0, size) : block);
}

void *hz_front_zone_malloc(struct hz_zone *zone, size_t size) {
    if (HZ_UNLIKELY(size > HZ_SMALL_MAX))
        return hz_front_zone_alloc(zone, 1, size, false);
    void *block = zone_pop(zone, hz_zone_small_class(zone, size));
    return HZ_LIKELY(block != NULL) ? zone_watch(block) : zone_alloc_slow(zone, size);
}

void *hz_front_zone_calloc(struct hz_zone *zone, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return fail(ENOMEM);
    void *block = bytes <= HZ_SMALL_MAX ? zone_pop(zone, hz_zone_small_class(zone, bytes)) : NULL;
    return HZ_LIKELY(block != NULL) ? zone_watch(memset(block, 0, bytes)) : hz_front_zone_alloc(zone, 1, bytes, true);
}

struct hz_zone *hz_front_zone_of(const void *block) {
    if (block == NULL)
        return NULL;
    (void)usable_of(block, HZ_IN_USABLE_SIZE); /* ends the program unless it is a block */
    return is_of_zone(block) ? hz_zone_of_block(block) : NULL;
}
