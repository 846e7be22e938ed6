/*
 * malloc.c - see malloc.h.
 */
#include "heap/malloc.h"

#include "base/arena/arena.h"
#include "base/arena/large.h"
#include "base/os/os.h"
#include "base/profile/callstack.h"
#include "cpu_bins.h"
#include "heap/back/keeper.h"
#include "heap/back/purge.h"
#include "heap/back/tick.h"
#include "heap/cache/refill.h"
#include "heap/cache/sampler.h"
#include "heap/pages/page.h"
#include "heap/threads/orphan.h"
#include "heap/threads/park.h"
#include "heap/threads/thread.h"
#include "heap/threads/zone.h"

#include <errno.h>
#include <string.h>

enum { DROP_FREES = 8 }; /* the end of a zone counts as so many frees */

static HZ_COLD void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

/* The newest block of a bin of the CPU, or of the thread; NULL when there is none. A thread that is not attached has
   empty bins. */
HZ_INLINE void *pop_counted(struct hz_thread_block *self, unsigned size_class, size_t offset) {
    void *block = HZ_HAS_CPU_BINS ? hz_cpu_pop(hz_bin_offset(size_class)) : NULL;
    if (!HZ_HAS_CPU_BINS || block == NULL)
        block = hz_bin_pop(&self->cache, hz_bin_at(&self->cache, offset));
    if (HZ_CONFIG_STATS && block != NULL && hz_class_is_mid(size_class))
        hz_count(&self->counters.mid_cache_hit, 1);
    return block;
}

static void *malloc_large(struct hz_thread_block *self, size_t size, size_t alignment, bool zeroed, bool sampled) {
    if (size > PTRDIFF_MAX)
        return no_memory();
    hz_heap_limit_tick();
    hz_keeper_start_if_wanted();
    void *block = hz_large_alloc(size, alignment, zeroed);
    if (HZ_UNLIKELY(block == NULL) && hz_heap_purge_for(size)) {
        block = hz_large_alloc(size, alignment, zeroed);
        if (block == NULL)
            hz_heap_purge_was_vain(size);
    }
    if (HZ_UNLIKELY(block == NULL))
        return no_memory();
    hz_count(&self->counters.large_alloc, 1);
    hz_count(&self->counters.large_acq, hz_large_bytes(block));
    if (HZ_UNLIKELY(sampled))
        hz_sampler_count_large(self, block, size);
    return block;
}

/* fresh_units: NULL if the caller does not ask; else it points to 0, which may change as with hz_supply_refill. */
static void *refill(struct hz_thread_block *self, unsigned size_class, uint64_t *fresh_units) {
    void *block = hz_refill_from_depot(self, size_class);
    if (block != NULL) {
        hz_tick(self, size_class);
        return block;
    }
    hz_orphan_reclaim(self);
    (void)hz_cpu_bins_reclaim(self); /* left by a purge that goes on, or by a fork */
    hz_tick(self, size_class);
    hz_heap_limit_tick();
    hz_keeper_start_if_wanted();
    block = pop_counted(self, size_class,
                        hz_bin_offset(size_class)); /* the ticks may have allocated, and so filled the bin */
    if (HZ_UNLIKELY(block != NULL))
        return block;
    if (hz_class_is_run(size_class) && hz_bin_room(&self->cache, size_class) == 0)
        return malloc_large(self, hz_class_bytes(size_class), HZ_PAGE_BYTES, false, false);
    block = hz_refill_from_shard(self, size_class, fresh_units);
    if (block == NULL) { /* no memory: what other classes do not use may help */
        hz_heap_purge();
        block = hz_refill_from_shard(self, size_class, fresh_units);
    }
    return block;
}

static void *refill_joined(struct hz_thread_block *self, unsigned size_class, uint64_t *fresh_units) {
    hz_cpu_bins_join(self);
    void *block = refill(self, size_class, fresh_units);
    if (HZ_HAS_CPU_BINS && block != NULL)
        hz_cpu_bins_fill(self, size_class);
    return block;
}

