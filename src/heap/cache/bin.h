/*
 * bin.h - a thread's free blocks: one bin per size class, and one for blocks that go home to other shards.
 *
 * A bin is a stack of block pointers. The newest pointer is in the bin itself. The older ones are in the bin's slots,
 * which lie behind the thread block and are named by their byte offset in it, so all that free needs of a bin fits into
 * 16 bytes. Each bin has three arrays of slots, the first, the short and the long one (which is missing if the capacity
 * is small). A bin begins in the first array, moves to a longer one when it outgrows the array, and never moves back.
 * The first arrays of all bins lie side by side, as do the short ones. So threads whose bins stay small touch little
 * memory.
 *
 * Invariants: base <= top <= base + room, base <= limit <= base + room. The bin holds top - base blocks: `newest`, and
 * below it base[1] .. top[-1]. base[0] is always NULL, so the block below the last one reads as "none", and an empty
 * bin has newest == NULL. The room may grow up to the bin's capacity (room.c). A push onto a bin whose top is not below
 * its limit takes the slow path, which looks for double frees and the like (inspect.c). At first the limit is the base,
 * so a new thread's frees are all looked at. Then it rises towards the room in steps; now and then it is lowered again.
 *
 * Only the owner changes a bin, except that slots of a parked thread become NULL (hz_bin_take_old). `top` is atomic
 * because statistics read it from other threads. A fork may copy a bin between two stores: the copy may lack a block,
 * but never has one twice, nor one that the program has. It may be empty and still have a newest block; who gets the
 * thread block in the child mends that (hz_bin_close_holes). While a bin moves, its base is set first, then its top; a
 * top below the base reads as "empty".
 */
#ifndef HZ_HEAP_CACHE_BIN_H
#define HZ_HEAP_CACHE_BIN_H

#include "base/os/atomic.h"
#include "heap/class_policy.h"

struct hz_bin {
    void *newest;          /* owner; hz_slot_* */
    _Atomic(uint32_t) top; /* owner */
    uint32_t limit;        /* owner */
};

enum {
    HZ_REMOTE_BIN = HZ_CLASS_COUNT, /* the remote buffer: blocks of home classes that belong to other shards */
    HZ_BINS,
};

/* Begins the thread block, so a bin's offset is counted from the thread block's start. */
struct hz_cache {
    struct hz_bin bins[HZ_BINS]; /* bins[0] is empty and full for ever; tags that mean "slow path" name it */
    uint32_t bases[HZ_BINS];     /* owner; offset of each bin's first slot. Statistics read it */
    uint16_t rooms[HZ_BINS];     /* owner; blocks that each bin may hold now */
};

/* What lies behind every thread block, as offsets in it. Const after publish: written before the first thread block. */
struct hz_slot_places {
    uint32_t groups;
    uint32_t countings;
    uint32_t new_bases[HZ_BINS]; /* the first slots of a new bin, of the short array, and of the long one; 0 without */
    uint32_t short_bases[HZ_BINS];
    uint32_t long_bases[HZ_BINS];
    uint32_t behind;
};
extern HZ_HIDDEN struct hz_slot_places hz_slot_places;

/* Page tags and the table of sizes name a bin by its byte offset. */
_Static_assert(sizeof(struct hz_bin) == 16, "four bins to a cache line");
_Static_assert(HZ_CLASS_COUNT * sizeof(struct hz_bin) <= UINT16_MAX, "a bin offset must fit into a page tag");

HZ_INLINE struct hz_bin *hz_bin_at(struct hz_cache *cache, size_t offset) {
    return (struct hz_bin *)(void *)((char *)cache + offset);
}

HZ_INLINE size_t hz_bin_offset(unsigned size_class) {
    return size_class * sizeof(struct hz_bin);
}

HZ_INLINE void **hz_slot_at(struct hz_cache *cache, uint32_t offset) {
    return (void **)(void *)((char *)cache + offset);
}

