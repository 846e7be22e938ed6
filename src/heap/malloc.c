/*
 * malloc.c - see malloc.h. Called by the fast path (heap.h) and by the front.
 */
#include "heap/malloc.h"

#include "base/arena.h"
#include "base/large.h"
#include "heap/cache/refill.h"
#include "heap/orphan.h"
#include "heap/purge.h"
#include "heap/thread.h"
#include "heap/tick.h"

#include <errno.h>

static HZ_COLD void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

/* The newest block of a bin; NULL when there is none. A thread that is not attached has empty bins. */
HZ_INLINE void *pop_counted(struct hz_thread_block *self, unsigned size_class) {
    void *block = hz_bin_pop(&self->cache, &self->cache.bins[size_class]);
    if (HZ_CONFIG_STATS && block != NULL && hz_class_is_mid(size_class))
        hz_count(&self->counters.mid_cache_hit, 1);
    return block;
}

void *hz_malloc_refill(struct hz_thread_block *self, unsigned size_class) {
    void *block = hz_refill_from_depot(self, size_class);
    if (block != NULL)
        return block;
    hz_orphan_reclaim(self);
    hz_tick(self);
    block = pop_counted(self, size_class); /* the tick may have allocated, and so filled the bin */
    if (HZ_UNLIKELY(block != NULL))
        return block;
    block = hz_refill_from_shard(self, size_class);
    if (block == NULL) { /* no memory: what other classes do not use may help */
        hz_heap_purge();
        block = hz_refill_from_shard(self, size_class);
    }
    return block;
}

static void *malloc_class(struct hz_thread_block *self, unsigned size_class) {
    void *block = pop_counted(self, size_class);
    if (HZ_UNLIKELY(block == NULL))
        block = hz_malloc_refill(self, size_class);
    return HZ_LIKELY(block != NULL) ? block : no_memory();
}

static void *malloc_large(struct hz_thread_block *self, size_t size, size_t alignment, bool zeroed) {
    if (size > PTRDIFF_MAX)
        return no_memory();
    void *block = hz_large_alloc(size, alignment, zeroed);
    /* a purge can give back no more than is handed out */
    if (block == NULL && (size < HZ_SEGMENT_BYTES || size <= hz_arena_used_bytes())) {
        hz_heap_purge();
        block = hz_large_alloc(size, alignment, zeroed);
    }
    if (HZ_UNLIKELY(block == NULL))
        return no_memory();
    hz_count(&self->counters.large_alloc, 1);
    hz_count(&self->counters.large_acq, hz_large_usable(block));
    return block;
}

static void *malloc_any(struct hz_thread_block *self, size_t alignment, size_t size) {
    unsigned size_class = hz_class_of_aligned(size, alignment);
    if (size_class != HZ_CLASS_NONE)
        return malloc_class(self, size_class);
    return malloc_large(self, hz_max(size, 1), alignment, false);
}

/* For a thread that is not attached: attaches, allocates, and, at the thread's end, detaches again. */
static void *malloc_unattached(size_t alignment, size_t size) {
    if (hz_thread_attach() == NULL)
        return no_memory();
    void *block = malloc_any(hz_self, alignment, size);
    if (hz_thread_is_ending())
        hz_thread_detach(hz_self);
    return block;
}

static HZ_NOINLINE void *malloc_above_classes(size_t size) {
    struct hz_thread_block *self = hz_self;
    return HZ_LIKELY(hz_is_attached(self)) ? malloc_large(self, size, 1, false) : malloc_unattached(1, size);
}

void *hz_malloc_medium(size_t size) {
    if (HZ_UNLIKELY(size > HZ_CLASS_BYTES_MAX))
        return malloc_above_classes(size);
    void *block = pop_counted(hz_self, hz_class_of_medium(size));
    return HZ_LIKELY(block != NULL) ? block : hz_malloc_slow(size);
}

void *hz_malloc_slow(size_t size) {
    struct hz_thread_block *self = hz_self;
    if (HZ_UNLIKELY(!hz_is_attached(self)))
        return malloc_unattached(1, size);
    return malloc_class(self, hz_class_of(size)); /* size 0 comes here too, and its class may have blocks */
}

void *hz_malloc_zeroed(size_t size) {
    bool attached = hz_is_attached(hz_self);
    if (!attached && hz_thread_attach() == NULL)
        return no_memory();
    void *block = malloc_large(hz_self, size, 1, true);
    if (!attached && hz_thread_is_ending())
        hz_thread_detach(hz_self);
    return block;
}

void *hz_malloc_aligned(size_t alignment, size_t size) {
    struct hz_thread_block *self = hz_self;
    return hz_is_attached(self) ? malloc_any(self, alignment, size) : malloc_unattached(alignment, size);
}