void *hz_malloc_refill(struct hz_thread_block *self, unsigned size_class) {
    return refill_joined(self, size_class, NULL);
}

/* Where the block for `size`, above HZ_SPREAD_ABOVE_BYTES, begins. A sealed block stays where it is. */
static HZ_NOINLINE void *spread_for(void *block, size_t size) {
    hz_assert(size > HZ_SPREAD_ABOVE_BYTES);
    size_t step = hz_class_step_of_medium(size);
    char *place = hz_spread_place(block, hz_min(step, HZ_SPREAD_BYTES));
    return HZ_BLOCKS_SEALED ? block : place + hz_spread_within(hz_spread_key(place), -size & (step - 1));
}

/* The same for a block from a bin. It stays if `size` fits behind its start. If not, it moves nearer to its place: a
   start computed anew would be better, but sizes that vary would mispredict the choice. At its place it does not stay
   if there is slack: former sizes may have had none. */
HZ_INLINE void *fit_for(void *block, size_t size) {
    enum { SMALL_SLACK = 512 }; /* not worth a start of its own */
    size_t step = hz_class_step_of_medium(size);
    size_t slack = -size & (step - 1);
    size_t offset = hz_spread_offset(block, step) % HZ_SPREAD_BYTES;
    if (HZ_LIKELY(offset - 1 < slack || HZ_BLOCKS_SEALED)) /* 1 to slack: behind its place, and it fits */
        return block;
    if (offset != 0)
        return (char *)block - (offset - hz_spread_nearer(offset, slack));
    return slack < SMALL_SLACK ? block : spread_for(block, size);
}

static void *malloc_class(struct hz_thread_block *self, unsigned size_class, size_t alignment, size_t size) {
    void *block = pop_counted(self, size_class, hz_bin_offset(size_class));
    if (HZ_UNLIKELY(block == NULL))
        block = hz_malloc_refill(self, size_class);
    if (HZ_UNLIKELY(block == NULL))
        return no_memory();
    if (size_class < HZ_SPREAD_CLASS_FIRST)
        return block;
    return alignment > HZ_SPREAD_STEP ? hz_spread_place(block, hz_class_grid(size_class)) : spread_for(block, size);
}

/* Whether an allocation that this address asks for is sampled. The slow paths are reached by tail calls, so their
   return address is the program's, except where the block is zeroed or watched afterwards. */
static bool is_sampled(const struct hz_thread_block *self, const void *caller) {
    return hz_sampler_is_on(self) && !hz_callstack_is_unwinder(caller);
}

static void *malloc_any(struct hz_thread_block *self, size_t alignment, size_t size, bool sampled) {
    bool is_run = HZ_UNLIKELY(sampled) && hz_sampler_wants_run(self, size);
    unsigned size_class = is_run ? (unsigned)HZ_CLASS_NONE : hz_class_of_aligned(size, alignment);
    void *chosen = HZ_UNLIKELY(sampled) ? hz_sampler_alloc(self, size_class, alignment, size) : NULL;
    if (chosen != NULL)
        return chosen;
    if (size_class != HZ_CLASS_NONE)
        return malloc_class(self, size_class, alignment, size);
    return malloc_large(self, hz_max(size, 1), alignment, false, sampled);
}

/* Begins a slow path that needs a thread block: attaches the thread if necessary. NULL when there is no memory. */
static struct hz_thread_block *slow_begin(bool *attached) {
    struct hz_thread_block *self = hz_thread_enter();
    *attached = hz_is_attached(self);
    if (HZ_LIKELY(*attached))
        return self;
    hz_thread_leave(self);
    return hz_thread_attach() != NULL ? hz_thread_enter() : NULL;
}

/* Ends the slow path. Detaches again a thread that `slow_begin` attached while the thread was ending. */
static void slow_end(struct hz_thread_block *self, bool attached) {
    if (HZ_UNLIKELY(!attached && hz_thread_is_ending())) {
        hz_thread_detach(self);
        hz_hooks_leave();
    } else {
        hz_thread_leave(self);
    }
}