/* Most blocks that a bin can hold. Here and below `index` is a class or HZ_REMOTE_BIN. */
HZ_INLINE uint32_t hz_bin_slots(unsigned index) {
    return index == HZ_REMOTE_BIN ? (uint32_t)HZ_REMOTE_COUNT : hz_bin_capacity(index);
}

enum { HZ_BIN_SLOTS_FIRST = 8 }; /* those of all small classes, and the thread block, fit into two pages of 4 KiB */

/* Blocks for which the short array has slots: any batch must fit, since it is written above the top before the bin has
   room for it (refill.c). */
HZ_INLINE uint32_t hz_bin_slots_short(unsigned index) {
    if (index == HZ_REMOTE_BIN)
        return HZ_REMOTE_COUNT;
    return ((uint32_t)hz_max(hz_bin_start(index), hz_batch_count(index)) + 1) & ~1U; /* even, as all rooms are */
}

/* Blocks for which the first array has slots. The remote buffer begins in its short one. */
HZ_INLINE uint32_t hz_bin_slots_first(unsigned index) {
    return index == HZ_REMOTE_BIN ? 0 : (uint32_t)hz_min(HZ_BIN_SLOTS_FIRST, hz_bin_slots_short(index));
}

/* Slots of the long array, with the one that stays NULL; 0 if the short array has as many. */
HZ_INLINE uint32_t hz_bin_slots_long(unsigned index) {
    return hz_bin_slots(index) > hz_bin_slots_short(index) ? 1 + hz_bin_slots(index) : 0;
}

/* The offset of the bin's first slot. */
HZ_INLINE uint32_t hz_bin_base_offset(const struct hz_cache *cache, unsigned index) {
    return hz_slot_load_rlx(&cache->bases[index]); /* relaxed: owner, or figure */
}

/* The first slot, which is always NULL. */
HZ_INLINE void **hz_bin_base(struct hz_cache *cache, unsigned index) {
    return hz_slot_at(cache, hz_bin_base_offset(cache, index));
}

/* Blocks in a bin. For its owner, and for a thread that holds a parked owner's bins; others use hz_bin_figure. */
HZ_INLINE uint32_t hz_bin_held(struct hz_cache *cache, unsigned index) {
    uint32_t top = hz_load_rlx(&cache->bins[index].top); /* relaxed: owner */
    uint32_t base = hz_bin_base_offset(cache, index);
    return HZ_LIKELY(top >= base) ? (top - base) / (uint32_t)sizeof(void *) : 0;
}

/* As hz_bin_held, for any thread: a recent figure. While a bin moves, the new top may be read with the former base, so
   the difference is no more than a hint. */
HZ_INLINE uint32_t hz_bin_figure(struct hz_cache *cache, unsigned index) {
    return (uint32_t)hz_min(hz_bin_held(cache, index), hz_bin_slots(index));
}

/* As hz_bin_figure, without what was taken out of a parked thread's bin (hz_bin_take_old). `gone`: as there. Slower;
   for statistics. */
HZ_INLINE uint32_t hz_bin_count(struct hz_cache *cache, unsigned index, void *const *gone) {
    uint32_t held = hz_bin_figure(cache, index);
    uint32_t count = 0;
    for (uint32_t i = 1; i <= held; i++) {
        /* relaxed, both: figures */
        void *block = hz_slot_load_rlx(i < held ? hz_bin_base(cache, index) + i : &cache->bins[index].newest);
        count += block != NULL && block != hz_slot_load_rlx(gone);
    }
    return count;
}

/* Blocks that a bin may hold now. Owner. */
HZ_INLINE uint32_t hz_bin_room(const struct hz_cache *cache, unsigned index) {
    return cache->rooms[index];
}

/* Lets the bin take blocks without a visit to the slow path until it holds `held`, or as many as it has room for. */
HZ_INLINE void hz_bin_limit_set(struct hz_cache *cache, unsigned index, uint32_t held) {
    uint32_t most = (uint32_t)hz_min(held, cache->rooms[index]);
    cache->bins[index].limit = hz_bin_base_offset(cache, index) + most * (uint32_t)sizeof(void *);
}

