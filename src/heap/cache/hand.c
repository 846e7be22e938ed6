/*
 * hand.c - see hand.h. Called by malloc's slow path, flush.c, thread.c, stats.c and fork.c.
 *
 * The hands and their slots lie right behind the thread block, in front of the bins' slots.
 */
#include "heap/cache/hand.h"

#include "base/guard_pool.h"
#include "base/os.h"
#include "base/profile.h"
#include "base/random.h"
#include "heap/pages/send.h"
#include "heap/seal.h"

enum { HAND_FIRST = 2 }; /* blocks of a hand's first fill; each later fill doubles the number */

static struct hz_hand *hand_of(struct hz_thread_block *thread, unsigned size_class) {
    return (struct hz_hand *)(void *)((char *)thread + thread->hands_at) + size_class;
}

static uint32_t held(const struct hz_hand *hand) {
    uint32_t top = hz_load_rlx(&hand->bin.top); /* relaxed, both: owner, or figure: they may not belong together */
    uint32_t base = hz_load_rlx(&hand->base);
    return top < base ? 0 : (top - base) / (uint32_t)sizeof(void *);
}

uint32_t hz_hand_held(struct hz_thread_block *thread, unsigned size_class) {
    return hz_load_rlx(&thread->has_hands) ? held(hand_of(thread, size_class)) : 0; /* relaxed: figure */
}

/* ---- the choice ------------------------------------------------------------------------------------ */

static bool is_by_bytes(void) {
    return hz_profile_rate() != 0;
}

static uint64_t weight_of(unsigned size_class) {
    return is_by_bytes() ? hz_class_bytes(size_class) : 1;
}

static uint64_t gap(struct hz_sampling *sampling) {
    return is_by_bytes() ? hz_random_gap(&sampling->random, hz_profile_rate())
                         : hz_random_tries(&sampling->random, hz_guard_rate()) - 1;
}

/* Counts one allocation. True if it is chosen. */
static bool count_one(struct hz_sampling *sampling, uint64_t weight) {
    if (sampling->countdown >= weight) {
        sampling->countdown -= weight;
        return false;
    }
    sampling->countdown = gap(sampling);
    return true;
}

/* ---- hands ------------------------------------------------------------------------------------------- */

/* Forgets what was drawn. */
static void hands_reset(struct hz_thread_block *self) {
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        struct hz_hand *hand = hand_of(self, size_class);
        hand->want = (uint16_t)hz_min(HAND_FIRST, hand->slots);
        hand->is_due = false;
    }
    self->sampling.countdown = gap(&self->sampling);
}

void hz_hands_empty(struct hz_thread_block *thread) {
    if (!hz_load_rlx(&thread->has_hands)) /* relaxed: owner */
        return;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        struct hz_hand *hand = hand_of(thread, size_class);
        void **base = hz_slot_at(&thread->cache, hz_load_rlx(&hand->base)); /* relaxed: owner */
        uint32_t count = held(hand);
        if (count == 0) {                                    /* a fork's copy may have a newest block nevertheless */
            if (hz_slot_load_rlx(&hand->bin.newest) != NULL) /* relaxed, all: owner */
                hz_slot_store_rlx(&hand->bin.newest, NULL);
            continue;
        }
        hz_slot_store_rlx(base + count, hz_slot_load_rlx(&hand->bin.newest)); /* relaxed, all: owner */
        hz_store_rel(&hand->bin.top, hz_load_rlx(&hand->base));               /* relaxed: owner */
        hz_signal_fence(); /* fork: a copy must not have blocks that are on their way home */
        hz_slot_store_rlx(&hand->bin.newest, NULL);
        if (HZ_BLOCKS_SEALED)
            hz_seals_check(base + 1, count, HZ_WRITTEN_IN_BIN);
        hz_blocks_send(thread, base + 1, count);
    }
    hands_reset(thread);
}

