/*
 * cpu_bins.c - see cpu_bins.h.
 *
 * A section may commit on another CPU than the one whose slab a slow path has just looked at, since the thread can move
 * at any time. So slow paths only read hints there (tops, limits, rooms), which affect speed and memory, and move
 * blocks by sections.
 *
 * A bin begins with little room, and each visit doubles it, as long as all bins of the slab together have room for no
 * more than HZ_CPU_BYTES. Beyond that, other bins have to give up half of their room, and what is in it. A bin that is
 * idle sends its blocks home and its room shrinks.
 */
#include "cpu_bins.h"

#include "base/lists/lock.h"
#include "base/map/budget.h"
#include "base/map/meta.h"
#include "base/os/anatomy.h"
#include "base/os/os.h"
#include "heap/back/pressure.h"
#include "heap/cache/flush.h"
#include "heap/cache/inspect.h"
#include "heap/cache/sampler.h"
#include "heap/misuse.h"
#include "heap/pages/page.h"
#include "heap/pages/put.h"
#include "heap/pages/send.h"
#include "heap/seal.h"

#include <string.h>

/* OPEN: in hz_cpu_slabs. CLOSING: taken out, but the fence is still to come. CLOSED: no section is in it; it may be
   opened again. FULL: no section is in it, and it has blocks that are to go home first: otherwise busy CPUs would open
   their slabs again before a purge comes to them. TAKEN: a thread sends its blocks home. */
enum slab_state { SLAB_CLOSED, SLAB_OPEN, SLAB_CLOSING, SLAB_FULL, SLAB_TAKEN };

enum {
    UNUSED_ROUNDS = 10,                   /* the keeper closes a slab whose tops have not moved for so many rounds */
    NEWEST_LOOKED_AT = 64,                /* blocks of a bin that are compared with one that is freed */
    IDLE_BINS_AT_ONCE = 4,                /* most idle bins that are emptied in one call */
    VICTIMS_LOOKED_AT = 8,                /* bins that are asked in turn to give up room */
    SLAB_OLD_VISITS = 2 * HZ_CLASS_COUNT, /* of all bins, since the last one of a bin that may have to give up room */
    SOFT_LIMIT_SHARE = 16,                /* all slabs together may have room for 1/16 of the soft limit */
};

HZ_TLS struct hz_cpu_link hz_cpu_link;

_Atomic(struct hz_cpu_slab *) hz_cpu_slabs[HZ_CPUS];

static struct hz_lock slabs_lock;               /* a leaf */
static _Atomic(struct hz_cpu_slab *) made_last; /* sync: cpu-bins; all slabs, the newest first; only grows */
static struct hz_cpu_slab *slab_of[HZ_CPUS];    /* lock: slabs_lock; by the CPU's number */
static _Atomic(bool) are_on;                    /* lock: slabs_lock; atomic for hints */
static bool is_forbidden;                       /* lock: slabs_lock; are_on is never set again */
static _Atomic(uint32_t) closed_with_blocks;    /* hint: closed slabs that may have blocks */

HZ_ANATOMY(cpu_bins, HZ_ANATOMY_OBJECT(cpu_bins.made_last, made_last), HZ_ANATOMY_FIELD(hz_cpu_slab, bins),
           HZ_ANATOMY_FIELD(hz_cpu_slab, made_before), HZ_ANATOMY_SIZE(hz_cpu_bin), HZ_ANATOMY_FIELD(hz_cpu_bin, top),
           HZ_ANATOMY_FIELD(hz_cpu_bin, first));

/* ---- slabs ----------------------------------------------------------------------------------------- */

static struct hz_cpu_slab *slabs_first(void) {
    return hz_load_acq(&made_last); /* sync: cpu-bins, partner slab_add: its fields */
}

static uint32_t slab_held(struct hz_cpu_slab *slab, unsigned size_class) {
    struct hz_cpu_bin *bin = &slab->bins[size_class];
    return (hz_load_rlx(&bin->top) - bin->first) / (uint32_t)sizeof(void *); /* relaxed: hint, figure */
}

