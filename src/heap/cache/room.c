/*
 * room.c - see room.h.
 *
 * A bin begins with room for a few blocks, or none above 4 KiB, so that a thread which uses a class once takes few from
 * its pages. Each visit doubles the room: up to the bin's capacity while the thread has used little of its allowance
 * (very little if the bin is to exceed 512 blocks), and then up to hz_bin_start, or not at all if very many threads
 * share. So a few classes, or the bursts of a few threads, get bins that make trips to the depot rare, and many threads
 * that use many classes keep little of each. Room shrinks when the bin is idle, when its class is sparse, or when the
 * thread's bins have more room than is allowed. The next thread that gets the thread block inherits half of it.
 */
#include "heap/cache/room.h"

#include "base/map/budget.h"
#include "heap/back/pressure.h"
#include "heap/cache/flush.h"
#include "policy.h"

enum {
    GAP_MAX = UINT8_MAX, /* visits; a gap takes one byte in the thread block */
    VISITS_BETWEEN = 16, /* after a search that found no such bin, visits until the next search */
};

/* Only classes that pay for each block have a lower first room (hz_bin_first). For most bins of a new thread this
   spares a look at the table. */
enum { LEAST_FIRST = HZ_BIN_FIRST_COUNT_LARGE };

/* ---- the allowance ----------------------------------------------------------------------------------- */

static size_t allowance_of(size_t threads) {
    size_t shared = HZ_ROOM_SHARED_BYTES + hz_min(threads, HZ_ROOM_FEW) * HZ_ROOM_FEW_BYTES;
    if (threads > HZ_ROOM_FEW)
        shared = shared / threads * HZ_ROOM_FEW;
    size_t room = HZ_ROOM_BYTES + (shared + hz_pressure_recent_out_short() / 2) / threads;
    size_t limit = hz_budget_soft_limit();
    return HZ_LIKELY(limit == 0) ? room : hz_min(room, limit / HZ_ROOM_LIMIT_SHARE / threads);
}

size_t hz_allowance(void) {
    return allowance_of(hz_pressure_threads());
}

/* ---- room -------------------------------------------------------------------------------------------- */

/* Bytes that a bin's room costs. The first few blocks are not charged. */
static ptrdiff_t room_charge(unsigned size_class, uint32_t room) {
    const struct hz_class_shape *shape = &hz_class_shapes[size_class];
    if (room <= LEAST_FIRST && !hz_class_pays(size_class))
        return 0;
    return room > shape->first ? (ptrdiff_t)((size_t)(room - shape->first) * shape->bytes) : 0;
}

static void charge(struct hz_thread_block *self, unsigned size_class, ptrdiff_t bytes) {
    self->room_bytes += bytes;
    if (hz_class_is_long(size_class))
        self->long_room_bytes += bytes;
}

void hz_room_set(struct hz_thread_block *self, unsigned size_class, uint32_t room) {
    ptrdiff_t before = room_charge(size_class, hz_bin_room(&self->cache, size_class));
    charge(self, size_class, room_charge(size_class, room) - before);
    hz_bin_room_set(&self->cache, size_class, room);
}

void hz_room_recount(struct hz_thread_block *self) {
    self->room_bytes = 0;
    self->long_room_bytes = 0;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        charge(self, size_class, room_charge(size_class, hz_bin_room(&self->cache, size_class)));
}

/* What all of a thread's bins may have now. */
struct allowed {
    size_t threads;
    ptrdiff_t bytes;
};

/* The room up to which visits may double a bin's room now. */
static uint32_t room_limit(const struct hz_thread_block *self, unsigned size_class, const struct allowed *allowed) {
    const struct hz_class_shape *shape = &hz_class_shapes[size_class];
    bool is_crowded = allowed->threads > HZ_ROOM_CROWD;
    if (self->room_bytes >= allowed->bytes / (is_crowded ? HZ_ROOM_CROWD_FREE_SHARE : HZ_ROOM_FREE_SHARE))
        return is_crowded ? shape->first : shape->start;
    bool has_ample = self->room_bytes < allowed->bytes / HZ_ROOM_AMPLE_SHARE;
    return (uint32_t)hz_min(shape->capacity, has_ample ? HZ_BIN_COUNT : HZ_BIN_COUNT_USUAL);
}

/* Counts a visit, and smooths the number of visits between two for the class. */
static void visit_count(struct hz_thread_block *self, unsigned size_class) {
    uint32_t gap = (uint32_t)hz_min((uint16_t)(++self->visits - self->visited[size_class]), GAP_MAX);
    self->visited[size_class] = (uint16_t)self->visits;
    self->visit_gaps[size_class] = (uint8_t)((3U * self->visit_gaps[size_class] + gap) / 4);
}