/* The number of blocks from which on a push takes the slow path. */
HZ_INLINE uint32_t hz_bin_limit(const struct hz_cache *cache, unsigned index) {
    return (cache->bins[index].limit - hz_bin_base_offset(cache, index)) / (uint32_t)sizeof(void *);
}

/* Raises the limit, within the bin's room, to one block and a quarter more than the bin holds. */
HZ_INLINE void hz_bin_limit_raise(struct hz_cache *cache, unsigned index) {
    uint32_t held = hz_bin_held(cache, index);
    hz_bin_limit_set(cache, index, (uint32_t)hz_max(hz_bin_limit(cache, index), held + 1 + held / 4));
}

/* Lowers the limit to what the bin holds, if it is higher: the next push beyond that takes the slow path. */
HZ_INLINE void hz_bin_limit_lower(struct hz_cache *cache, unsigned index) {
    hz_bin_limit_set(cache, index, (uint32_t)hz_min(hz_bin_limit(cache, index), hz_bin_held(cache, index)));
}

/* Whether the bin's array has too few slots for so many blocks. */
HZ_INLINE bool hz_bin_moves(const struct hz_cache *cache, unsigned index, uint32_t count) {
    uint32_t base = hz_bin_base_offset(cache, index);
    return (count > hz_bin_slots_first(index) && base < hz_slot_places.short_bases[index]) ||
           (count > hz_bin_slots_short(index) && base != hz_slot_places.long_bases[index]);
}

/* Whether the bin holds no more than its room, its room fits its array, and the next push beyond its limit is seen.
   Asked by hz_assert after each change of state. Owner. */
HZ_INLINE bool hz_bin_is_valid(struct hz_cache *cache, unsigned index) {
    uint32_t room = hz_bin_room(cache, index);
    return hz_load_rlx(&cache->bins[index].top) >= hz_bin_base_offset(cache, index) && /* relaxed: owner */
           hz_bin_held(cache, index) <= room && room <= hz_bin_slots(index) && !hz_bin_moves(cache, index, room) &&
           cache->bins[index].limit >= hz_bin_base_offset(cache, index) && hz_bin_limit(cache, index) <= room;
}

/* Moves the bin, with what it holds, to an array that has slots for `count` blocks. Arrays that are longer lie behind
   those that are shorter. */
HZ_INLINE void hz_bin_move(struct hz_cache *cache, unsigned index, uint32_t count) {
    uint32_t limit = hz_bin_limit(cache, index);
    uint32_t held = hz_bin_held(cache, index);
    void **from = hz_bin_base(cache, index);
    uint32_t base =
        count > hz_bin_slots_short(index) ? hz_slot_places.long_bases[index] : hz_slot_places.short_bases[index];
    hz_assert(base > hz_bin_base_offset(cache, index));
    for (uint32_t i = 1; i < held; i++)
        hz_slot_store_rlx(hz_slot_at(cache, base) + i, hz_slot_load_rlx(from + i)); /* relaxed, all: owner, or figure */
    hz_slot_store_rlx(&cache->bases[index], base);
    /* release: a fork's copy must not have the top without the base and the slots */
    hz_store_rel(&cache->bins[index].top, base + held * (uint32_t)sizeof(void *));
    hz_bin_limit_set(cache, index, limit);
}

/* Slots for `count` blocks, at most a batch, above the top of the empty bin. */
HZ_INLINE void **hz_bin_space(struct hz_cache *cache, unsigned index, uint32_t count) {
    hz_assert(hz_bin_held(cache, index) == 0);
    if (hz_bin_moves(cache, index, count))
        hz_bin_move(cache, index, count);
    return hz_bin_base(cache, index) + 1;
}

/* `room`: at least what the bin holds, at most its slots. */
HZ_INLINE void hz_bin_room_set(struct hz_cache *cache, unsigned index, uint32_t room) {
    if (hz_bin_moves(cache, index, room))
        hz_bin_move(cache, index, room);
    cache->rooms[index] = (uint16_t)room;
    hz_bin_limit_set(cache, index, hz_bin_limit(cache, index));
    hz_assert(hz_bin_is_valid(cache, index));
}