static uint32_t slab_blocks(struct hz_cpu_slab *slab) {
    uint32_t count = 0;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        count += slab_held(slab, size_class);
    return count;
}

static void **slab_slot(struct hz_cpu_slab *slab, uint32_t offset) {
    return (void **)(void *)((char *)slab + offset);
}

static void slab_limit_set(struct hz_cpu_bin *bin, uint32_t held) {
    uint32_t most = (uint32_t)hz_min(held, hz_load_rlx(&bin->room)); /* relaxed, both: hint */
    hz_store_rlx(&bin->limit, bin->first + most * (uint32_t)sizeof(void *));
}

/* Of a slab with its slots. */
static size_t slab_bytes(void) {
    size_t slots = 1;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        slots += 1 + hz_bin_capacity(size_class);
    return sizeof(struct hz_cpu_slab) + slots * sizeof(void *);
}

/* A new slab, closed and empty; NULL when there is no memory. Its memory comes zeroed. */
static struct hz_cpu_slab *slab_make(uint32_t number) {
    struct hz_cpu_slab *slab = hz_meta_alloc(slab_bytes());
    if (slab == NULL)
        return NULL;
    uint32_t offset = (uint32_t)sizeof(*slab) + (uint32_t)sizeof(void *);
    slab->bins[0].first = offset;
    hz_store_rlx(&slab->bins[0].top, offset); /* relaxed, all: not shared yet. Its limit stays 0 */
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        struct hz_cpu_bin *bin = &slab->bins[size_class];
        offset += (uint32_t)sizeof(void *); /* the slot below the first */
        bin->first = offset;
        hz_store_rlx(&bin->top, offset);
        hz_store_rlx(&bin->room, hz_bin_first(size_class));
        slab_limit_set(bin, 0);
        offset += hz_bin_capacity(size_class) * (uint32_t)sizeof(void *);
    }
    slab->number = number;
    return slab;
}

/* Makes the slab of a CPU, and lists it. The slabs are made without the lock, because hz_meta_alloc takes one. */
static void slab_add(uint32_t number) {
    struct hz_cpu_slab *slab = slab_make(number);
    if (slab == NULL)
        return;
    hz_lock_acquire(&slabs_lock);
    if (slab_of[number] == NULL) {                   /* otherwise a thread was quicker, and a slab is wasted, once */
        slab->made_before = hz_load_rlx(&made_last); /* relaxed: lock */
        hz_store_rel(&made_last, slab);              /* sync: cpu-bins, partner slabs_first */
        hz_signal_fence();                           /* fork: a copy must not use a slab that is not listed */
        slab_of[number] = slab;
    }
    hz_lock_release(&slabs_lock);
}

/* Opens the CPU's slab if it is closed. While its blocks are on their way home, the thread's own bins serve, and also
   while another thread has the lock, which is rare. */
static bool slab_open(uint32_t number) {
    if (!hz_lock_try_acquire(&slabs_lock))
        return true;
    struct hz_cpu_slab *slab = slab_of[number];
    if (slab != NULL && slab->state == SLAB_CLOSED && hz_load_rlx(&are_on)) { /* relaxed: lock */
        slab->state = SLAB_OPEN;
        hz_store_rel(&hz_cpu_slabs[number], slab); /* sync: cpu-bins, partners hz_cpu_pop, hz_cpu_push */
    }
    hz_lock_release(&slabs_lock);
    return slab != NULL;
}

