/*
 * guard_pool.c - see guard_pool.h.
 *
 * The pool is one range of address space: a guard page, a slot's room, a guard page, a room, ... and a guard page.
 * The slots' descriptions lie elsewhere. A queue has the slots without a live block, oldest first. A thread that takes
 * a slot out of the queue has the slot to itself until it marks the slot live.
 */
#include "base/watch/guard_pool.h"

#include "base/lists/lock.h"
#include "base/os/anatomy.h"
#include "base/os/os.h"
#include "base/os/random.h"

#include <string.h>

enum {
    PATTERN = 0xA5,
    PATTERN_BYTES = 64, /* on each side of a block, as far as its system pages reach */
};

struct hz_guard_range hz_guard_range;

struct pool {
    _Atomic(uint32_t) rate;            /* hint: set last */
    _Atomic(size_t) live_bytes;        /* counter */
    _Atomic(size_t) live_blocks;       /* counter */
    _Atomic(size_t) resident_bytes;    /* counter */
    size_t guard_bytes;                /* const after publish; a system page */
    size_t room_bytes;                 /* const after publish */
    struct hz_lock lock;               /* a leaf */
    struct hz_guard_slot *slots;       /* lock: lock */
    uint16_t queue[HZ_GUARD_SLOTS];    /* lock: lock; a ring of slots without a live block */
    uint32_t queue_first, queue_count; /* lock: lock */
    uint64_t random;                   /* lock: lock */
};

static struct pool pool;

HZ_ANATOMY(guard_pool, HZ_ANATOMY_OBJECT(guard.live_bytes, pool.live_bytes),
           HZ_ANATOMY_OBJECT(guard.live_blocks, pool.live_blocks),
           HZ_ANATOMY_OBJECT(guard.resident_bytes, pool.resident_bytes),
           HZ_ANATOMY_OBJECT(guard.mapped_bytes, hz_guard_range.bytes), HZ_ANATOMY_NUMBER(HZ_GUARD_BLOCK_MAX));

static HZ_TLS bool is_inside; /* owner; the unwinder can allocate */

bool hz_guard_pool_make(uint32_t rate) {
    pool.guard_bytes = hz_os_page_bytes();
    pool.room_bytes = hz_round_up(HZ_GUARD_BLOCK_MAX, pool.guard_bytes);
    size_t bytes = HZ_GUARD_SLOTS * (pool.room_bytes + pool.guard_bytes) + pool.guard_bytes;
    size_t table_bytes = hz_round_up(HZ_GUARD_SLOTS * sizeof(*pool.slots), pool.guard_bytes);
    char *begin = hz_os_reserve(bytes, pool.guard_bytes);
    struct hz_guard_slot *slots = begin != NULL ? hz_os_map(table_bytes, pool.guard_bytes, false) : NULL;
    if (slots == NULL) {
        if (begin != NULL)
            (void)hz_os_unmap(begin, bytes); /* if refused, address space is lost */
        return false;
    }
    hz_os_name(begin, bytes, HZ_NAME_GUARD);
    hz_lock_acquire(&pool.lock);
    pool.slots = slots;
    for (uint32_t i = 0; i < HZ_GUARD_SLOTS; i++)
        pool.queue[i] = (uint16_t)i;
    pool.queue_count = HZ_GUARD_SLOTS;
    hz_os_random(&pool.random, sizeof(pool.random));
    hz_lock_release(&pool.lock);
    /* relaxed, all: hint; a thread that uses the pool takes its lock. hz_guard_has says why the range needs no order */
    hz_store_rlx(&hz_guard_range.begin, (uintptr_t)begin);
    hz_store_rlx(&hz_guard_range.bytes, bytes);
    hz_store_rlx(&pool.rate, rate);
    return true;
}

uint32_t hz_guard_rate(void) {
    return hz_load_rlx(&pool.rate); /* relaxed: hint; set when the library is loaded */
}

/* ---- places ------------------------------------------------------------------------------------------ */

static char *room_of(uint32_t index) {
    char *begin = (char *)hz_load_rlx(&hz_guard_range.begin); /* relaxed: constant */
    return begin + pool.guard_bytes + index * (pool.room_bytes + pool.guard_bytes);
}

/* Where a block lies in a slot's room, and which system pages it needs. */
struct place {
    char *start;
    char *pages;
    size_t pages_bytes;
};

static struct place place_of(const char *start, size_t size) {
    uintptr_t os_page = pool.guard_bytes;
    uintptr_t first = (uintptr_t)start & ~(os_page - 1);
    uintptr_t behind = hz_round_up((uintptr_t)start + hz_max(size, 1), os_page);
    return (struct place){.start = (char *)(uintptr_t)start, .pages = (char *)first, .pages_bytes = behind - first};
}

static struct place place_choose(uint32_t index, size_t size, size_t alignment, bool at_right) {
    char *room = room_of(index);
    uintptr_t offset = at_right ? (pool.room_bytes - hz_max(size, 1)) & ~(alignment - 1) : 0;
    return place_of(room + offset, size);
}