/* The newest block; NULL when the bin is empty. */
HZ_INLINE void *hz_bin_pop(struct hz_cache *cache, struct hz_bin *bin) {
    void *block = hz_slot_load_rlx(&bin->newest); /* relaxed, all: owner */
    if (HZ_UNLIKELY(block == NULL))
        return NULL;
    void *older = hz_slot_load_rlx(hz_slot_at(cache, hz_load_rlx(&bin->top)) - 1);
    hz_owner_add_rel(&bin->top, -(int)sizeof(void *));
    hz_signal_fence(); /* fork: a copy must not have `older` twice */
    hz_slot_store_rlx(&bin->newest, older);
    hz_signal_fence(); /* fork: a copy must not have the block that the caller gets */
    return block;
}

/* `top`: the bin's top; the bin holds less than its room. `latest`: its newest block. */
HZ_INLINE void hz_bin_push(struct hz_cache *cache, struct hz_bin *bin, uint32_t top, void *latest, void *block) {
    hz_signal_fence();                                 /* fork: the caller is done with the block */
    hz_slot_store_rlx(hz_slot_at(cache, top), latest); /* relaxed: owner */
    hz_slot_store_rel(&bin->newest, block);            /* sync: park, partner hz_bin_take_old */
    /* release: a fork's copy must not have the top without the block */
    hz_owner_add_rel(&bin->top, (int)sizeof(void *));
}

/* Takes all blocks out and returns their number. Until the bin is used again they are base[1] .. base[count], oldest
   first. A fork's copy made after the call has an empty bin. */
HZ_INLINE uint32_t hz_bin_empty(struct hz_cache *cache, unsigned index) {
    struct hz_bin *bin = &cache->bins[index];
    uint32_t count = hz_bin_held(cache, index);
    if (count == 0)
        return 0;
    hz_slot_store_rlx(hz_bin_base(cache, index) + count, hz_slot_load_rlx(&bin->newest)); /* relaxed, all: owner */
    hz_store_rel(&bin->top, hz_load_rlx(&bin->top) - count * (uint32_t)sizeof(void *));
    hz_signal_fence();
    hz_slot_store_rlx(&bin->newest, NULL);
    return count;
}

/* Takes the newest `count` blocks, at most as many as the bin holds, and copies them to `out`, oldest first. */
HZ_INLINE void hz_bin_take_new(struct hz_cache *cache, unsigned index, void **out, uint32_t count) {
    struct hz_bin *bin = &cache->bins[index];
    hz_assert(count > 0 && count <= hz_bin_held(cache, index));
    void *latest = hz_slot_load_rlx(&bin->newest);                    /* relaxed, all: owner */
    void **first = hz_slot_at(cache, hz_load_rlx(&bin->top)) - count; /* the slot below the blocks that are taken */
    hz_store_rel(&bin->top, hz_load_rlx(&bin->top) - count * (uint32_t)sizeof(void *));
    hz_signal_fence(); /* fork: a copy must not have a block twice, nor one that `out` has */
    hz_slot_store_rlx(&bin->newest, hz_slot_load_rlx(first));
    hz_signal_fence();
    for (uint32_t i = 1; i < count; i++)
        out[i - 1] = first[i];
    out[count - 1] = latest;
}

/* Whether a thread that pops from the bin says so (park.h). Malloc pops from bins of mid classes in hz_malloc_medium,
   which does, and from the remote buffer only slow paths take blocks. */
HZ_INLINE bool hz_bin_pops_are_seen(unsigned index) {
    return index >= HZ_MID_CLASS_FIRST;
}

/* Takes blocks out of the bin of a parked thread, whose owner may be in the middle of one pop or push, but in nothing
   else: copies up to `most` of them to `out`, and leaves NULL in their slots. Returns their number. Below `most`,
   nothing is left to take.
   A pop returns the newest block, so that block stays in a bin from which pops are not seen. The block below it goes,
   though a pop may have read it and store it into `newest`. From any other bin all blocks can go, because a push only
   stores. But `newest` must stay as it is: the push may have read it and store it into the slot at the top. So *gone,
   NULL at first, remembers the one block of each bin that was taken and may come back, and hz_bin_close_holes drops
   that block wherever it is then. */