/* The newest block of a mid class's bin; NULL when there is none. */
HZ_INLINE void *pop_mid(struct hz_thread_block *self, unsigned size_class) {
    hz_store_rlx(&self->popping, 1); /* sync: park, partner hz_park */
    hz_signal_fence();
    void *block = NULL;
    if (HZ_LIKELY(hz_self() == self)) /* otherwise it is being parked, or was just now */
        block = pop_counted(self, size_class, hz_bin_offset(size_class));
    hz_store_rel(&self->popping, 0); /* sync: park, partner hz_park */
    return block;
}

/* hz_malloc_medium above 8 KiB. `self`: what it has read, which is read once only before pop_mid compares (park.h). */
static HZ_NOINLINE void *malloc_spread(size_t size, struct hz_thread_block *self) {
    if (HZ_UNLIKELY(size > self->spread_max)) /* so in a thread that is not attached */
        return size > HZ_CLASS_BYTES_MAX ? hz_malloc_aligned(1, size) : hz_malloc_slow(size);
    void *block = pop_mid(self, hz_class_of_medium(size));
    return HZ_LIKELY(block != NULL) ? fit_for(hz_malloc_unseal(block), size) : hz_malloc_slow(size);
}

void *hz_malloc_medium(size_t size) {
    struct hz_thread_block *self = hz_self();
    if (size > self->mid_max)
        return malloc_spread(size, self);
    void *block = pop_mid(self, hz_class_of_medium(size));
    return HZ_LIKELY(block != NULL) ? hz_malloc_unseal(block) : hz_malloc_slow(size);
}

static HZ_NOINLINE void *malloc_slow(size_t size, const void *caller) {
    bool attached;
    struct hz_thread_block *self = slow_begin(&attached);
    if (HZ_UNLIKELY(self == NULL))
        return no_memory();
    unsigned size_class = hz_class_of(size);
    void *block = NULL;
    bool sampled = is_sampled(self, caller);
    bool is_run = HZ_UNLIKELY(sampled) && hz_sampler_wants_run(self, size);
    if (HZ_UNLIKELY(is_run))
        block = malloc_large(self, size, 1, false, true);
    else if (HZ_UNLIKELY(sampled))
        block = hz_sampler_alloc(self, size_class, 1, size);
    else if (hz_sampler_is_on(self))
        hz_sampler_forget(self); /* it may come here because it would be chosen: then the next allocation must not be */
    if (block == NULL && !is_run) /* size 0 comes here too, and its class may have blocks */
        block = malloc_class(self, size_class, 1, size);
    slow_end(self, attached);
    return hz_malloc_unseal(block);
}

void *hz_malloc_slow(size_t size) {
    struct hz_thread_block *self = hz_self();
    if (hz_sampler_is_on(self) && size <= HZ_SMALL_MAX) {
        void *block = hz_sampler_pop(self, size); /* one pop needs no slow_begin, as in the fast path */
        if (HZ_LIKELY(block != NULL))
            return hz_malloc_unseal(block);
    }
    return malloc_slow(size, __builtin_return_address(0));
}

void *hz_malloc_run(size_t size, bool zeroed) {
    bool attached;
    struct hz_thread_block *self = slow_begin(&attached);
    if (HZ_UNLIKELY(self == NULL))
        return no_memory();
    void *block = malloc_large(self, size, 1, zeroed, hz_sampler_is_on(self));
    slow_end(self, attached);
    return block;
}

static void *calloc_class(struct hz_thread_block *self, unsigned size_class, size_t size) {
    uint64_t fresh_units = 0;
    void *block = pop_counted(self, size_class, hz_bin_offset(size_class));
    if (block == NULL)
        block = refill_joined(self, size_class, &fresh_units);
    if (HZ_UNLIKELY(block == NULL))
        return no_memory();
    block = hz_malloc_unseal(spread_for(block, size));
    if (fresh_units == 0)
        return memset(block, 0, size);
    hz_page_block_zero(block, size, fresh_units);
    return block;
}

