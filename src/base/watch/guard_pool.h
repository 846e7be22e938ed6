/*
 * guard_pool.h - the sampling guard's pool: blocks that lie alone on system pages, between pages that cannot be
 * accessed.
 *
 * A slot has room for one block, which lies at the room's left or right edge, at random. Pages of the room that the
 * block does not need, the guard pages around the room, and the whole room of a freed block are inaccessible, so an
 * access beyond the block or after its free faults. A freed slot is reused after all other free slots. On the block's
 * own pages, up to 64 bytes on each side of the block hold a pattern, which free checks.
 *
 * The layer above chooses which allocations come here (cache/sampler.h). There is no pool unless the program's
 * environment asks for one. A pool address has no page tag and lies in no segment, so free's fast path leaves it to the
 * slow path. Nothing here allocates from the heap. No lock is held while call stacks are taken or a report is written.
 */
#ifndef HZ_BASE_WATCH_GUARD_POOL_H
#define HZ_BASE_WATCH_GUARD_POOL_H

#include "base/os/atomic.h"
#include "base/os/compiler.h"
#include "base/profile/callstack.h"

enum {
    HZ_GUARD_BLOCK_MAX = 16 << 10, /* bytes; larger blocks are never guarded */
    HZ_GUARD_SLOTS = 256,
};

#define HZ_GUARD_RATE_MAX 1000000000 /* allocations; a macro, since a message prints it */

struct hz_guard_range {
    _Atomic(uintptr_t) begin; /* both 0 without a pool. Const after publish */
    _Atomic(size_t) bytes;
};

extern HZ_HIDDEN struct hz_guard_range hz_guard_range;

/* Reserves the pool, for one allocation in `rate` (1..HZ_GUARD_RATE_MAX). Once. False when there is no memory. Call
   hz_callstack_prime before. */
bool hz_guard_pool_make(uint32_t rate);

/* The rate; 0 without a pool. */
uint32_t hz_guard_rate(void);

/* Whether the address is in the pool: in a block, live or not, or in a guard page. */
HZ_INLINE bool hz_guard_has(const void *address) {
    /* relaxed, both: set before the pool has blocks; the program orders the passing of a block between threads */
    uintptr_t offset = (uintptr_t)address - hz_load_rlx(&hz_guard_range.begin);
    return HZ_UNLIKELY(offset < hz_load_rlx(&hz_guard_range.bytes));
}

/* A block of exactly `size` bytes, which are zero. NULL when the block is too large, every slot is in use, or the OS
   refuses memory. alignment: a power of two. */
HZ_COLD void *hz_guard_alloc(size_t size, size_t alignment);

enum hz_guard_state {
    HZ_GUARD_UNUSED, /* it never held a block */
    HZ_GUARD_FILLING,
    HZ_GUARD_LIVE,
    HZ_GUARD_FREED,
};

struct hz_guard_slot {
    enum hz_guard_state state;
    size_t size;
    const char *start; /* of the block */
    struct hz_callstack allocated;
    struct hz_callstack freed;
};

enum hz_guard_answer {
    HZ_GUARD_OK,
    HZ_GUARD_TWICE,      /* the block was freed before */
    HZ_GUARD_INSIDE,     /* not the block's start */
    HZ_GUARD_NO_BLOCK,   /* no block was ever near */
    HZ_GUARD_OVERWRITE,  /* freed, but the pattern behind the block is damaged */
    HZ_GUARD_UNDERWRITE, /* freed, but the pattern before the block is damaged */
};

/* Frees a block of the pool. block: any address of the pool. slot: gets the slot that the answer is about, unless the
   answer is NO_BLOCK. */
HZ_COLD enum hz_guard_answer hz_guard_pool_free(const void *block, struct hz_guard_slot *slot);

/* As hz_guard_pool_free, but only looks. The answer is OK, TWICE, INSIDE or NO_BLOCK. */
HZ_COLD enum hz_guard_answer hz_guard_pool_look(const void *block, struct hz_guard_slot *slot);

struct hz_guard_figures {
    size_t live_bytes; /* sizes of live blocks */
    size_t live_blocks;
    size_t resident_bytes; /* system pages that can be accessed */
    size_t mapped_bytes;
};

void hz_guard_figures_get(struct hz_guard_figures *figures);

/* Copies the slot that an access to this address of the pool was probably meant for. In a slot's room, that slot. In a
   guard page, the neighbour that is live, or if both or neither are, the one whose block is nearer. False when no block
   was there. */
bool hz_guard_find(const void *address, struct hz_guard_slot *out);

/* The slot of that number without the lock, for a moment at which no other thread is in the pool; NULL without a pool.
 */
const struct hz_guard_slot *hz_guard_slot_at(uint32_t index);

/* The number of the slot in whose room, or in front of it, the address of the pool is. HZ_GUARD_SLOTS: behind them. */
uint32_t hz_guard_slot_of(const void *address);

/* ---- fork -------------------------------------------------------------------------------------------- */

/* In a fork's child: makes the pool usable again. Slots that vanished threads were about to fill are lost. */
void hz_guard_after_fork(void);

#endif
