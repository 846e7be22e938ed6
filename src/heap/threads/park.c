/*
 * park.c - see park.h.
 */
#include "heap/threads/park.h"

#include "base/os/os.h"
#include "cpu_bins.h"
#include "heap/back/pressure.h"
#include "heap/cache/room.h"
#include "heap/cache/sampler.h"
#include "heap/pages/send.h"
#include "heap/seal.h"

_Atomic(uint32_t) hz_keeper_sleeps;
_Atomic(uint32_t) hz_keeper_missed;
struct hz_life hz_first_life;

HZ_TLS struct hz_thread_block *hz_thread_mine;

/* NULL if the thread has ended and the memory of its block has gone back meanwhile. */
static struct hz_lock *lock_of(struct hz_thread_block *thread) {
    struct hz_registered *registered = hz_thread_registered(thread);
    return registered != NULL ? &registered->lock : NULL;
}

/* The keeper, or who begins or ends sampling, has left the thread something to do. */
static HZ_NOINLINE void resumed_settle(struct hz_thread_block *self) {
    for (unsigned index = 1; index < HZ_BINS; index++) {
        hz_bin_close_holes(&self->cache, index, &self->parking.gone[index]);
        hz_bin_limit_lower(&self->cache, index); /* the next free may be a second one of a block that went home */
    }
    if (hz_sampler_is_settled(self))
        return;
    hz_cpu_bins_leave(self); /* what is taken from the bins of CPUs is not counted */
    hz_sampler_settle(self);
}

/* A parked thread takes its thread block back. It may no longer be parked, if the keeper has given up. */
HZ_NOINLINE struct hz_thread_block *hz_thread_resume(void) {
    struct hz_thread_block *self = hz_thread_mine;
    if (self == NULL)
        return &hz_thread_none;
    struct hz_parking *parking = &self->parking;
    struct hz_lock *parking_lock = &hz_thread_registered(self)->lock;
    hz_lock_acquire(parking_lock);
    hz_store_rlx(&self->busy, hz_load_rlx(&self->busy) + 1); /* relaxed, all: owner, lock */
    hz_store_rlx(&hz_self_word, self);
    self->is_new = false;
    if (hz_load_rlx(&parking->parked))
        hz_pressure_join();
    hz_store_rlx(&parking->parked, false);
    bool has_holes = parking->has_holes;
    parking->has_holes = false;
    hz_lock_release(parking_lock);
    if (has_holes)
        resumed_settle(self);
    if (hz_load_rlx(&hz_keeper_sleeps) != 0) /* sync: park, partner keeper_sleep */
        hz_keeper_wake();
    return self;
}

void hz_keeper_wake(void) {
    uint32_t sleeps = 1;
    /* relaxed: only picks the thread that wakes */
    if (hz_cas_strong_acq_rlx(&hz_keeper_sleeps, &sleeps, 0))
        hz_life_wake(&hz_first_life, &hz_keeper_sleeps);
}

/* The thread block may be an orphan's: the fork then may have come while the keeper was emptying its bins. Nobody else
   touches the bins: it is not parked (hz_park_settle_fork, detach), and cannot be before hz_park_open. */
void hz_park_reset(struct hz_thread_block *self) {
    hz_assert(!hz_load_rlx(&self->parking.parked)); /* relaxed, all: as above */
    self->parking.has_holes = false;
    hz_store_rlx(&self->parking.is_on_cpu, false);
    hz_store_rlx(&self->busy, 0);
    hz_store_rlx(&self->popping, 0);
    hz_room_recount(self);
    self->frees_watched = 0;
    for (unsigned index = 1; index < HZ_BINS; index++) {
        hz_bin_close_holes(&self->cache, index, &self->parking.gone[index]);
        hz_bin_limit_set(&self->cache, index, 0); /* the frees of a new thread are watched */
    }
}