/* The slab of the CPU on which the thread is, or was a moment ago. NULL: it has none now. The thread has joined. */
static struct hz_cpu_slab *slab_here(void) {
    uint32_t number = *(const volatile uint32_t *)hz_cpu_link.cpu; /* the kernel writes it */
    if (number >= HZ_CPUS)
        return NULL;
    struct hz_cpu_slab *slab = hz_load_acq(&hz_cpu_slabs[number]); /* sync: cpu-bins, partner slab_open */
    if (HZ_LIKELY(slab != NULL))
        return slab;
    if (!slab_open(number)) {
        slab_add(number);
        (void)slab_open(number);
    }
    return hz_load_acq(&hz_cpu_slabs[number]); /* sync: cpu-bins, partner slab_open */
}

/* ---- blocks -------------------------------------------------------------------------------------- */

/* Takes up to `count` (at most HZ_BIN_COUNT) of the newest blocks of a bin of the CPU. Returns their number. */
static uint32_t slab_pop_some(unsigned size_class, void **out, uint32_t count) {
    uint32_t got = 0;
    while (got < count && (out[got] = hz_cpu_pop(hz_bin_offset(size_class))) != NULL)
        got++;
    return got;
}

/* Counts blocks that leave a slab. */
static void slab_leave(struct hz_thread_block *self, unsigned size_class, void *const *blocks, uint32_t count) {
    if (HZ_BLOCKS_SEALED)
        hz_seals_check(blocks, count, HZ_WRITTEN_IN_BIN);
    if (hz_class_is_mid(size_class))
        hz_count(&self->counters.mid_moved, count);
}

/* ---- room ------------------------------------------------------------------------------------------ */

static size_t slab_charge(unsigned size_class, uint32_t room) {
    uint32_t first = hz_bin_first(size_class);
    return room > first ? (room - first) * hz_class_bytes(size_class) : 0;
}

/* Bytes of room for one CPU: HZ_CPU_BYTES, and an equal share of what a thread's allowance (cache/room.h) shares
   among threads. Where the heap has a soft limit, all CPUs together at most 1/16 of it. */
static size_t slab_room_allowed(void) {
    size_t cpus = hz_min(hz_cpus_count(), hz_pressure_threads());
    size_t room = HZ_CPU_BYTES + (HZ_ROOM_SHARED_BYTES + hz_pressure_recent_out() / 2) / cpus;
    size_t limit = hz_budget_soft_limit();
    return HZ_LIKELY(limit == 0) ? room : hz_min(room, limit / SOFT_LIMIT_SHARE / cpus);
}

static size_t slab_room_used(struct hz_cpu_slab *slab) {
    size_t bytes = 0;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        bytes += slab_charge(size_class, hz_load_rlx(&slab->bins[size_class].room)); /* relaxed: hint */
    return bytes;
}

static void slab_room_set(struct hz_cpu_bin *bin, uint32_t room) {
    hz_store_rlx(&bin->room, room); /* relaxed, all: hint */
    uint32_t most = bin->first + room * (uint32_t)sizeof(void *);
    if (hz_load_rlx(&bin->limit) > most)
        hz_store_rlx(&bin->limit, most);
}

/* Takes blocks out of a bin of the CPU until it has `keep`, and gives them to the depot, or sends them home. */
static void slab_reduce(struct hz_thread_block *self, struct hz_cpu_slab *slab, unsigned size_class, uint32_t keep) {
    void *blocks[HZ_BIN_COUNT];
    uint32_t held = slab_held(slab, size_class);
    uint32_t count = slab_pop_some(size_class, blocks, held > keep ? held - keep : 0);
    if (count == 0)
        return;
    slab_leave(self, size_class, blocks, count);
    hz_blocks_pass(self, size_class, blocks, count);
}

/* Takes room from the next bins in turn that no slow path has visited for long, until `bytes` are free or enough bins
   were asked. */
