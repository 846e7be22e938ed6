/*
 * depot.c - see depot.h.
 *
 * A batch moves from thread to thread by copying pointers; no block is touched on its way. There is a stack for each
 * CPU (or for a few neighbours, if there are many: hz_parts_for), so blocks mostly stay in the cache where they are,
 * and CPUs seldom disturb each other. A thread pushes onto the part of its CPU, and pops from another part only when
 * its own is empty. Which part a thread uses only affects speed: it may move to another CPU at any time.
 *
 * A home class has a stack in each shard instead. Only the shard's threads pop from it; ageing, a purge and the shard's
 * last thread send its blocks home. Its batches come from bins of the shard's threads, and from remote buffers of other
 * threads, if a buffer holds only blocks of that shard and class. In a bin of a home class all blocks are of the
 * thread's shard, except a stray, whose page has just changed hands. So the blocks stay with their shard.
 */
#include "heap/cache/depot.h"

#include "base/arena/arena_state.h"
#include "base/map/budget.h"
#include "base/os/anatomy.h"
#include "heap/cache/batches.h"
#include "heap/pages/page.h"
#include "heap/pages/shard.h"
#include "policy.h"

static struct hz_part_stack stacks[HZ_DEPOT_PARTS][HZ_CLASS_COUNT]; /* a home class's are in the shards (shard.h) */
static _Atomic(uint32_t) passing[HZ_CLASS_COUNT]; /* hint: above 0 while threads take what others pushed */
/* hints, both; in blocks. `turned_away`: refused in this ageing round, not yet asked for again. `swing`: how much more
   than HZ_DEPOT_BYTES may rest, at most as much again: what was refused and soon asked for again */
static _Atomic(uint32_t) turned_away[HZ_CLASS_COUNT];
static _Atomic(uint32_t) swing[HZ_CLASS_COUNT];

HZ_ANATOMY(depot, HZ_ANATOMY_OBJECT(depot.stacks, stacks), HZ_ANATOMY_NUMBER(HZ_DEPOT_PARTS),
           HZ_ANATOMY_SIZE(hz_part_stack));

/* The shard's stack of a home class. */
static struct hz_stack *surplus_of(struct hz_shard *shard, unsigned size_class) {
    return &shard->classes[size_class].surplus;
}

/* Stack `index` of the class, counted from 0; NULL behind the last one. A home class has a stack for each shard. */
static struct hz_stack *stack_at(unsigned size_class, uint32_t index) {
    if (!hz_class_is_home(size_class))
        return index < hz_part_count() ? &stacks[index][size_class].stack : NULL;
    struct hz_shard *shard = hz_shard_get(index); /* shards are made in order */
    return shard != NULL ? surplus_of(shard, size_class) : NULL;
}

/* The fullest stack of a home class among those that nobody uses, or else of all; NULL when all are empty. */
static struct hz_stack *stack_to_age(unsigned size_class) {
    struct hz_stack *found = NULL;
    uint32_t most = 0;
    for (struct hz_shard *shard = hz_shard_get(0); shard != NULL; shard = hz_shard_next(shard)) {
        struct hz_stack *stack = surplus_of(shard, size_class);
        uint32_t count = hz_stack_blocks(stack);
        if (count > 0 && hz_load_rlx(&stack->is_idle)) /* relaxed: hint */
            count += HZ_STACK_BLOCKS_MAX;
        if (count <= most)
            continue;
        found = stack;
        most = count;
    }
    return found;
}

/* Pops from one shard's stack; 0 when all were empty. If other threads empty the one that was found, looks again: a
   purge would end too early otherwise. */
static uint32_t shards_pop(unsigned size_class, uint32_t count) {
    for (;;) {
        struct hz_stack *stack = stack_to_age(size_class);
        if (stack == NULL)
            return 0;
        uint32_t index = hz_stack_pop(stack, count);
        if (index != 0)
            return index;
    }
}

/* Pops from `part`, or else from the next part that has something. `count`: as in hz_stack_pop. */
static uint32_t parts_pop(unsigned size_class, uint32_t part, uint32_t count) {
    uint32_t index = 0;
    for (uint32_t left = hz_part_count(); index == 0 && left > 0; left--, part = hz_part_after(part))
        index = hz_stack_pop(&stacks[part][size_class].stack, count);
    return index;
}

/* Whether the heap is far below its soft limit, if it has one. */
static bool is_roomy(void) {
    size_t soft = hz_budget_soft_limit();
    return soft == 0 || hz_arena_soft_held_bytes() < soft / 2;
}

