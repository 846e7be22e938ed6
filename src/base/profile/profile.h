/*
 * profile.h - the heap profile's blocks: which live blocks were sampled, and at which site.
 *
 * The layer above chooses the allocations (cache/sampler.h). A chosen block of a size class comes from a pool of the
 * profile's own, so that its address shows that it was sampled: a pool address has no page tag and lies in no segment,
 * and free's fast path leaves it to the slow path. A chosen large block is an ordinary one, since free of a large block
 * always takes the slow path; a table has its address.
 *
 * The pool is a range of chunks of 64 KiB. A chunk has blocks of one size, which lie at multiples of that size. Freed
 * blocks are kept for the next chosen allocations of their size. Nothing here allocates from the heap. No lock is held
 * while a call stack is taken. A signal handler that interrupts this module may free and allocate: then nothing is
 * sampled, and a block of the pool that it frees is lost.
 *
 * Without a profile nothing is reserved, and hz_profile_rate is 0. A profile that waits (hz_profile_prepare) has its
 * tables, and the rate 0 until it is switched on. It can be switched off again; what was sampled then stays sampled,
 * and its frees are counted.
 */
#ifndef HZ_BASE_PROFILE_PROFILE_H
#define HZ_BASE_PROFILE_PROFILE_H

#include "hakozuna/hakozuna.h"

#include "base/os/atomic.h"
#include "base/os/compiler.h"

#define HZ_PROFILE_RATE_MAX 1073741824 /* bytes; a macro, since a message prints it */

struct hz_profile_state {
    _Atomic(uint64_t) rate;   /* 0 until sampling begins for the first time; then it does not change */
    _Atomic(uintptr_t) begin; /* of the pool. Const after publish, both */
    _Atomic(size_t) bytes;
    _Atomic(bool) is_on; /* hint: allocations are sampled */
};

extern HZ_HIDDEN struct hz_profile_state hz_profile_state;

/* Reserves the tables and the pool. rate: the mean distance of samples in bytes, 1..HZ_PROFILE_RATE_MAX. Once, when the
   library is loaded. Can allocate. False when there is no address space. */
bool hz_profile_prepare(uint64_t rate);

/* Begins or ends sampling, after hz_profile_prepare. Threads that are attached do not notice by themselves. Any
   thread. */
void hz_profile_switch(bool is_on);

/* Both: hz_profile_prepare, and on. */
bool hz_profile_start(uint64_t rate);

/* The rate of hz_profile_prepare; 0: it was not called. */
uint64_t hz_profile_prepared_rate(void);

/* Takes call stacks by frame pointers (base/profile/frames.h). Before hz_profile_prepare. Can allocate. False where
   that is not possible; the tables for exceptions are used then. */
bool hz_profile_use_frames(void);

/* From now on calls `told` whenever the estimate of live bytes is a tenth above that of the last call; first at 16
   times the rate. It is called inside malloc, with a lock held: it may neither allocate nor wait. After
   hz_profile_prepare, before other threads exist. */
void hz_profile_watch_peak(void (*told)(void));

/* The rate of what was sampled so far; 0: nothing ever was. */
HZ_INLINE uint64_t hz_profile_rate(void) {
    /* relaxed: who has a sampled block has it from a thread that saw the rate, or began later */
    return hz_load_rlx(&hz_profile_state.rate);
}

/* Whether allocations are sampled now. */
HZ_INLINE bool hz_profile_is_on(void) {
    return hz_load_rlx(&hz_profile_state.is_on); /* relaxed: hint, which every thread notices in time (park.h) */
}

/* Whether the address is in the pool. */
HZ_INLINE bool hz_profile_has(const void *address) {
    /* relaxed, both: set before the pool has blocks; the program orders the passing of a block between threads */
    uintptr_t offset = (uintptr_t)address - hz_load_rlx(&hz_profile_state.begin);
    return HZ_UNLIKELY(offset < hz_load_rlx(&hz_profile_state.bytes));
}

/* ---- blocks of the pool ------------------------------------------------------------------------------ */