static size_t slab_room_take(struct hz_thread_block *self, struct hz_cpu_slab *slab, size_t bytes) {
    size_t freed = 0;
    uint32_t victim = hz_load_rlx(&slab->victim); /* relaxed, all: hint */
    for (unsigned asked = 0; asked < VICTIMS_LOOKED_AT && freed < bytes; asked++) {
        victim = victim + 1 < HZ_CLASS_COUNT ? victim + 1 : 1;
        struct hz_cpu_bin *bin = &slab->bins[victim];
        uint32_t room = hz_load_rlx(&bin->room);
        uint32_t age = hz_load_rlx(&slab->visits) - hz_load_rlx(&slab->visited[victim]);
        if (age < SLAB_OLD_VISITS || slab_charge(victim, room) == 0)
            continue;
        uint32_t less = (uint32_t)hz_max(room / 2, hz_bin_first(victim));
        freed += slab_charge(victim, room) - slab_charge(victim, less);
        slab_room_set(bin, less);
        slab_reduce(self, slab, victim, less);
    }
    hz_store_rlx(&slab->victim, victim);
    return freed;
}

/* A slow path found the bin full or empty: it may hold more from now on. */
static void slab_room_visit(struct hz_thread_block *self, struct hz_cpu_slab *slab, unsigned size_class) {
    struct hz_cpu_bin *bin = &slab->bins[size_class];
    uint32_t visit = hz_load_rlx(&slab->visits) + 1; /* relaxed, all: hints; two threads may count one visit */
    hz_store_rlx(&slab->visits, visit);
    hz_store_rlx(&slab->visited[size_class], visit);
    uint32_t room = hz_load_rlx(&bin->room);
    uint32_t wanted = hz_class_is_sparse(size_class) ? room : (uint32_t)hz_min(2 * room, hz_bin_capacity(size_class));
    if (wanted <= room)
        return;
    size_t more = slab_charge(size_class, wanted) - slab_charge(size_class, room);
    size_t used = slab_room_used(slab);
    size_t allowed = slab_room_allowed();
    if (used + more > allowed)
        used -= hz_min(used, slab_room_take(self, slab, used + more - allowed));
    if (used + more <= allowed)
        slab_room_set(bin, wanted);
}

static void slab_room_shrink(struct hz_cpu_bin *bin, unsigned size_class) {
    uint32_t room = hz_load_rlx(&bin->room); /* relaxed: hint */
    slab_room_set(bin, (uint32_t)hz_max(room / 2, hz_min(room, hz_bin_first(size_class))));
}

/* ---- threads --------------------------------------------------------------------------------------- */

static void link_end(void) {
    hz_cpu_link.pops = NULL; /* `cpu` stays: a handler may have interrupted a fast path before a section, and forked */
    hz_cpu_link.pushes = NULL;
    hz_signal_fence();
}

void hz_cpu_bins_leave(struct hz_thread_block *self) {
    hz_store_rlx(&self->parking.is_on_cpu, false); /* relaxed: hint */
    link_end();
}

/* Has the thread's next free of each class inspected of which its own bin has blocks: it may be a second free of one.
 */
static void first_frees_inspect(struct hz_thread_block *self) {
    struct hz_cpu_slab *slab = slab_here();
    for (unsigned size_class = 1; slab != NULL && size_class < HZ_CLASS_COUNT; size_class++)
        if (hz_bin_held(&self->cache, size_class) > 0)
            slab_limit_set(&slab->bins[size_class], 0);
}

void hz_cpu_bins_join(struct hz_thread_block *self) {
    if (!hz_load_rlx(&are_on)) { /* relaxed: hint */
        if (hz_cpu_link.pops != NULL)
            hz_cpu_bins_leave(self);
        return;
    }
    if (hz_cpu_link.pops == NULL) {
        uint32_t *area = hz_rseq_area();
        if (!HZ_RSEQ_IS_BUILT || area == NULL || hz_sampler_is_on(self))
            return;
        hz_cpu_link.cpu = area + hz_rseq_number_at(hz_rseq_area_bytes()) / sizeof(*area);
        hz_signal_fence(); /* a handler that finds `pops` uses `cpu` */
        hz_cpu_link.pops = (uint64_t *)(void *)(area + HZ_RSEQ_CS_AT / sizeof(*area));
    }
    if (hz_cpu_link.pushes == NULL && !hz_frees_are_watched(self)) {
        hz_cpu_link.pushes = hz_cpu_link.pops;
        hz_store_rlx(&self->parking.is_on_cpu, true); /* relaxed: hint */
        first_frees_inspect(self);
    }
}

