/*
 * sleepers.c - see sleepers.h.
 */
#include "heap/threads/sleepers.h"

#include "cpu_bins.h"
#include "heap/threads/orphan.h"
#include "heap/threads/park.h"

/* What one thread's bins show. */
struct bins_look {
    uint64_t digest; /* of the tops */
    size_t bytes;    /* of the blocks */
};

static struct bins_look bins_look(struct hz_thread_block *thread) {
    struct bins_look look = {0};
    for (unsigned index = 1; index < HZ_BINS; index++) {
        uint32_t top = hz_load_rlx(&thread->cache.bins[index].top); /* relaxed: hint */
        look.digest = (look.digest ^ top) * UINT64_C(0x9E3779B97F4A7C15);
        if (hz_bin_held(&thread->cache, index) > 0) /* most bins are empty */
            look.bytes += (size_t)hz_bin_figure(&thread->cache, index) *
                          hz_class_shapes[index == HZ_REMOTE_BIN ? 1 : index].bytes;
    }
    return look;
}

/* Parks a thread that is not parked yet if its bins' tops have not moved for HZ_SLEEPER_MS, and empties its bins. A
   thread with empty bins is parked too: its next free could otherwise fill them unseen. Adds to *bytes what it keeps.
 */
static enum hz_activity thread_park(struct hz_thread_block *self, struct hz_thread_block *thread, uint64_t now_ms,
                                    size_t *bytes) {
    struct hz_parking *parking = &thread->parking;
    if (hz_load_rlx(&parking->parked)) { /* relaxed: hint */
        if (HZ_UNLIKELY(hz_park_take_full(thread)))
            hz_park_empty(self, thread);
        return HZ_LEFT_ALONE;
    }
    struct bins_look look = bins_look(thread);
    /* A thread that uses the bins of its CPU does not fill its own unseen: the keeper closes those before it sleeps. */
    if (HZ_HAS_CPU_BINS && hz_cpu_bins_has(thread) && look.bytes == 0)
        return HZ_LEFT_ALONE;
    *bytes += look.bytes;
    if (look.digest != parking->tops_seen) {
        parking->tops_seen = look.digest;
        parking->unused_at_ms = now_ms;
        return HZ_WORKS;
    }
    if (now_ms < parking->unused_at_ms + HZ_SLEEPER_MS)
        return HZ_WAITS;
    if (!hz_park(thread)) /* it is in a slow path, or its end is near */
        return HZ_LEFT_ALONE;
    parking->unused_at_ms = now_ms;
    hz_park_empty(self, thread);
    return HZ_LEFT_ALONE;
}

static void orphans_empty(struct hz_thread_block *self) {
    hz_orphans_bury(self);
    while (hz_orphan_reclaim(self)) {
    }
}

static bool is_other(const struct hz_thread_block *self, struct hz_registered *each) {
    return each != hz_thread_registered(self) && hz_load_rlx(&each->state) == HZ_THREAD_USED; /* relaxed: hint */
}

enum hz_activity hz_sleepers_park(struct hz_thread_block *self, bool can_park, uint64_t now_ms, size_t *bytes) {
    enum hz_activity most = HZ_LEFT_ALONE;
    orphans_empty(self);
    for (struct hz_registered *each = hz_registry_first(); can_park && each != NULL; each = each->next)
        if (is_other(self, each))
            most = (enum hz_activity)hz_max(most, thread_park(self, hz_thread_block_from(each), now_ms, bytes));
    return most;
}

void hz_others_park(struct hz_thread_block *self, bool can_park) {
    orphans_empty(self);
    for (struct hz_registered *each = hz_registry_first(); can_park && each != NULL; each = each->next)
        if (is_other(self, each) && hz_park(hz_thread_block_from(each)))
            hz_park_empty(self, hz_thread_block_from(each));
}

bool hz_sleepers_moved(struct hz_thread_block *self) {
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next) {
        struct hz_thread_block *thread = hz_thread_block_from(each);
        if (is_other(self, each) && !hz_load_rlx(&thread->parking.parked) && /* relaxed: hint */
            bins_look(thread).digest != thread->parking.tops_seen)
            return true;
    }
    return false;
}
