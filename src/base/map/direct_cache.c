/*
 * direct_cache.c - see direct_cache.h.
 */
#include "base/map/direct_cache.h"

#include "base/map/region.h"
#include "base/os/anatomy.h"
#include "base/os/atomic.h"
#include "base/os/os.h"
#include "policy.h"

enum {
    KEPT_GROUPS = 16,
    KEPT_SLOTS = HZ_CACHE_LINE_BYTES / sizeof(uint64_t),
    KEPT_PAGE_LOG2 = 12,
    /* a slot: 1 + number of the entry, length in pages of 4 KiB, whether a look has seen it; 0: empty */
    KEPT_INDEX_BITS = 32,
    KEPT_PAGES_BITS = 20,
    KEPT_TOTAL_UNITS = 32, /* the first bit of the units in kept_total */
};

#define KEPT_SEEN (UINT64_C(1) << 63)

_Static_assert((HZ_REGION_BLOCK_BYTES_MAX >> KEPT_PAGE_LOG2) < 1 << KEPT_PAGES_BITS, "a slot can hold any length");

struct kept_group {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) _Atomic(uint64_t) slots[KEPT_SLOTS]; /* sync: direct-cache */
};

static struct kept_group kept_groups[KEPT_GROUPS];
/* relaxed: figure; lengths of all blocks in pages of 4 KiB, and from KEPT_TOTAL_UNITS on in units. A block is counted
   before it comes and until after it has left, so there is never less than what is in the slots */
static _Atomic(uint64_t) kept_total;
static _Atomic(uint32_t) kept_used_groups;  /* hint: a bit for each group that ever had a block */
static _Atomic(uint32_t) kept_put_count;    /* hint: whose turn it is to make room */
static _Atomic(uint64_t) kept_looked_at_ms; /* hint */

HZ_ANATOMY(direct_cache, HZ_ANATOMY_OBJECT(direct_cache.groups, kept_groups), HZ_ANATOMY_NUMBER(KEPT_GROUPS),
           HZ_ANATOMY_NUMBER(KEPT_SLOTS), HZ_ANATOMY_NUMBER(KEPT_INDEX_BITS), HZ_ANATOMY_NUMBER(KEPT_PAGES_BITS),
           HZ_ANATOMY_NUMBER(KEPT_PAGE_LOG2));

static uint64_t kept_word(uint32_t index, size_t bytes) {
    return (uint64_t)(bytes >> KEPT_PAGE_LOG2) << KEPT_INDEX_BITS | (index + 1);
}

static size_t kept_bytes(uint64_t word) {
    return (size_t)(word >> KEPT_INDEX_BITS & ((1U << KEPT_PAGES_BITS) - 1)) << KEPT_PAGE_LOG2;
}

static size_t kept_units(uint64_t word) {
    return (kept_bytes(word) + HZ_UNIT_BYTES - 1) >> HZ_UNIT_LOG2;
}

static uint64_t kept_total_of(uint64_t word) {
    return (uint64_t)(kept_bytes(word) >> KEPT_PAGE_LOG2) | (uint64_t)kept_units(word) << KEPT_TOTAL_UNITS;
}

/* A block has left its slot, which held the word. Returns 1 + the number of its entry. */
static uint32_t kept_left(uint64_t word) {
    hz_sub_rlx(&kept_total, kept_total_of(word)); /* relaxed: figure */
    return (uint32_t)word;
}

static bool kept_fits(uint64_t word, size_t bytes) {
    size_t length = kept_bytes(word);
    return word != 0 && kept_units(word) == (bytes + HZ_UNIT_BYTES - 1) >> HZ_UNIT_LOG2 &&
           length - length / HZ_DIRECT_WASTE_SHARE <= bytes;
}

/* The block in the slot, which becomes empty if it still has this word. */
static uint32_t kept_take(_Atomic(uint64_t) *slot, uint64_t word) {
    /* sync: direct-cache, partner hz_direct_cache_put */
    return hz_cas_strong_acq_rlx(slot, &word, 0) ? kept_left(word) : HZ_DIRECT_NONE;
}

static struct kept_group *kept_group_here(void) {
    return &kept_groups[hz_os_cpu() % KEPT_GROUPS];
}

/* The first of the groups in `mask` that ever had a block, which it takes out of the mask; NULL behind the last one. */
static struct kept_group *kept_group_next(uint32_t *mask) {
    uint32_t left = *mask & hz_load_rlx(&kept_used_groups); /* relaxed: a group that is missed has just been put into */
    if (left == 0)
        return NULL;
    *mask = left & (left - 1);
    return &kept_groups[__builtin_ctz(left)];
}

static uint32_t kept_group_take(struct kept_group *group, size_t bytes) {
    for (uint32_t i = 0; i < KEPT_SLOTS; i++) {
        uint64_t word = hz_load_rlx(&group->slots[i]); /* relaxed: cas */
        uint32_t taken = kept_fits(word, bytes) ? kept_take(&group->slots[i], word) : HZ_DIRECT_NONE;
        if (taken != HZ_DIRECT_NONE)
            return taken;
    }
    return HZ_DIRECT_NONE;
}