void hz_park_open(struct hz_thread_block *self) {
    hz_lock_acquire(&hz_thread_registered(self)->lock);
    if (hz_life_begin(&self->parking.life))
        hz_store_rlx(&self->parking.self_word, &hz_self_word); /* relaxed: lock */
    hz_lock_release(&hz_thread_registered(self)->lock);
}

void hz_park_close(struct hz_thread_block *self) {
    hz_lock_acquire(&hz_thread_registered(self)->lock);
    hz_store_rlx(&self->parking.self_word, NULL); /* relaxed: lock */
    hz_life_end(&self->parking.life);
    hz_lock_release(&hz_thread_registered(self)->lock);
}

bool hz_park_is_lost(struct hz_thread_block *thread) {
    struct hz_parking *parking = &thread->parking;
    struct hz_lock *parking_lock = lock_of(thread);
    if (parking_lock == NULL)
        return false;
    hz_lock_acquire(parking_lock);
    /* relaxed, both: lock */
    bool is_lost = hz_load_rlx(&parking->self_word) != NULL && hz_life_is_lost(&parking->life);
    if (is_lost) {
        hz_store_rlx(&parking->self_word, NULL); /* relaxed, all: lock */
        if (!hz_load_rlx(&parking->parked))
            hz_pressure_leave();
        hz_store_rlx(&parking->parked, false);
    }
    hz_lock_release(parking_lock);
    return is_lost;
}

void hz_park_begin(struct hz_thread_block *self) {
    hz_lock_acquire(&hz_thread_registered(self)->lock);
    self->is_new = true;
    hz_store_rlx(&hz_self_word, &hz_thread_none); /* relaxed, all: owner, lock */
    if (!hz_load_rlx(&self->parking.parked))      /* a purge may have parked it already */
        hz_pressure_leave();
    hz_store_rlx(&self->parking.parked, true);
    hz_lock_release(&hz_thread_registered(self)->lock);
}

/* Whether the thread is in no slow path and pops no mid block. Acquire: what that did to the bins. */
static bool is_outside(struct hz_thread_block *thread) {
    /* sync: park, partners hz_thread_enter, hz_thread_leave, pop_mid */
    return hz_load_acq(&thread->busy) == 0 && hz_load_acq(&thread->popping) == 0;
}

static bool park_locked(struct hz_thread_block *thread) {
    struct hz_parking *parking = &thread->parking;
    bool parked = hz_load_rlx(&parking->parked); /* relaxed, both: lock */
    _Atomic(struct hz_thread_block *) *self_word = hz_load_rlx(&parking->self_word);
    if (!parked && self_word != NULL && !hz_life_is_lost(&parking->life)) {
        hz_store_rlx(self_word, &hz_thread_none); /* sync: park, partners hz_self, hz_thread_enter */
        parked = hz_os_barrier() && is_outside(thread);
        if (!parked)
            hz_store_rlx(self_word, thread);
        hz_store_rlx(&parking->parked, parked); /* relaxed: lock */
        if (parked)
            hz_pressure_leave();
    }
    return parked;
}

bool hz_park(struct hz_thread_block *thread) {
    struct hz_lock *parking_lock = lock_of(thread);
    if (parking_lock == NULL || !is_outside(thread)) /* hint, spares the thread a wait */
        return false;
    hz_lock_acquire(parking_lock);
    bool parked = park_locked(thread); /* sync: park, partners hz_self, hz_thread_enter, hz_thread_leave, pop_mid */
    hz_lock_release(parking_lock);
    return parked;
}

/* A thread that is in a slow path may have looked before sampling began or ended, so it is not asked whether it has
   settled. One that resumes later looks after this lock. */