void hz_cpu_bins_fill(struct hz_thread_block *self, unsigned size_class) {
    uint64_t *cs = hz_cpu_link.pops; /* a copy: a handler may fork, and the child's thread then leaves */
    uint32_t count = hz_bin_held(&self->cache, size_class);
    struct hz_cpu_slab *slab = cs != NULL && count > 0 ? slab_here() : NULL;
    if (slab == NULL)
        return;
    struct hz_cpu_bin *to = &slab->bins[size_class];
    struct hz_bin *from = &self->cache.bins[size_class];
    slab_room_visit(self, slab, size_class);
    uint32_t limit = (hz_load_rlx(&to->limit) - to->first) / (uint32_t)sizeof(void *); /* relaxed, both: hint */
    /* a batch may be more than the room: the bin has just been empty */
    uint32_t most = (uint32_t)hz_min(slab_held(slab, size_class) + count, hz_bin_capacity(size_class));
    hz_store_rlx(&to->limit, to->first + most * (uint32_t)sizeof(void *)); /* relaxed: hint */
    for (; count > 0; count--) {
        void *block = hz_bin_pop(&self->cache, from);
        if (hz_rseq_push(cs, hz_cpu_link.cpu, hz_cpu_slabs, hz_bin_offset(size_class), block))
            continue;
        uint32_t top = hz_load_rlx(&from->top); /* relaxed, both: owner. The bin has had room for it */
        hz_bin_push(&self->cache, from, top, hz_slot_load_rlx(&from->newest), block);
        break;
    }
    slab_limit_set(to, (uint32_t)hz_max(slab_held(slab, size_class), limit));
}

/* Ends the program if the block is free already, as far as can be told. The thread's own bin may have it: the thread
   has used that bin before it joined, or while the slab was closed. The block is the caller's, so it can be in no bin.
   A slot that was below the top when the top was loaded had a block then, and has had only others since: a push writes
   what its own thread is freeing. So an equal pointer there means that the block was freed twice. */
static void slab_inspect(struct hz_thread_block *self, struct hz_cpu_slab *slab, unsigned size_class, void *block) {
    struct hz_cpu_bin *bin = &slab->bins[size_class];
    if (!hz_class_has_start(size_class, block))
        hz_misuse(HZ_TEXT_INTERIOR, block, HZ_IN_FREE);
    if (hz_bin_held(&self->cache, size_class) > 0 && hz_inspect_bin_has(&self->cache, size_class, block))
        hz_misuse(HZ_TEXT_DOUBLE_FREE, block, HZ_FOUND_IN_BIN);
    uint32_t slot = hz_load_acq(&bin->top); /* sync: cpu-bins, partner hz_cpu_push: the slots below */
    for (uint32_t count = 0; slot > bin->first && count < NEWEST_LOOKED_AT; count++) {
        slot -= (uint32_t)sizeof(void *);
        const void *other = hz_slot_load_rlx(slab_slot(slab, slot)); /* relaxed: as above */
        if (((uintptr_t)other ^ (uintptr_t)block) <
            hz_class_grid(size_class)) /* the same place (base/arena/spread.h) */
            hz_misuse(HZ_TEXT_DOUBLE_FREE, block, HZ_FOUND_IN_BIN);
    }
    if (hz_block_is_home(block))
        hz_misuse(HZ_TEXT_DOUBLE_FREE, block, HZ_FOUND_IN_PAGE);
}