/* The part of a block's pages on one side of it that has the pattern. */
struct margin {
    unsigned char *from;
    size_t bytes;
};

static struct margin margin_before(const struct place *place) {
    size_t bytes = hz_min((size_t)(place->start - place->pages), PATTERN_BYTES);
    return (struct margin){(unsigned char *)place->start - bytes, bytes};
}

static struct margin margin_behind(const struct place *place, size_t size) {
    char *behind = place->start + size;
    size_t bytes = hz_min((size_t)(place->pages + place->pages_bytes - behind), PATTERN_BYTES);
    return (struct margin){(unsigned char *)behind, bytes};
}

static void margin_fill(struct margin margin) {
    memset(margin.from, PATTERN, margin.bytes);
}

static bool margin_is_whole(struct margin margin) {
    for (size_t i = 0; i < margin.bytes; i++)
        if (margin.from[i] != PATTERN)
            return false;
    return true;
}

/* ---- slots ------------------------------------------------------------------------------------------- */

/* A fork can copy the queue between any two stores. The copy may lack a slot, but has no slot twice, and no slot that
   holds a live block. */
static void queue_add_locked(uint32_t index) {
    pool.queue[(pool.queue_first + pool.queue_count) % HZ_GUARD_SLOTS] = (uint16_t)index;
    hz_signal_fence();
    pool.queue_count++;
}

static uint32_t queue_take_locked(void) {
    uint32_t index = pool.queue[pool.queue_first];
    pool.queue_count--;
    hz_signal_fence();
    pool.queue_first = (pool.queue_first + 1) % HZ_GUARD_SLOTS;
    return index;
}

/* Takes the slot that was freed the longest ago; false when all are in use. at_right: a random bit. */
static bool slot_take(uint32_t *index, bool *at_right) {
    hz_lock_acquire(&pool.lock);
    bool found = pool.queue_count > 0;
    if (found) {
        *index = queue_take_locked();
        pool.slots[*index].state = HZ_GUARD_FILLING;
        *at_right = hz_random_next(&pool.random) >> 63 != 0;
    }
    hz_lock_release(&pool.lock);
    return found;
}

static void slot_give_back(uint32_t index) {
    hz_lock_acquire(&pool.lock);
    pool.slots[index].state = HZ_GUARD_UNUSED;
    queue_add_locked(index);
    hz_lock_release(&pool.lock);
}

static void *slot_fill(size_t size, size_t alignment) {
    struct hz_callstack stack;
    uint32_t index = 0;
    bool at_right = false;
    hz_callstack_take(&stack);
    if (!slot_take(&index, &at_right))
        return NULL;
    struct place place = place_choose(index, size, alignment, at_right);
    if (!hz_os_commit(place.pages, place.pages_bytes)) {
        slot_give_back(index);
        return NULL;
    }
    margin_fill(margin_before(&place));
    margin_fill(margin_behind(&place, size));
    hz_add_rlx(&pool.live_bytes, size); /* relaxed, all: counter */
    hz_add_rlx(&pool.live_blocks, 1);
    hz_add_rlx(&pool.resident_bytes, place.pages_bytes);
    hz_lock_acquire(&pool.lock);
    struct hz_guard_slot *slot = &pool.slots[index];
    *slot = (struct hz_guard_slot){.state = HZ_GUARD_LIVE, .size = size, .start = place.start, .allocated = stack};
    hz_lock_release(&pool.lock);
    return place.start;
}

void *hz_guard_alloc(size_t size, size_t alignment) {
    if (size > HZ_GUARD_BLOCK_MAX || alignment > pool.guard_bytes || is_inside)
        return NULL;
    is_inside = true;
    void *block = slot_fill(size, alignment);
    is_inside = false;
    return block;
}

/* ---- which slot -------------------------------------------------------------------------------------- */

static size_t distance(const struct hz_guard_slot *slot, const char *address) {
    if (address < slot->start)
        return (size_t)(slot->start - address);
    const char *behind = slot->start + slot->size;
    return address < behind ? 0 : (size_t)(address - behind) + 1;
}

static bool held_a_block(const struct hz_guard_slot *slot) {
    return slot->state == HZ_GUARD_LIVE || slot->state == HZ_GUARD_FREED;
}

/* The slot that better explains an access to the guard page between two slots; NULL if neither held a block. */
static const struct hz_guard_slot *choose(const struct hz_guard_slot *left, const struct hz_guard_slot *right,
                                          const char *address) {
    if (left == NULL || !held_a_block(left))
        return right != NULL && held_a_block(right) ? right : NULL;
    if (right == NULL || !held_a_block(right))
        return left;
    if (left->state != right->state)
        return left->state == HZ_GUARD_LIVE ? left : right;
    return distance(left, address) <= distance(right, address) ? left : right;
}