HZ_INLINE uint32_t hz_bin_take_old(struct hz_cache *cache, unsigned index, void **gone, void **out, uint32_t most) {
    struct hz_bin *bin = &cache->bins[index];
    /* sync: park, partner hz_bin_push: sees the slots below the top */
    void **top = hz_slot_at(cache, hz_load_acq(&bin->top));
    void **base = hz_bin_base(cache, index);
    void **second = hz_bin_pops_are_seen(index) ? NULL : top - 1; /* what a pop may have read */
    uint32_t count = 0;
    for (void **slot = base + 1; slot < top; slot++) {
        void *block = hz_slot_load_rlx(slot); /* relaxed, all: a push stores only at the top, a pop not at all */
        void *noted = hz_slot_load_rlx(gone);
        if (block == NULL || (slot == second && noted != NULL && block != noted)) /* one block can be noted */
            continue;
        if (count == most)
            return count;
        if (slot == second && noted == NULL)
            hz_slot_store_rlx(gone, block);
        hz_signal_fence(); /* fork: a copy must not have the block both in the slot and in a page */
        hz_slot_store_rlx(slot, NULL);
        if (block != noted) {
            out[count++] = block;
            continue;
        }
        hz_signal_fence(); /* fork: a copy must not have the block in the slot without the note */
        hz_slot_store_rlx(gone, NULL);
    }
    void *latest = hz_slot_load_acq(&bin->newest); /* sync: park, partner hz_bin_push: its contents */
    if (!hz_bin_pops_are_seen(index) || top == base || latest == NULL || hz_slot_load_rlx(gone) != NULL ||
        count == most)
        return count;
    hz_slot_store_rlx(gone, latest);
    hz_signal_fence(); /* fork: a copy must not have the block both in the bin and in a page */
    out[count++] = latest;
    return count;
}

/* Makes base[1] .. base[count] the blocks of an empty bin. */
HZ_INLINE void hz_bin_fill(struct hz_cache *cache, unsigned index, uint32_t count) {
    struct hz_bin *bin = &cache->bins[index];
    hz_assert(hz_bin_held(cache, index) == 0 && count <= hz_bin_room(cache, index));
    hz_slot_store_rlx(&bin->newest, count > 0 ? hz_bin_base(cache, index)[count] : NULL); /* relaxed, all: owner */
    /* release: a fork's copy must not have the top without the blocks */
    hz_store_rel(&bin->top, hz_load_rlx(&bin->top) + count * (uint32_t)sizeof(void *));
    hz_assert(hz_bin_is_valid(cache, index));
}

/* Closes the holes that hz_bin_take_old left, and drops the block that *gone names. Owner. */
HZ_INLINE void hz_bin_close_holes(struct hz_cache *cache, unsigned index, void **gone) {
    uint32_t first = hz_bin_base_offset(cache, index);
    if (hz_load_rlx(&cache->bins[index].top) < first) /* relaxed: owner. The fork came while the bin moved */
        hz_store_rlx(&cache->bins[index].top, first);
    void **base = hz_bin_base(cache, index);
    uint32_t count = hz_bin_empty(cache, index); /* a fork's copy must not have a block twice */
    uint32_t kept = 0;
    if (hz_slot_load_rlx(&cache->bins[index].newest) != NULL) /* in a fork's child it may have stayed behind */
        hz_slot_store_rlx(&cache->bins[index].newest, NULL);
    for (uint32_t i = 1; i <= count; i++) {
        void *block = hz_slot_load_rlx(base + i); /* relaxed, all: owner */
        if (block != NULL && block != hz_slot_load_rlx(gone))
            hz_slot_store_rlx(base + ++kept, block);
    }
    if (count > 0)
        hz_bin_fill(cache, index, kept);
    if (hz_slot_load_rlx(gone) != NULL)
        hz_slot_store_rlx(gone, NULL);
}

#endif