/* Empties the bin whose last visit was the longest ago, if it is used much less than the class that wants to grow. Both
   classes have long blocks, or both have not. */
static void old_bin_empty(struct hz_thread_block *self, unsigned size_class) {
    unsigned oldest = 0;
    uint32_t oldest_age = (uint32_t)hz_max(HZ_ROOM_OLD_GAPS * self->visit_gaps[size_class], HZ_ROOM_OLD_VISITS);
    bool is_long = hz_class_is_long(size_class);
    unsigned behind = is_long ? HZ_CLASS_COUNT : HZ_LONG_CLASS_FIRST;
    for (unsigned other = is_long ? HZ_LONG_CLASS_FIRST : 1; other < behind; other++) {
        uint16_t age = (uint16_t)(self->visits - self->visited[other]);
        if (age > oldest_age && hz_bin_room(&self->cache, other) > hz_class_shapes[other].first) {
            oldest = other;
            oldest_age = age;
        }
    }
    if (oldest == 0) {
        self->searched_at = self->visits;
        return;
    }
    hz_bin_send_home(self, oldest);
    hz_room_set(self, oldest, hz_class_shapes[oldest].first);
}

/* Whether the bin may have room for so many bytes more. */
static bool may_have(const struct hz_thread_block *self, unsigned size_class, ptrdiff_t more,
                     const struct allowed *allowed) {
    if (self->room_bytes + more > allowed->bytes)
        return false;
    return !hz_class_is_long(size_class) ||
           self->long_room_bytes + more <=
               (ptrdiff_t)hz_min(HZ_LONG_ROOM_BYTES, HZ_LONG_ROOM_BYTES_MAX / allowed->threads);
}

bool hz_room_visit(struct hz_thread_block *self, unsigned size_class) {
    visit_count(self, size_class);
    size_t threads = hz_pressure_threads();
    struct allowed allowed = {.threads = threads, .bytes = (ptrdiff_t)allowance_of(threads)};
    uint32_t room = hz_bin_room(&self->cache, size_class);
    uint32_t wanted = room;
    if (room < hz_class_shapes[size_class].capacity)
        wanted = (uint32_t)hz_max(room, hz_min(hz_max(2 * room, 1), room_limit(self, size_class, &allowed)));
    ptrdiff_t more = wanted > room ? room_charge(size_class, wanted) - room_charge(size_class, room) : 0;
    if (!may_have(self, size_class, more, &allowed) && self->visits - self->searched_at >= VISITS_BETWEEN)
        old_bin_empty(self, size_class);
    if (wanted > room && may_have(self, size_class, more, &allowed))
        hz_room_set(self, size_class, wanted);
    return self->room_bytes > allowed.bytes + allowed.bytes / HZ_ROOM_EXCESS_SHARE;
}

void hz_room_shrink(struct hz_thread_block *self, unsigned index) {
    if (index == HZ_REMOTE_BIN)
        return;
    uint32_t room = hz_bin_room(&self->cache, index);
    uint32_t target = hz_class_is_sparse(index) ? HZ_ROOM_SPARSE_COUNT
                                                : (uint32_t)hz_max(room / 2 & ~1U, hz_class_shapes[index].first);
    uint32_t held = hz_bin_held(&self->cache, index);
    /* the class may have become sparse just now; a block that pays and has no room goes on */
    uint32_t needed = hz_class_pays(index) ? held : (held + 2) & ~1U;
    hz_room_set(self, index, (uint32_t)hz_min(room, hz_max(target, needed)));
}

void hz_room_shrink_all(struct hz_thread_block *self) {
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        uint32_t room = hz_bin_room(&self->cache, size_class);
        if (room > 0 && (room > LEAST_FIRST || hz_class_pays(size_class)) && room > hz_class_shapes[size_class].first)
            hz_room_shrink(self, size_class);
    }
}

uint32_t hz_room_batch(const struct hz_thread_block *self, unsigned size_class) {
    return (uint32_t)hz_min(hz_max(hz_bin_room(&self->cache, size_class) / 2, 1), HZ_BATCH_COUNT);
}

void hz_room_ensure(struct hz_thread_block *self, unsigned size_class, uint32_t count) {
    if (count > hz_bin_room(&self->cache, size_class))
        hz_room_set(self, size_class, (uint32_t)hz_min(count + count % 2, hz_class_shapes[size_class].capacity));
}

/* ---- idle bins ---------------------------------------------------------------------------------------- */

/*
 * If a bin's top is where it was a round ago, the bin was not used since, or as many blocks came as went; in that case
 * the thread refills it. An idle bin goes home whole and not by halves: if its blocks were freed in random order, half
 * of them hold nearly as many pages as all of them.
 *
 * Each look also lowers the bin's limit, so that some of the next frees are inspected (inspect.c).
 */

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