uint32_t hz_direct_cache_take(size_t bytes) {
    uint32_t taken = kept_group_take(kept_group_here(), bytes);
    uint32_t mask = UINT32_MAX;
    for (struct kept_group *group; taken == HZ_DIRECT_NONE && (group = kept_group_next(&mask)) != NULL;)
        taken = kept_group_take(group, bytes);
    return taken;
}

uint32_t hz_direct_cache_put(uint32_t index, size_t bytes) {
    struct kept_group *group = kept_group_here();
    uint32_t bit = 1U << (group - kept_groups);
    uint64_t word = kept_word(index, bytes);
    if ((hz_load_rlx(&kept_used_groups) & bit) == 0) /* relaxed, both: hint */
        hz_or_rlx(&kept_used_groups, bit);
    hz_add_rlx(&kept_total, kept_total_of(word)); /* relaxed: figure */
    for (uint32_t i = 0; i < KEPT_SLOTS; i++) {
        uint64_t none = 0;
        /* relaxed: cas. sync: direct-cache, partner kept_take */
        if (hz_load_rlx(&group->slots[i]) == 0 && hz_cas_strong_ar_acq(&group->slots[i], &none, word))
            return HZ_DIRECT_NONE;
    }
    uint32_t turn = hz_add_rlx(&kept_put_count, 1) % KEPT_SLOTS; /* relaxed: hint */
    return kept_left(hz_xchg_ar(&group->slots[turn], word));     /* sync: direct-cache, partner kept_take, and itself */
}

uint32_t hz_direct_cache_take_any(void) {
    uint32_t mask = UINT32_MAX;
    for (struct kept_group *group; (group = kept_group_next(&mask)) != NULL;)
        for (uint32_t i = 0; i < KEPT_SLOTS; i++) {
            /* relaxed: hint. sync: direct-cache, partner hz_direct_cache_put */
            uint32_t taken = hz_load_rlx(&group->slots[i]) != 0 ? kept_left(hz_xchg_ar(&group->slots[i], 0)) : 0;
            if (taken != HZ_DIRECT_NONE)
                return taken;
        }
    return HZ_DIRECT_NONE;
}

static uint32_t kept_group_take_seen(struct kept_group *group) {
    for (uint32_t i = 0; i < KEPT_SLOTS; i++) {
        uint64_t word = hz_load_rlx(&group->slots[i]); /* relaxed: cas */
        uint32_t taken = (word & KEPT_SEEN) != 0 ? kept_take(&group->slots[i], word) : HZ_DIRECT_NONE;
        if (taken != HZ_DIRECT_NONE)
            return taken;
    }
    return HZ_DIRECT_NONE;
}

static void kept_group_see(struct kept_group *group) {
    for (uint32_t i = 0; i < KEPT_SLOTS; i++) {
        uint64_t word = hz_load_rlx(&group->slots[i]); /* relaxed: cas */
        if (word != 0)
            (void)hz_cas_strong_acq_rlx(&group->slots[i], &word, word | KEPT_SEEN); /* cas: it may have changed */
    }
}

uint32_t hz_direct_cache_take_old(uint32_t interval_ms) {
    uint64_t now = hz_os_now_ms();
    if (now < hz_load_rlx(&kept_looked_at_ms) + interval_ms) /* relaxed, both: hints; two threads may look at once */
        return HZ_DIRECT_NONE;
    uint32_t mask = UINT32_MAX;
    for (struct kept_group *group; (group = kept_group_next(&mask)) != NULL;) {
        uint32_t taken = kept_group_take_seen(group);
        if (taken != HZ_DIRECT_NONE)
            return taken;
    }
    hz_store_rlx(&kept_looked_at_ms, now);
    mask = UINT32_MAX;
    for (struct kept_group *group; (group = kept_group_next(&mask)) != NULL;)
        kept_group_see(group);
    return HZ_DIRECT_NONE;
}

size_t hz_direct_cache_bytes(void) {
    return (size_t)(uint32_t)hz_load_rlx(&kept_total) << KEPT_PAGE_LOG2; /* relaxed, both: figures */
}

size_t hz_direct_cache_unit_bytes(void) {
    return (size_t)(hz_load_rlx(&kept_total) >> KEPT_TOTAL_UNITS) << HZ_UNIT_LOG2;
}

void hz_direct_cache_recount_after_fork(void) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < KEPT_GROUPS * KEPT_SLOTS; i++) /* relaxed, both: one thread */
        total += kept_total_of(hz_load_rlx(&kept_groups[i / KEPT_SLOTS].slots[i % KEPT_SLOTS]));
    hz_store_rlx(&kept_total, total);
}