void hz_hands_open(struct hz_thread_block *self) {
    hz_hands_empty(self);                  /* the thread block may be an orphan's */
    hz_store_rlx(&self->has_hands, false); /* relaxed: owner. fork: a copy has hands only when all of them are made */
    if (self->hands_at == 0)
        return;
    hz_signal_fence();
    uint32_t offset = self->hands_at + HZ_CLASS_COUNT * (uint32_t)sizeof(struct hz_hand);
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        struct hz_hand *hand = hand_of(self, size_class);
        hz_store_rlx(&hand->base, offset);    /* relaxed: owner */
        hz_store_rlx(&hand->bin.top, offset); /* relaxed: owner. The first slot stays NULL */
        hand->slots = (uint8_t)hz_hand_slots(size_class);
        offset += (1U + hand->slots) * (uint32_t)sizeof(void *);
        if (hand->slots > 0)
            self->bin_of_class[size_class] = (uint16_t)((char *)hand - (char *)self);
        else if (is_by_bytes())
            self->bin_of_class[size_class] = (uint16_t)hz_bin_offset(HZ_CLASS_NONE); /* empty for ever */
    }
    for (size_t granules = 1; granules <= HZ_SMALL_MAX / HZ_GRANULE_BYTES; granules++)
        self->bin_of[granules] = self->bin_of_class[hz_class_of(granules * HZ_GRANULE_BYTES)];
    hz_os_random(&self->sampling.random, sizeof(self->sampling.random));
    hands_reset(self);
    hz_signal_fence();
    hz_store_rlx(&self->has_hands, true); /* relaxed: owner */
}

void *hz_hand_pop(struct hz_thread_block *self, unsigned size_class) {
    return hz_bin_pop(&self->cache, &hand_of(self, size_class)->bin);
}

void *hz_hand_sample(struct hz_thread_block *self, unsigned size_class, size_t size) {
    struct hz_hand *hand = hand_of(self, size_class);
    if (hand->slots == 0 && !is_by_bytes())
        return NULL;
    if (!hand->is_due && !count_one(&self->sampling, weight_of(size_class)))
        return NULL;
    hand->is_due = false;
    return is_by_bytes() ? hz_profile_alloc(hz_class_bytes(size_class), size) : hz_guard_alloc(size, HZ_GRANULE_BYTES);
}

void *hz_hand_sample_aligned(struct hz_thread_block *self, size_t alignment, size_t size) {
    if (is_by_bytes()) {
        unsigned size_class = hz_class_of_aligned(size, alignment);
        bool is_chosen = size_class != HZ_CLASS_NONE && count_one(&self->sampling, weight_of(size_class));
        return is_chosen ? hz_profile_alloc(hz_class_bytes(size_class), size) : NULL;
    }
    if (size > HZ_GUARD_BLOCK_MAX || !count_one(&self->sampling, 1))
        return NULL;
    return hz_guard_alloc(size, hz_max(alignment, HZ_GRANULE_BYTES));
}

void hz_hand_count_large(struct hz_thread_block *self, const void *block, size_t size) {
    size_t weight = hz_profile_weight(size);
    if (is_by_bytes() && count_one(&self->sampling, weight))
        hz_profile_add(block, size, weight);
}

/* Numbers the next `most` allocations, which will take their blocks from the hand. Returns how many blocks the hand
   gets: fewer than `most` if one of the numbers is chosen. */
static uint32_t number(struct hz_sampling *sampling, struct hz_hand *hand, uint64_t weight, uint32_t most) {
    if (sampling->countdown >= most * weight) {
        sampling->countdown -= most * weight;
        return most;
    }
    uint32_t count = (uint32_t)(sampling->countdown / weight);
    hand->is_due = true;
    sampling->countdown = gap(sampling);
    return count;
}

bool hz_hand_fill(struct hz_thread_block *self, unsigned size_class) {
    struct hz_hand *hand = hand_of(self, size_class);
    uint32_t had = held(hand); /* not 0 at the second try, or if a tick led to another fill */
    uint32_t room = hand->want - (uint32_t)hz_min(had, hand->want);
    uint32_t most = (uint32_t)hz_min(room, hz_bin_held(&self->cache, size_class));
    if (hand->is_due || room == 0)
        return false;
    uint32_t count = number(&self->sampling, hand, weight_of(size_class), most);
    if (count > 0) {
        void **above = hz_slot_at(&self->cache, hz_load_rlx(&hand->bin.top));
        hz_slot_store_rlx(above, hz_slot_load_rlx(&hand->bin.newest)); /* relaxed, all: owner */
        hz_bin_take_new(&self->cache, size_class, above + 1, count);
        hz_slot_store_rlx(&hand->bin.newest, above[count]);
        /* release: a fork's copy must not have the top without the blocks */
        hz_store_rel(&hand->bin.top, hz_load_rlx(&hand->bin.top) + count * (uint32_t)sizeof(void *));
    }
    bool is_short = !hand->is_due && most < room / 2;
    hand->want = (uint16_t)hz_min(hand->want * 2U, hand->slots);
    return is_short;
}

void hz_hands_settle_fork(struct hz_thread_block *self) {
    if (!hz_load_rlx(&self->has_hands)) /* relaxed: owner */
        return;
    hz_os_random(&self->sampling.random, sizeof(self->sampling.random));
    self->sampling.countdown = gap(&self->sampling);
}