bool hz_park_to_settle(struct hz_thread_block *thread) {
    struct hz_parking *parking = &thread->parking;
    struct hz_lock *parking_lock = lock_of(thread);
    if (parking_lock == NULL)
        return true;
    hz_lock_acquire(parking_lock);
    bool is_done = false;
    if (is_outside(thread)) {
        bool was_parked = hz_load_rlx(&parking->parked); /* relaxed, both: lock */
        is_done = hz_sampler_is_settled(thread) || park_locked(thread);
        if (is_done && hz_load_rlx(&parking->parked)) {
            parking->has_holes = true;
            if (!was_parked)
                hz_store_rlx(&parking->is_full, true); /* relaxed: lock */
        }
    }
    hz_lock_release(parking_lock);
    return is_done;
}

bool hz_park_take_full(struct hz_thread_block *thread) {
    struct hz_lock *parking_lock = lock_of(thread);
    if (parking_lock == NULL || !hz_load_rlx(&thread->parking.is_full)) /* relaxed, all: hint, then lock */
        return false;
    hz_lock_acquire(parking_lock);
    bool is_full = hz_load_rlx(&thread->parking.is_full) && hz_load_rlx(&thread->parking.parked);
    hz_store_rlx(&thread->parking.is_full, false);
    hz_lock_release(parking_lock);
    return is_full;
}

uint32_t hz_park_take(struct hz_thread_block *thread, unsigned index, void **out) {
    struct hz_parking *parking = &thread->parking;
    struct hz_lock *parking_lock = lock_of(thread);
    uint32_t count = 0;
    if (parking_lock == NULL)
        return 0;
    hz_lock_acquire(parking_lock);
    if (hz_load_rlx(&parking->parked)) { /* relaxed: lock */
        count = hz_bin_take_old(&thread->cache, index, &parking->gone[index], out, HZ_PARK_STEP);
        parking->has_holes |= count > 0;
    }
    hz_lock_release(parking_lock);
    return count;
}

static void parked_bin_empty(struct hz_thread_block *self, struct hz_thread_block *thread, unsigned index) {
    void *blocks[HZ_PARK_STEP];
    uint32_t count;
    do {
        count = hz_park_take(thread, index, blocks);
        if (HZ_BLOCKS_SEALED)
            hz_seals_check(blocks, count, index == HZ_REMOTE_BIN ? HZ_WRITTEN_IN_BUFFER : HZ_WRITTEN_IN_BIN);
        if (hz_class_is_mid(index) && index != HZ_REMOTE_BIN)
            hz_count(&self->counters.mid_moved, count);
        else if (HZ_HAS_MID_HOME)
            hz_count(&self->counters.mid_moved, hz_blocks_count_mid(blocks, count));
        hz_blocks_send(self, blocks, count);
    } while (count == HZ_PARK_STEP);
}

void hz_park_empty(struct hz_thread_block *self, struct hz_thread_block *thread) {
    for (unsigned index = 1; index < HZ_BINS; index++)
        parked_bin_empty(self, thread, index);
}

/* The keeper may have been at any instruction. A thread that the keeper has parked resumes in its next slow path, not
   here: a signal handler that interrupted a fast path may have forked. */
void hz_park_after_fork(void) {
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next)
        hz_lock_settle(&each->lock);
    struct hz_thread_block *self = hz_thread_mine;
    if (self != NULL && hz_load_rlx(&self->parking.self_word) != NULL) /* relaxed: one thread */
        self->parking.has_holes |= hz_self() != self;
}

void hz_park_settle_fork(void) {
    hz_store_rlx(&hz_keeper_sleeps, 0); /* relaxed, all: one thread */
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next) {
        struct hz_thread_block *thread = hz_thread_block_from(each);
        if (hz_load_rlx(&thread->parking.self_word) == NULL) /* writes only where needed */
            continue;
        /* the kernel's list for this thread is empty */
        if (thread == hz_thread_mine && hz_life_begin(&thread->parking.life))
            continue;
        hz_store_rlx(&thread->parking.self_word, NULL);
        if (hz_load_rlx(&thread->parking.parked))
            hz_store_rlx(&thread->parking.parked, false);
    }
}