/* Most blocks that may rest in all parts together: HZ_DEPOT_BYTES and the class's swing; or, while blocks pass from
   thread to thread, a share of all blocks of the class if that is more. So a burst of frees on one side finds room
   while the other side sleeps, and ageing sends the blocks home afterwards. If a thread only pops what it pushed
   itself, more than a little at rest would waste memory. (Two threads on one CPU that push and pop alternately get each
   other's batches: that counts as passing.) Long blocks get no share: so much memory is of no use to other classes. */
static uint32_t cap_of(unsigned size_class) {
    size_t fixed = hz_class_shapes[size_class].depot_blocks;
    size_t more = hz_load_rlx(&swing[size_class]); /* relaxed, both: hint */
    size_t most = fixed + (more > 0 && is_roomy() ? more : 0);
    if (hz_load_rlx(&passing[size_class]) > 0 && !hz_class_is_long(size_class))
        most = hz_max(most, hz_class_blocks(size_class) * HZ_DEPOT_PERCENT / 100);
    return (uint32_t)hz_min(most, HZ_STACK_BLOCKS_MAX);
}

/* Whether neighbours in a batch are near in memory; all LOOKS samples must be. A batch of less than five has none. */
static bool are_in_order(unsigned size_class, void *const *blocks, uint32_t count) {
    enum { LOOKS = 4, NEAR_BLOCKS = 4 };
    size_t near = (size_t)NEAR_BLOCKS * hz_class_shapes[size_class].bytes;
    uint32_t found = 0;
    for (uint32_t i = 1; i <= LOOKS; i++) {
        uint32_t at = count * i / (LOOKS + 1);
        found += at > 0 && (uintptr_t)blocks[at] - (uintptr_t)blocks[at - 1] + near < 2 * near;
    }
    return found == LOOKS;
}

/* The depot has refused blocks. Blocks in no order are better off at home: they come back in memory order,
   which saves the program more misses than the way home and back costs. */
static void swing_note_refused(unsigned size_class, void *const *blocks, uint32_t count) {
    uint32_t before = hz_load_rlx(&turned_away[size_class]); /* relaxed, all: hint */
    if (hz_load_rlx(&passing[size_class]) == 0 && before < hz_class_shapes[size_class].depot_blocks &&
        are_in_order(size_class, blocks, count))
        hz_store_rlx(&turned_away[size_class], before + count);
}

/* The depot is empty, and the thread will take a batch out of pages. If the depot refused one this round, the limit
   rises by a batch. */
static void swing_note_empty(unsigned size_class) {
    uint32_t before = hz_load_rlx(&turned_away[size_class]); /* relaxed, all: hints */
    if (HZ_LIKELY(before == 0))
        return;
    uint32_t batch = (uint32_t)hz_min(before, hz_class_shapes[size_class].batch);
    uint32_t most = hz_class_shapes[size_class].depot_blocks;
    hz_store_rlx(&turned_away[size_class], before - batch);
    hz_store_rlx(&swing[size_class], (uint32_t)hz_min(hz_load_rlx(&swing[size_class]) + batch, most));
}

uint32_t hz_depot_pop(struct hz_thread_block *self, unsigned size_class, void **out) {
    uint16_t from = hz_thread_mark(self);
    uint32_t most = hz_class_shapes[size_class].batch;
    if (!HZ_HAS_DEPOT)
        return 0;
    bool is_home = hz_class_is_home(size_class);
    uint32_t index =
        is_home ? hz_stack_pop(surplus_of(self->shard, size_class), most) : parts_pop(size_class, hz_part_here(), most);
    uint32_t count = hz_batch_take(self, size_class, index, out, &from);
    if (!is_home && from != hz_thread_mark(self) && hz_load_rlx(&passing[size_class]) != HZ_DEPOT_PASSING_ROUNDS)
        hz_store_rlx(&passing[size_class], HZ_DEPOT_PASSING_ROUNDS); /* relaxed, both: hint */
    if (count == 0 && !is_home)
        swing_note_empty(size_class);
    return count;
}

uint32_t hz_depot_pop_home(struct hz_thread_block *self, unsigned size_class, void **out) {
    uint16_t from;
    uint32_t most = hz_class_shapes[size_class].batch;
    if (!HZ_HAS_DEPOT)
        return 0;
    if (hz_class_is_home(size_class))
        return hz_batch_take(self, size_class, shards_pop(size_class, most), out, &from);
    uint32_t part = hz_part_after(hz_part_here()); /* this CPU's part last, since it is in use */
    return hz_batch_take(self, size_class, parts_pop(size_class, part, most), out, &from);
}

void hz_depot_forget_passing(unsigned size_class) {
    uint32_t left =
        hz_load_rlx(&passing[size_class]); /* relaxed, both: hint; two simultaneous rounds count down once */
    if (left > 0)
        hz_store_rlx(&passing[size_class], left - 1);
}