bool hz_cpu_bins_free(struct hz_thread_block *self, unsigned size_class, void *block) {
    hz_cpu_bins_join(self);
    struct hz_cpu_slab *slab = hz_cpu_is_joined() ? slab_here() : NULL;
    if (slab == NULL)
        return false;
    struct hz_cpu_bin *bin = &slab->bins[size_class];
    slab_inspect(self, slab, size_class, block);
    uint32_t held = slab_held(slab, size_class);
    if (held >= hz_load_rlx(&bin->room)) /* relaxed: hint */
        slab_room_visit(self, slab, size_class);
    slab_limit_set(bin, held + 1 + held / 4); /* as hz_bin_limit_raise */
    return hz_cpu_push(hz_bin_offset(size_class), block);
}

void hz_cpu_bins_relieve(struct hz_thread_block *self, unsigned size_class) {
    struct hz_cpu_slab *slab = hz_cpu_link.pops != NULL ? slab_here() : NULL;
    if (slab == NULL)
        return;
    hz_count(&self->counters.flush, 1);
    if (hz_class_is_mid(size_class))
        hz_count(&self->counters.mid_free_batch_flush, 1);
    uint32_t room = hz_load_rlx(&slab->bins[size_class].room); /* relaxed: hint */
    slab_reduce(self, slab, size_class, hz_class_is_sparse(size_class) ? 0 : room / 2);
}

void hz_cpu_bins_class_send(struct hz_thread_block *self, unsigned size_class) {
    void *blocks[HZ_BIN_COUNT];
    struct hz_cpu_slab *slab = hz_cpu_link.pops != NULL ? slab_here() : NULL;
    if (slab == NULL)
        return;
    uint32_t count = slab_pop_some(size_class, blocks, HZ_BIN_COUNT);
    slab_leave(self, size_class, blocks, count);
    hz_blocks_send(self, blocks, count);
    slab_room_shrink(&slab->bins[size_class], size_class);
}

void hz_cpu_bins_idle(struct hz_thread_block *self, unsigned busy, uint64_t now_ms) {
    struct hz_cpu_slab *slab = hz_cpu_link.pops != NULL ? slab_here() : NULL;
    if (slab == NULL)
        return;
    uint32_t next = hz_load_rlx(&slab->idle_next); /* relaxed, all: hints; two threads may look at a bin twice */
    if (next == 0) {                               /* no look goes on */
        if (now_ms < hz_load_rlx(&slab->idle_at_ms) + HZ_DEPOT_AGE_MS)
            return;
        hz_store_rlx(&slab->idle_at_ms, now_ms);
        next = 1;
    }
    for (unsigned sent = 0; next < HZ_CLASS_COUNT && sent < IDLE_BINS_AT_ONCE; next++) {
        struct hz_cpu_bin *bin = &slab->bins[next];
        uint32_t top = hz_load_rlx(&bin->top);
        if (next != busy && top == hz_load_rlx(&slab->idle_tops[next])) {
            if (top > bin->first) {
                hz_cpu_bins_class_send(self, next);
                sent++;
            } else {
                slab_room_shrink(bin, next);
            }
        }
        hz_store_rlx(&slab->idle_tops[next], hz_load_rlx(&bin->top));
        uint32_t held = slab_held(slab, next);
        if (hz_load_rlx(&bin->limit) > bin->first + held * (uint32_t)sizeof(void *))
            slab_limit_set(bin, held); /* the next push is inspected */
    }
    hz_store_rlx(&slab->idle_next, next < HZ_CLASS_COUNT ? next : 0);
}

/* ---- the keeper and purges ------------------------------------------------------------------------- */

void hz_cpu_bins_start(void) {
    if (hz_sampling_is_on() || !hz_rseq_is_usable() || !hz_rseq_fence_prepare())
        return;
    hz_lock_acquire(&slabs_lock);
    hz_store_rlx(&are_on, !is_forbidden); /* relaxed: lock */
    hz_lock_release(&slabs_lock);
}

bool hz_cpu_bins_are_on(void) {
    return hz_load_rlx(&are_on); /* relaxed: hint */
}