/* A block of `block_bytes` for a request of `size` bytes, sampled. block_bytes: a multiple of 16 up to 64 KiB. The
   block is not zeroed. NULL when it cannot be sampled; that is counted, and the caller takes an ordinary block. */
HZ_COLD void *hz_profile_alloc(size_t block_bytes, size_t size);

enum hz_profile_answer {
    HZ_PROFILE_OK,
    HZ_PROFILE_TWICE,    /* the block was freed before */
    HZ_PROFILE_INSIDE,   /* not the start of a block */
    HZ_PROFILE_NO_BLOCK, /* no block was ever there */
};

/* Frees a block of the pool. block: any address of the pool. */
HZ_COLD enum hz_profile_answer hz_profile_free(const void *block);

/* Looks which block it is; OK: `block_bytes` gets its size. */
HZ_COLD enum hz_profile_answer hz_profile_look(const void *block, size_t *block_bytes);

/* ---- large blocks ------------------------------------------------------------------------------------ */

/* The weight of a large block: `size` rounded up to one of eight steps in each doubling, so that blocks of many sizes
   do not make many sites. */
size_t hz_profile_weight(size_t size);

/* Samples a large block. weight: hz_profile_weight(size). The program does not have the block yet. */
HZ_COLD void hz_profile_add(const void *block, size_t size, size_t weight);

/* A large block that was sampled. */
struct hz_profile_record {
    size_t size;
    uint32_t site;
    uint32_t thread;   /* that allocated it */
    uint32_t listener; /* the registration that was told of it (base/profile/profile_events.h); 0: none */
};

/* Tells the program that a large block is about to be freed, if it was sampled. Before the block is freed or resized,
   and before hz_profile_remove. */
HZ_COLD void hz_profile_tell_free(const void *block);

/* Before a large block is freed or resized: forgets it. False if it was not sampled. */
bool hz_profile_remove(const void *block, struct hz_profile_record *record);

/* Undoes hz_profile_remove: the block stayed as it was. The program is told of it as of a new block. */
HZ_COLD void hz_profile_restore(const void *block, const struct hz_profile_record *record);

/* Before hz_os_confine: core files get all of the pool, as hz_arena_show says. */
void hz_profile_show(void);

/* ---- figures ----------------------------------------------------------------------------------------- */

struct hz_profile_figures {
    size_t live_bytes; /* blocks of the pool */
    size_t live_blocks;
    size_t held_bytes;    /* the pool's chunks */
    uint64_t lost_blocks; /* chosen, but not sampled, for lack of memory or in a signal handler */
};

void hz_profile_figures_get(struct hz_profile_figures *figures);

/* The callback of hz_sampling_notify. Any thread. */
void hz_profile_listen(hz_sampling_callback *callback, void *context);

/* Whether the calling thread is in this module, where it may hold the lock. Also from a signal handler. */
bool hz_profile_is_inside(void);

/* Sites so far (base/profile/profile_sites.h), and pairs of threads (base/profile/profile_flow.h). Any thread. */
uint32_t hz_profile_site_count(void);
uint32_t hz_profile_pair_count(void);

/* A sampled block. */
struct hz_profile_block {
    const void *start;
    size_t bytes; /* of the pool's block; of a large one, as requested */
    uint32_t site;
};

/* The live block of the pool that has the address; and the bytes of the pool that have ever had blocks. Without the
   lock, for a moment at which no other thread is in this module. */
bool hz_profile_block_at(const void *address, struct hz_profile_block *block);
size_t hz_profile_pool_bytes(void);

/* Whether the block was sampled, with its lock: the block is live, and stays so. */
bool hz_profile_block_get(const void *start, struct hz_profile_block *block);

/* Calls `visit` for each table and for the pool. */
void hz_profile_memory_walk(void (*visit)(void *context, const void *memory, size_t bytes), void *context);

/* In a fork's child: makes the profile usable again. What vanished threads were about to add is lost. */
void hz_profile_after_fork(void);

#endif
