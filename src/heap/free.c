/*
 * free.c - see free.h.
 */
#include "heap/free.h"

#include "base/arena/arena.h"
#include "base/arena/attributes.h"
#include "base/arena/large.h"
#include "base/os/os.h"
#include "base/watch/guard.h"
#include "cpu_bins.h"
#include "heap/back/pressure.h"
#include "heap/back/tick.h"
#include "heap/cache/flush.h"
#include "heap/cache/inspect.h"
#include "heap/cache/room.h"
#include "heap/pages/page.h"
#include "heap/pages/put.h"
#include "heap/pages/send.h"
#include "heap/query.h"
#include "heap/threads/park.h"
#include "heap/threads/thread.h"
#include "heap/threads/zone.h"

/* A thread that has never allocated puts the first blocks that it frees straight into their pages. Otherwise a thread's
   very last frees (glibc's, of its own bookkeeping) would attach it too late for its exit hook. And a thread that frees
   what it was given and allocates as much would get blocks that share cache lines with those given to others. */
enum { FREES_AT_ONCE = 16 };

static HZ_TLS uint32_t frees_at_once; /* owner */

static bool is_freed_at_once(unsigned size_class) {
    struct hz_thread_block *self = hz_thread_mine;
    return size_class != HZ_CLASS_LARGE && (self == NULL || self->is_new) && frees_at_once < FREES_AT_ONCE;
}

/* Ends what the program has told the kernel about a block of a class. False if that is refused and the block cannot be
   used: its address space is lost. An address that is no block's start is left to later checks. */
static HZ_COLD bool attributes_end(void *block, unsigned size_class) {
    return size_class >= HZ_CLASS_COUNT || !hz_class_has_start(size_class, block) ||
           hz_attributes_end(hz_spread_place(block, hz_class_grid(size_class)), hz_class_bytes(size_class));
}

void hz_free_seal(void *block) {
    unsigned size_class = hz_segment_find(block) != NULL ? hz_pagetag_class(block) : HZ_CLASS_NONE;
    if (size_class != HZ_CLASS_NONE && size_class < HZ_CLASS_COUNT && hz_class_has_start(size_class, block) &&
        (!hz_attributes_are_set() || attributes_end(block, size_class)))
        hz_seal(block, hz_class_bytes(size_class));
}

/* Frees the block into the bins of the CPU. False if it could not: the caller still has the block. */
static bool free_on_cpu(struct hz_thread_block *self, void *block, unsigned size_class) {
    if (hz_cpu_bins_free(self, size_class, block))
        return true;
    if (!hz_cpu_is_joined())
        return false;
    hz_tick(self, size_class);
    hz_cpu_bins_relieve(self, size_class);
    return hz_cpu_bins_free(self, size_class, block);
}

/* The remote buffer is full: its blocks go to other shards. */
static void remote_bin_relieve(struct hz_thread_block *self) {
    hz_count(&self->counters.remote_full, 1);
    if (hz_frees_are_watched(self)) /* the depot would hide that the blocks are free */
        hz_remote_flush(self);
    else
        hz_remote_pass(self);
}

/* The bin is full: its room grows, or some of its blocks go. */
static void bin_relieve(struct hz_thread_block *self, unsigned size_class) {
    if (hz_class_is_sparse(size_class)) {
        hz_bin_send_home(self, size_class);
        hz_room_shrink(self, size_class);
        return;
    }
    bool too_much = hz_room_visit(self, size_class);
    if (hz_frees_are_watched(self)) { /* the depot would hide that the blocks are free */
        hz_bin_send_home(self, size_class);
        return;
    }
    if (hz_bin_held(&self->cache, size_class) == hz_bin_room(&self->cache, size_class))
        hz_bin_flush(self, size_class, hz_bin_room(&self->cache, size_class) / (too_much ? 4 : 2));
    if (too_much)
        hz_room_shrink(self, size_class);
}

static void free_small(struct hz_thread_block *self, void *block, unsigned size_class) {
    if (HZ_HAS_CPU_BINS && free_on_cpu(self, block, size_class))
        return;
    size_t offset = hz_free_offset(self, hz_pagetag_of(block), hz_bin_offset(size_class));
    bool is_remote = offset == hz_bin_offset(HZ_REMOTE_BIN);
    struct hz_bin *bin = hz_bin_at(&self->cache, offset);
    unsigned index = is_remote ? (unsigned)HZ_REMOTE_BIN : size_class;
    if (!hz_inspect_free(self, index, block)) {
        hz_tick(self, index);
        if (is_remote)
            remote_bin_relieve(self);
        else
            bin_relieve(self, size_class);
        if (HZ_UNLIKELY(hz_bin_room(&self->cache, index) == 0)) { /* of large blocks: it may keep no more */
            if (hz_class_is_mid(size_class))
                hz_count(&self->counters.mid_moved, 1);
            if (hz_class_is_long(size_class) || hz_frees_are_watched(self)) /* the depot would hide that it is free */
                hz_blocks_send(self, &block, 1);
            else
                hz_blocks_pass(self, size_class, &block, 1);
            return;
        }
        if (!hz_frees_are_watched(self))
            hz_bin_limit_raise(&self->cache, index);
    }
    hz_bin_push(&self->cache, bin, hz_load_rlx(&bin->top), hz_slot_load_rlx(&bin->newest), block); /* relaxed: owner */
}