bool hz_cpu_bins_has(struct hz_thread_block *thread) {
    return hz_load_rlx(&are_on) && hz_load_rlx(&thread->parking.is_on_cpu); /* relaxed, both: hint */
}

/* Closes the slabs that the keeper has marked, or all. If the kernel refuses the fence, they are open again
   afterwards. True if none of them is open. */
static bool slabs_close_locked(bool all) {
    uint32_t closing = 0;
    for (struct hz_cpu_slab *slab = slabs_first(); slab != NULL; slab = slab->made_before) {
        if (slab->state != SLAB_OPEN || !(all || slab->is_unused))
            continue;
        hz_store_rlx(&hz_cpu_slabs[slab->number], NULL); /* relaxed: the fence orders it */
        slab->state = SLAB_CLOSING;
        closing++;
    }
    if (closing == 0)
        return true;
    bool done = hz_rseq_fence(); /* sync: cpu-bins, partners hz_cpu_pop, hz_cpu_push */
    for (struct hz_cpu_slab *slab = slabs_first(); slab != NULL; slab = slab->made_before) {
        if (slab->state != SLAB_CLOSING)
            continue;
        slab->state = !done ? SLAB_OPEN : slab_blocks(slab) > 0 ? SLAB_FULL : SLAB_CLOSED;
        if (!done)
            hz_store_rel(&hz_cpu_slabs[slab->number], slab); /* sync: cpu-bins, as in slab_open */
    }
    if (done)
        hz_store_rlx(&closed_with_blocks, closing); /* relaxed: hint */
    return done;
}

bool hz_cpu_bins_close(void) {
    hz_lock_acquire(&slabs_lock);
    bool done = slabs_close_locked(true);
    hz_lock_release(&slabs_lock);
    return done;
}

void hz_cpu_bins_stop(bool for_ever) {
    hz_lock_acquire(&slabs_lock);
    is_forbidden |= for_ever;
    if (slabs_close_locked(true))     /* otherwise the blocks stay where threads find them */
        hz_store_rlx(&are_on, false); /* relaxed: lock */
    hz_lock_release(&slabs_lock);
}

static bool slab_take(struct hz_cpu_slab *slab) {
    hz_lock_acquire(&slabs_lock);
    bool taken = slab->state == SLAB_CLOSED || slab->state == SLAB_FULL; /* CLOSED with blocks: after a fork */
    if (taken)
        slab->state = SLAB_TAKEN;
    hz_lock_release(&slabs_lock);
    return taken;
}

static void slab_release(struct hz_cpu_slab *slab) {
    hz_lock_acquire(&slabs_lock);
    slab->state = SLAB_CLOSED;
    hz_lock_release(&slabs_lock);
}

/* Sends home what a taken slab has, and makes its bins small. */
static uint32_t slab_empty(struct hz_thread_block *self, struct hz_cpu_slab *slab) {
    void *blocks[HZ_BIN_COUNT];
    uint32_t sent = 0;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        struct hz_cpu_bin *bin = &slab->bins[size_class];
        uint32_t count = slab_held(slab, size_class);
        for (uint32_t i = 0; i < count; i++) /* relaxed: taken */
            blocks[i] = hz_slot_load_rlx(slab_slot(slab, bin->first) + i);
        hz_store_rlx(&bin->top, bin->first); /* relaxed: taken */
        hz_signal_fence();                   /* fork: a copy must not have blocks that are on their way home */
        slab_room_set(bin, hz_bin_first(size_class));
        slab_limit_set(bin, 0);
        slab_leave(self, size_class, blocks, count);
        hz_blocks_send(self, blocks, count);
        sent += count;
    }
    return sent;
}

