/*
 * malloc.c - the slow paths of allocation: sizes beyond the table, empty bins, threads that are not attached
 * yet, alignment, zeroing.
 */
#include "base/large.h"
#include "base/sizeclass.h"
#include "core/engine.h"

#include <errno.h>
#include <string.h>

static HZ_COLD void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

/* For a thread without a block: attach, do it, and, at a thread's end, detach again. */
static void *unattached(size_t alignment, size_t size) {
    if (hz_thread_attach() == NULL)
        return no_memory();
    void *block = hz_engine_aligned(alignment, size);
    if (hz_thread_is_ending())
        hz_thread_detach(hz_self);
    return block;
}

/* The newest block of a bin; NULL when there is none. A thread that is not attached has empty bins. */
HZ_INLINE void *bin_take(struct hz_thread_block *self, unsigned size_class) {
    void *block = hz_bin_pop(self, &self->bins[size_class]);
    if (HZ_CONFIG_STATS && block != NULL && hz_class_is_mid(size_class))
        hz_count(&self->counters.mid_cache_hit, 1);
    return block;
}

static void *malloc_class(struct hz_thread_block *self, unsigned size_class) {
    void *block = bin_take(self, size_class);
    if (HZ_UNLIKELY(block == NULL))
        block = hz_refill(self, size_class);
    return HZ_LIKELY(block != NULL) ? block : no_memory();
}

static void *malloc_large(struct hz_thread_block *self, size_t size, size_t alignment, bool zeroed) {
    if (size > PTRDIFF_MAX)
        return no_memory();
    void *block = hz_large_alloc(size, alignment, zeroed);
    /* what the size classes do not use may do; for a mapping of its own only address space can be short */
    if (block == NULL && (size < HZ_SEGMENT_BYTES || !hz_pagetags.flat)) {
        hz_heap_purge();
        block = hz_large_alloc(size, alignment, zeroed);
    }
    if (HZ_UNLIKELY(block == NULL))
        return no_memory();
    hz_count(&self->counters.large_alloc, 1);
    hz_count(&self->counters.large_acq, hz_large_usable(block));
    return block;
}

static HZ_NOINLINE void *malloc_above_classes(size_t size) {
    struct hz_thread_block *self = hz_self;
    return HZ_LIKELY(hz_is_attached(self)) ? malloc_large(self, size, 1, false) : unattached(1, size);
}

void *hz_malloc_medium(size_t size) {
    if (HZ_UNLIKELY(size > HZ_CLASS_BYTES_MAX))
        return malloc_above_classes(size);
    void *block = bin_take(hz_self, hz_class_of_medium(size));
    return HZ_LIKELY(block != NULL) ? block : hz_malloc_slow(size);
}

void *hz_malloc_slow(size_t size) {
    struct hz_thread_block *self = hz_self;
    if (HZ_UNLIKELY(!hz_is_attached(self)))
        return unattached(1, size);
    return malloc_class(self, hz_class_of(size)); /* size 0 comes here too, and its class may have blocks */
}

void *hz_engine_calloc(size_t size) {
    if (size <= HZ_CLASS_BYTES_MAX) {
        void *block = hz_engine_malloc(size);
        return block == NULL ? NULL : memset(block, 0, size);
    }
    bool attached = hz_is_attached(hz_self);
    if (!attached && hz_thread_attach() == NULL)
        return no_memory();
    void *block = malloc_large(hz_self, size, 1, true);
    if (!attached && hz_thread_is_ending())
        hz_thread_detach(hz_self);
    return block;
}

void *hz_engine_aligned(size_t alignment, size_t size) {
    if (alignment <= HZ_GRANULE_BYTES)
        return hz_engine_malloc(size);
    struct hz_thread_block *self = hz_self;
    if (!hz_is_attached(self))
        return unattached(alignment, size);
    unsigned size_class = hz_class_of_aligned(size, alignment);
    if (size_class != HZ_CLASS_NONE)
        return malloc_class(self, size_class);
    return malloc_large(self, hz_max(size, 1), alignment, false);
}

size_t hz_engine_good_size(size_t size) {
    if (size <= HZ_CLASS_BYTES_MAX)
        return hz_class_bytes(hz_class_of(size));
    return hz_large_good_size(size);
}