static void free_large(struct hz_thread_block *self, void *block) {
    if (HZ_UNLIKELY(!hz_large_may_begin(block)))
        hz_misuse(HZ_TEXT_INTERIOR, block, HZ_IN_FREE);
    if (hz_is_attached(self)) {
        hz_count(&self->counters.large_free, 1);
        hz_count(&self->counters.large_rel, hz_large_bytes(block));
    }
    struct hz_profile_record record;
    if (HZ_UNLIKELY(hz_profile_rate() != 0)) {
        hz_profile_tell_free(block);
        (void)hz_profile_remove(block, &record); /* before another thread can get the address; most are not sampled */
    }
    hz_large_free(block);
}

/* Maps the system pages within a range anew. If refused, they stay as they are. */
static void pages_renew(uintptr_t first, uintptr_t behind) {
    first = hz_round_up(first, hz_os_page_bytes());
    behind &= ~(hz_os_page_bytes() - 1);
    if (first < behind && hz_os_renew((void *)first, behind - first)) /* NOLINT(performance-no-int-to-ptr) */
        hz_os_name((void *)first, behind - first, HZ_NAME_PROFILE);   /* NOLINT(performance-no-int-to-ptr) */
}

/* A block of the heap profile's pool. */
static HZ_COLD void free_profiled(const void *block) {
    hz_hooks_enter(); /* in a fork's child a vanished thread may hold the profile's lock */
    size_t bytes;
    if (hz_attributes_are_set() && hz_profile_look(block, &bytes) == HZ_PROFILE_OK)
        pages_renew((uintptr_t)block, (uintptr_t)block + bytes);
    enum hz_profile_answer answer = hz_profile_free(block);
    hz_hooks_leave();
    hz_query_profiled(block, answer, HZ_IN_FREE);
}

static void free_at_once(void *block, bool is_of_zone) {
    frees_at_once++;
    hz_hooks_enter();
    if (is_of_zone)
        hz_zone_put(block);
    else
        hz_block_put(&hz_thread_none, block);
    hz_keeper_note_work();
    hz_hooks_leave();
}

static void free_in_zone(struct hz_thread_block *self, void *block, unsigned size_class) {
    hz_zone_put(block);
    if (size_class != HZ_CLASS_LARGE)
        hz_tick_zone(self, 1, size_class);
    hz_keeper_note_work();
}

/* NULL has the tag of no shard's block, so hz_free_offset no longer expects an owner. */
static void expect_own(void) {
    struct hz_thread_block *self = hz_self();
    if (HZ_HAS_HOME && hz_is_attached(self))
        self->owner_expected = self->owner;
}

void hz_free_slow(void *block) {
    if (block == NULL) {
        expect_own();
        return;
    }
    if (hz_guard_has(block)) {
        hz_guard_free(block);
        return;
    }
    if (hz_profile_has(block)) {
        free_profiled(block);
        return;
    }
    unsigned size_class = hz_query_class(block, HZ_IN_FREE);
    if (HZ_UNLIKELY(hz_attributes_are_set()) && !attributes_end(block, size_class))
        return;
    bool is_of_zone = hz_zone_has(block);
    if (is_freed_at_once(size_class)) {
        free_at_once(block, is_of_zone);
        return;
    }
    struct hz_thread_block *self = hz_thread_enter();
    if (size_class != HZ_CLASS_LARGE && !hz_is_attached(self) && !hz_thread_is_ending()) {
        hz_thread_leave(self);
        (void)hz_thread_attach(); /* without memory the block goes into its page */
        self = hz_thread_enter();
    }
    if (is_of_zone)
        free_in_zone(self, block, size_class);
    else if (size_class == HZ_CLASS_LARGE)
        free_large(self, block);
    else if (hz_is_attached(self))
        free_small(self, block, size_class);
    else /* the thread is at its end, or there is no memory for a thread block */
        hz_block_put(self, block);
    if (HZ_UNLIKELY(!hz_is_attached(self)))
        hz_keeper_note_work();
    hz_thread_leave(self);
}