void *hz_calloc_long(size_t size) {
    bool attached;
    struct hz_thread_block *self = slow_begin(&attached);
    if (HZ_UNLIKELY(self == NULL))
        return no_memory();
    bool sampled = hz_sampler_is_on(self);
    bool is_run = hz_sampler_wants_run(self, size) || size > HZ_RUN_CLASSES_ABOVE_BYTES;
    void *block =
        is_run ? malloc_large(self, size, 1, true, sampled) : calloc_class(self, hz_class_of_medium(size), size);
    slow_end(self, attached);
    return block;
}

void *hz_malloc_aligned(size_t alignment, size_t size) {
    bool attached;
    struct hz_thread_block *self = slow_begin(&attached);
    if (HZ_UNLIKELY(self == NULL))
        return no_memory();
    void *block = malloc_any(self, alignment, size, is_sampled(self, __builtin_return_address(0)));
    slow_end(self, attached);
    return hz_malloc_unseal(block);
}

/* The thread is attached meanwhile, so that a fork's child is told. */
struct hz_zone *hz_malloc_zone_make(void) {
    bool attached;
    struct hz_thread_block *self = slow_begin(&attached);
    if (HZ_UNLIKELY(self == NULL))
        return no_memory();
    struct hz_zone *zone = hz_zone_make();
    if (zone == NULL) {
        hz_heap_purge();
        zone = hz_zone_make();
    }
    slow_end(self, attached);
    return zone != NULL ? zone : no_memory();
}

/* Begins and ends work in a zone. A thread that is ending is not attached for that, nor one for whose thread block
   there is no memory. */
static struct hz_thread_block *zone_begin(void) {
    struct hz_thread_block *self = hz_thread_enter();
    if (HZ_LIKELY(hz_is_attached(self)) || hz_thread_is_ending())
        return self;
    hz_thread_leave(self);
    (void)hz_thread_attach();
    return hz_thread_enter();
}

static void zone_end(struct hz_thread_block *self) {
    hz_keeper_note_work();
    hz_thread_leave(self);
}

void hz_malloc_zone_drop(struct hz_zone *zone) {
    struct hz_thread_block *self = zone_begin();
    hz_zone_drop(zone);
    hz_tick_zone(self, DROP_FREES, 1);
    zone_end(self);
}

/* A block for which the arena may have to give a page or a run. */
static void *zone_alloc(struct hz_zone *zone, struct hz_thread_block *self, bool may_use, size_t alignment, size_t size,
                        bool zeroed) {
    unsigned size_class = hz_zone_class(alignment, size);
    if (hz_is_attached(self) && size_class != HZ_CLASS_NONE)
        hz_tick(self, size_class);
    hz_heap_limit_tick();
    hz_keeper_start_if_wanted();
    void *block = hz_zone_alloc(zone, self, may_use, alignment, size, zeroed);
    if (HZ_UNLIKELY(block == NULL) && hz_heap_purge_for(size)) {
        block = hz_zone_alloc(zone, self, may_use, alignment, size, zeroed);
        if (block == NULL)
            hz_heap_purge_was_vain(size);
    }
    return block;
}

void *hz_malloc_in_zone(struct hz_zone *zone, size_t alignment, size_t size, bool zeroed) {
    if (size > PTRDIFF_MAX || alignment > PTRDIFF_MAX - size)
        return no_memory();
    struct hz_thread_block *self = zone_begin();
    unsigned size_class = hz_zone_class(alignment, size);
    /* Without a keeper nobody could relieve the user while it does other work, unless there is no other thread. */
    bool may_use = hz_is_attached(self) && (hz_keeper_may_relieve() || hz_os_is_single_threaded());
    bool has_cursor = size_class != HZ_CLASS_NONE && size_class < HZ_ZONE_CURSORS;
    void *block = has_cursor ? hz_zone_claim(zone, self, may_use, size_class) : NULL;
    if (block == NULL)
        block = zone_alloc(zone, self, may_use, alignment, size, zeroed);
    else if (zeroed)
        (void)memset(block, 0, size);
    zone_end(self);
    return HZ_LIKELY(block != NULL) ? block : no_memory();
}