static void swing_lower(unsigned size_class, uint32_t divisor) {
    uint32_t more = hz_load_rlx(&swing[size_class]); /* relaxed, all: hints */
    if (more > 0)
        hz_store_rlx(&swing[size_class], more / divisor);
    if (hz_load_rlx(&turned_away[size_class]) > 0)
        hz_store_rlx(&turned_away[size_class], 0);
}

void hz_depot_halve_swing(unsigned size_class) {
    swing_lower(size_class, 2);
}

void hz_depot_forget_swing(unsigned size_class) {
    swing_lower(size_class, UINT32_MAX);
}

static uint32_t count_in(uint32_t part, unsigned size_class) {
    return hz_stack_blocks(&stacks[part][size_class].stack);
}

/* Most blocks that may rest in one part when `count` more come: what the other parts leave of the cap. A part with less
   than an equal share does not look at the others. So after work has moved from CPU to CPU, all parts together can hold
   up to twice the cap. */
static uint32_t cap_in(uint32_t part, unsigned size_class, uint32_t count) {
    uint32_t cap = cap_of(size_class); /* a few loads and divisions: cheap beside the copy */
    if (count_in(part, size_class) + count <= cap / hz_part_count())
        return cap;
    uint32_t others = 0;
    uint32_t other = part;
    for (uint32_t left = hz_part_count(); left > 1; left--) {
        other = hz_part_after(other);
        others += count_in(other, size_class);
    }
    return cap - (uint32_t)hz_min(cap, others);
}

bool hz_depot_send(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class, void *const *blocks,
                   uint32_t count) {
    hz_assert(hz_class_is_home(size_class));
    if (!HZ_HAS_DEPOT)
        return false;
    struct hz_stack *stack = surplus_of(shard, size_class);
    HZ_PREFETCH_WRITE(stack);
    return hz_stack_push(self, stack, hz_class_shapes[size_class].depot_blocks, blocks, count);
}

bool hz_depot_push(struct hz_thread_block *self, unsigned size_class, void *const *blocks, uint32_t count) {
    if (!HZ_HAS_DEPOT)
        return false;
    if (hz_class_is_home(size_class))
        return hz_depot_send(self, self->shard, size_class, blocks, count);
    uint32_t part = hz_part_here();
    struct hz_stack *stack = &stacks[part][size_class].stack;
    HZ_PREFETCH_WRITE(stack);
    /* batches of one block would use up the numbers of batches */
    uint32_t cap = count > 1 ? cap_in(part, size_class, count) : hz_class_shapes[size_class].depot_blocks;
    bool is_pushed = hz_stack_push(self, stack, cap, blocks, count);
    if (!is_pushed && count == hz_class_shapes[size_class].batch)
        swing_note_refused(size_class, blocks, count);
    return is_pushed;
}

bool hz_depot_was_used(unsigned size_class) {
    bool used = false;
    struct hz_stack *stack;
    for (uint32_t i = 0; (stack = stack_at(size_class, i)) != NULL; i++) {
        bool is_new = hz_stack_was_used(stack);
        used |= is_new;
        if (hz_load_rlx(&stack->is_idle) == is_new) /* relaxed, both: hint */
            hz_store_rlx(&stack->is_idle, !is_new);
    }
    return used;
}

void hz_depot_forget_use(unsigned size_class) {
    struct hz_stack *stack;
    for (uint32_t i = 0; (stack = stack_at(size_class, i)) != NULL; i++)
        (void)hz_stack_was_used(stack);
}

uint32_t hz_depot_idle_blocks(unsigned size_class) {
    uint32_t count = 0;
    struct hz_stack *stack;
    for (uint32_t i = 0; hz_class_is_home(size_class) && (stack = stack_at(size_class, i)) != NULL; i++)
        if (hz_load_rlx(&stack->is_idle)) /* relaxed: hint */
            count += hz_stack_blocks(stack);
    return count;
}

uint32_t hz_depot_blocks(unsigned size_class) {
    uint32_t count = 0;
    struct hz_stack *stack;
    for (uint32_t i = 0; (stack = stack_at(size_class, i)) != NULL; i++)
        count += hz_stack_blocks(stack);
    return count;
}

uint32_t hz_depot_spare_blocks(unsigned size_class) {
    uint32_t resting = hz_depot_blocks(size_class);
    return hz_load_rlx(&passing[size_class]) > 0 ? resting / 2 : resting; /* relaxed: hint */
}

void hz_depot_walk(void (*visit)(void *context, const void *block), void *context) {
    struct hz_stack *stack;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        for (uint32_t i = 0; (stack = stack_at(size_class, i)) != NULL; i++)
            hz_stack_walk(stack, visit, context);
}
