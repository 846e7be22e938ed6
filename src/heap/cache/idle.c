/*
 * idle.c - see idle.h.
 *
 * If a bin's top is where it was a round ago, the bin was not used since, or as many blocks came as went; in that case
 * the thread refills it. An idle bin goes home whole and not by halves: if its blocks were freed in random order, half
 * of them hold nearly as many pages as all of them.
 *
 * Each look also lowers the bin's limit, so that some of the next frees are inspected (inspect.c).
 */
#include "heap/cache/idle.h"

#include "heap/cache/flush.h"
#include "heap/cache/room.h"

enum { BINS_AT_ONCE = 4 }; /* most bins that are flushed in one call */

/* The low bits, in slots: no bin has so many slots that two of its tops have the same ones. */
static uint16_t top_of(struct hz_thread_block *self, unsigned index) {
    return (uint16_t)(hz_load_rlx(&self->cache.bins[index].top) / sizeof(void *)); /* relaxed: owner */
}

void hz_idle_bins_flush(struct hz_thread_block *self, unsigned busy, uint64_t now_ms) {
    if (self->idle_next == 0) { /* no round goes on */
        if (now_ms < self->idle_at_ms + HZ_DEPOT_AGE_MS)
            return;
        self->idle_at_ms = now_ms;
        self->idle_next = 1;
    }
    unsigned flushed = 0;
    while (self->idle_next < HZ_BINS && flushed < BINS_AT_ONCE) {
        unsigned index = self->idle_next++;
        uint16_t top = top_of(self, index);
        if (index != busy && top == self->idle_tops[index]) {
            flushed += hz_bin_held(&self->cache, index) > 0;
            hz_bin_send_home(self, index);
            hz_room_shrink(self, index);
        }
        self->idle_tops[index] = top_of(self, index);
        hz_bin_limit_lower(&self->cache, index);
    }
    if (self->idle_next == HZ_BINS)
        self->idle_next = 0;
}