uint32_t hz_cpu_bins_reclaim(struct hz_thread_block *self) {
    uint32_t sent = 0;
    if (HZ_LIKELY(hz_load_rlx(&closed_with_blocks) == 0)) /* relaxed, both: hint */
        return 0;
    hz_store_rlx(&closed_with_blocks, 0);
    for (struct hz_cpu_slab *slab = slabs_first(); slab != NULL; slab = slab->made_before) {
        if (!slab_take(slab))
            continue;
        sent += slab_empty(self, slab);
        slab_release(slab);
    }
    return sent;
}

/* A digest of the tops. */
static uint64_t slab_tops(struct hz_cpu_slab *slab) {
    uint64_t digest = 0;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        digest = (digest ^ hz_load_rlx(&slab->bins[size_class].top)) * UINT64_C(0x9E3779B97F4A7C15); /* relaxed: hint */
    return digest;
}

/* The digest of an empty slab moves when it is used, too. */
static enum hz_cpu_rest slab_look(struct hz_cpu_slab *slab) {
    uint64_t digest = slab_tops(slab);
    slab->is_unused = false;
    if (digest != slab->tops_seen) {
        slab->tops_seen = digest;
        slab->rounds_unused = 0;
        return HZ_CPU_WORKS;
    }
    if (slab_blocks(slab) == 0)
        return HZ_CPU_EMPTY;
    slab->is_unused = ++slab->rounds_unused >= UNUSED_ROUNDS;
    return HZ_CPU_RESTS;
}

enum hz_cpu_rest hz_cpu_bins_look(struct hz_thread_block *self) {
    enum hz_cpu_rest most = HZ_CPU_EMPTY;
    bool close = false;
    for (struct hz_cpu_slab *slab = slabs_first(); slab != NULL; slab = slab->made_before) {
        most = (enum hz_cpu_rest)hz_max(most, slab_look(slab));
        close |= slab->is_unused;
    }
    if (close) {
        hz_lock_acquire(&slabs_lock);
        (void)slabs_close_locked(false);
        hz_lock_release(&slabs_lock);
    }
    (void)hz_cpu_bins_reclaim(self);
    return most;
}

size_t hz_cpu_bins_held(unsigned size_class) {
    size_t count = 0;
    for (struct hz_cpu_slab *slab = slabs_first(); slab != NULL; slab = slab->made_before)
        count += slab_held(slab, size_class);
    return count;
}

/* ---- walks ----------------------------------------------------------------------------------------- */

void hz_cpu_bins_walk(void (*visit)(void *context, const void *block), void *context) {
    for (struct hz_cpu_slab *slab = slabs_first(); slab != NULL; slab = slab->made_before)
        for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
            for (uint32_t i = slab_held(slab, size_class); i-- > 0;)
                visit(context, slab_slot(slab, slab->bins[size_class].first)[i]);
}

void hz_cpu_bins_memory_walk(void (*visit)(void *context, const void *memory, size_t bytes), void *context) {
    for (struct hz_cpu_slab *slab = slabs_first(); slab != NULL; slab = slab->made_before)
        visit(context, slab, slab_bytes());
}

/* ---- fork ------------------------------------------------------------------------------------------ */

void hz_cpu_bins_after_fork(void) {
    hz_lock_settle(&slabs_lock); /* the fields are sound after each step */
}

/* No other thread exists, and this one is in no section: no fence is needed. */
void hz_cpu_bins_settle_fork(void) {
    link_end();
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next) {
        _Atomic(bool) *is_on_cpu = &hz_thread_block_from(each)->parking.is_on_cpu;
        if (hz_load_rlx(is_on_cpu)) /* writes only where needed. relaxed, both: one thread */
            hz_store_rlx(is_on_cpu, false);
    }
    hz_store_rlx(&are_on, false); /* relaxed, all: one thread */
    for (struct hz_cpu_slab *slab = slabs_first(); slab != NULL; slab = slab->made_before) {
        hz_store_rlx(&hz_cpu_slabs[slab->number], NULL);
        slab->state = SLAB_CLOSED;
        slab->is_unused = false;
        hz_store_rlx(&closed_with_blocks, 1);
    }
}