static const struct hz_guard_slot *find_locked(const char *address) {
    size_t stride = pool.guard_bytes + pool.room_bytes;
    size_t offset = (uintptr_t)address - hz_load_rlx(&hz_guard_range.begin); /* relaxed: constant */
    size_t index = offset / stride;
    if (offset % stride < pool.guard_bytes)
        return choose(index > 0 ? &pool.slots[index - 1] : NULL, index < HZ_GUARD_SLOTS ? &pool.slots[index] : NULL,
                      address);
    return held_a_block(&pool.slots[index]) ? &pool.slots[index] : NULL;
}

/* A signal handler can come here while its own thread holds the lock: a bug of ours, but the report must not hang. */
bool hz_guard_find(const void *address, struct hz_guard_slot *out) {
    bool is_mine = hz_lock_is_mine(&pool.lock);
    if (!is_mine)
        hz_lock_acquire(&pool.lock);
    const struct hz_guard_slot *slot = find_locked(address);
    if (slot != NULL)
        *out = *slot;
    if (!is_mine)
        hz_lock_release(&pool.lock);
    return slot != NULL;
}

/* ---- free -------------------------------------------------------------------------------------------- */

static enum hz_guard_answer judge_locked(const void *block, const struct hz_guard_slot *slot) {
    if (slot == NULL)
        return HZ_GUARD_NO_BLOCK;
    if (slot->start != block)
        return HZ_GUARD_INSIDE;
    return slot->state == HZ_GUARD_LIVE ? HZ_GUARD_OK : HZ_GUARD_TWICE;
}

enum hz_guard_answer hz_guard_pool_look(const void *block, struct hz_guard_slot *slot) {
    return judge_locked(block, hz_guard_find(block, slot) ? slot : NULL);
}

/* Marks a live slot as freed. From then on the calling thread has the slot to itself. */
static enum hz_guard_answer slot_free(const void *block, const struct hz_callstack *stack, struct hz_guard_slot *copy,
                                      uint32_t *index) {
    hz_lock_acquire(&pool.lock);
    const struct hz_guard_slot *found = find_locked(block);
    enum hz_guard_answer answer = judge_locked(block, found);
    if (answer == HZ_GUARD_OK) {
        *index = (uint32_t)(found - pool.slots);
        pool.slots[*index].state = HZ_GUARD_FREED;
        pool.slots[*index].freed = *stack;
    }
    if (found != NULL)
        *copy = *found;
    hz_lock_release(&pool.lock);
    return answer;
}

enum hz_guard_answer hz_guard_pool_free(const void *block, struct hz_guard_slot *slot) {
    struct hz_callstack stack = {.thread_id = 0};
    uint32_t index = 0;
    if (!is_inside) {
        is_inside = true;
        hz_callstack_take(&stack);
        is_inside = false;
    }
    enum hz_guard_answer answer = slot_free(block, &stack, slot, &index);
    if (answer != HZ_GUARD_OK)
        return answer;
    struct place place = place_of(slot->start, slot->size);
    (void)hz_os_protect(place.pages, place.pages_bytes, true, false); /* the program may have protected them */
    if (!margin_is_whole(margin_before(&place)))
        answer = HZ_GUARD_UNDERWRITE;
    else if (!margin_is_whole(margin_behind(&place, slot->size)))
        answer = HZ_GUARD_OVERWRITE;
    hz_sub_rlx(&pool.live_bytes, slot->size); /* relaxed, both: counter */
    hz_sub_rlx(&pool.live_blocks, 1);
    if (!hz_os_close(place.pages, place.pages_bytes))
        return answer;                                   /* the pages stay accessible, so the slot is not used again */
    hz_sub_rlx(&pool.resident_bytes, place.pages_bytes); /* relaxed: counter */
    hz_lock_acquire(&pool.lock);
    queue_add_locked(index);
    hz_lock_release(&pool.lock);
    return answer;
}

/* ---- the rest ---------------------------------------------------------------------------------------- */

void hz_guard_figures_get(struct hz_guard_figures *figures) {
    *figures = (struct hz_guard_figures){
        .live_bytes = hz_load_rlx(&pool.live_bytes), /* relaxed, all: figures */
        .live_blocks = hz_load_rlx(&pool.live_blocks),
        .resident_bytes = hz_load_rlx(&pool.resident_bytes),
        .mapped_bytes = hz_load_rlx(&hz_guard_range.bytes),
    };
}

const struct hz_guard_slot *hz_guard_slot_at(uint32_t index) {
    return pool.slots != NULL ? &pool.slots[index] : NULL;
}

uint32_t hz_guard_slot_of(const void *address) {
    uintptr_t offset = (uintptr_t)address - hz_load_rlx(&hz_guard_range.begin); /* relaxed: constant */
    return (uint32_t)hz_min(offset / (pool.guard_bytes + pool.room_bytes), HZ_GUARD_SLOTS);
}

void hz_guard_after_fork(void) {
    if (hz_guard_rate() == 0)
        return;
    hz_lock_settle(&pool.lock);
    hz_os_random(&pool.random, sizeof(pool.random));
}
