/*
 * runmap.c - see runmap.h. Called by arena.c.
 *
 * Edge "longest-publish": a thread that has changed a free mask classifies the word: it writes the lengths of the
 * word's longest runs with one exchange, moves the word's bits in the summaries, and looks at the masks again. Each
 * exchange comes after the one before it, so the thread of the last exchange sees every change that was classified, and
 * a thread that clears a leaf sees the length that made another thread set it.
 */
#include "base/runmap.h"

#include "base/check.h"

enum { DIRTY_SHIFT = 8, LENGTH_MASK = 0xff };

size_t hz_runmap_bytes(uint32_t words) {
    return 2 * hz_summary_bytes(words) + (size_t)words * (8 + 8 + 2);
}

void hz_runmap_init(struct hz_runmap *map, void *memory, uint32_t words) {
    char *next = memory;
    hz_summary_init(&map->free_runs, next, words);
    next += hz_summary_bytes(words);
    hz_summary_init(&map->dirty_runs, next, words);
    next += hz_summary_bytes(words);
    map->free_masks = (_Atomic(uint64_t) *)(void *)next;
    next += (size_t)words * 8;
    map->dirty_masks = (_Atomic(uint64_t) *)(void *)next;
    next += (size_t)words * 8;
    map->longest = (_Atomic(uint16_t) *)(void *)next;
}

/* ---- lengths ----------------------------------------------------------------------------------------- */

/* Bit i of the result is set if `mask` has `units` ones from bit i on. */
static uint64_t runs_in(uint64_t mask, unsigned units) {
    for (unsigned length = 1; length < units;) {
        unsigned step = (unsigned)hz_min(length, units - length);
        mask &= mask >> step;
        length += step;
    }
    return mask;
}

/* Length of the longest run of ones: doubles while it can, then adds halves. */
static unsigned longest_run(uint64_t mask) {
    enum { DOUBLINGS = 6 };
    uint64_t runs[DOUBLINGS + 1];
    if (mask == 0)
        return 0;
    unsigned k = 0;
    for (runs[0] = mask; k < DOUBLINGS; k++) {
        runs[k + 1] = runs[k] & runs[k] >> (1U << k);
        if (runs[k + 1] == 0)
            break;
    }
    if (k == DOUBLINGS)
        return 64;
    uint64_t starts = runs[k];
    unsigned length = 1U << k;
    while (k-- > 0) {
        uint64_t longer = starts & runs[k] >> length;
        if (longer != 0) {
            starts = longer;
            length += 1U << k;
        }
    }
    return length;
}

static unsigned lengths_of(struct hz_runmap *map, uint32_t index) {
    uint64_t free_mask = hz_load_rlx(&map->free_masks[index]); /* relaxed, both: see classify */
    uint64_t dirty_mask = hz_load_rlx(&map->dirty_masks[index]);
    return longest_run(free_mask) | longest_run(free_mask & dirty_mask) << DIRTY_SHIFT;
}

/* Takes the word's bit for `length` out of a summary, unless the word has that length again. */
static void forget(struct hz_runmap *map, struct hz_summary *summary, unsigned shift, unsigned length, uint32_t index) {
    hz_summary_clear(summary, length, index);
    /* relaxed: sync: longest-publish, partner classify, through the leaf that hz_summary_clear has acquired */
    if ((hz_load_rlx(&map->longest[index]) >> shift & LENGTH_MASK) == length)
        hz_summary_set(summary, length, index);
}

static void move(struct hz_runmap *map, struct hz_summary *summary, unsigned shift, unsigned before, unsigned now,
                 uint32_t index) {
    before = before >> shift & LENGTH_MASK;
    now = now >> shift & LENGTH_MASK;
    if (before == now)
        return;
    if (now != 0)
        hz_summary_set(summary, now, index);
    if (before != 0)
        forget(map, summary, shift, before, index);
}

/* Makes the summaries agree with the masks of a word, which the caller has changed or found to differ. */
static void classify(struct hz_runmap *map, uint32_t index) {
    unsigned now = lengths_of(map, index);
    for (;;) {
        /* sync: longest-publish, partners classify, forget */
        unsigned before = hz_xchg_ar(&map->longest[index], (uint16_t)now);
        move(map, &map->free_runs, 0, before, now, index);
        move(map, &map->dirty_runs, DIRTY_SHIFT, before, now, index);
        unsigned again = lengths_of(map, index);
        if (again == now)
            return;
        now = again;
    }
}

void hz_runmap_repair(struct hz_runmap *map, uint32_t index) {
    classify(map, index);
    unsigned now = hz_load_rlx(&map->longest[index]); /* relaxed: one thread */
    if ((now & LENGTH_MASK) != 0)
        hz_summary_repair(&map->free_runs, now & LENGTH_MASK, index);
    if (now >> DIRTY_SHIFT != 0)
        hz_summary_repair(&map->dirty_runs, now >> DIRTY_SHIFT, index);
}

/* ---- claim and release ------------------------------------------------------------------------------- */

void hz_runmap_add(struct hz_runmap *map, uint32_t index) {
    hz_store_rlx(&map->dirty_masks[index], 0);         /* relaxed: published by the next store */
    hz_store_rel(&map->free_masks[index], UINT64_MAX); /* sync: run-release, partner claim_in */
    classify(map, index);
}

/* Marks claimed units dirty, since their holder will write to them. */
static void claimed(struct hz_runmap *map, uint32_t index, uint64_t bits, struct hz_claim *claim) {
    claim->index = index;
    claim->first = (unsigned)__builtin_ctzll(bits);
    claim->bits = bits;
    claim->dirty = hz_or_rlx(&map->dirty_masks[index], bits); /* relaxed: owner of the units' bits */
    classify(map, index);
}

/* Claims a run of the word `index`; false when it has none. Prefers units that hold memory already. `starts`: the bits
   at which a run can begin. */
static bool claim_in(struct hz_runmap *map, uint32_t index, unsigned units, uint64_t starts, struct hz_claim *claim) {
    uint64_t seen = hz_load_rlx(&map->free_masks[index]); /* relaxed: cas */
    for (;;) {
        uint64_t fitting = runs_in(seen, units) & starts;
        if (fitting == 0)
            return false;
        uint64_t dirty = hz_load_rlx(&map->dirty_masks[index]); /* relaxed: hint */
        uint64_t reusable = runs_in(seen & dirty, units) & starts;
        uint64_t bits = hz_run_bits((unsigned)__builtin_ctzll(reusable != 0 ? reusable : fitting), units);
        /* sync: run-release, partner hz_runmap_release */
        if (hz_cas_acq_rlx(&map->free_masks[index], &seen, seen & ~bits)) {
            claimed(map, index, bits, claim);
            return true;
        }
    }
}

static bool claim_from(struct hz_runmap *map, struct hz_summary *summary, unsigned shift, unsigned units,
                       unsigned align, struct hz_claim *claim) {
    /* a one at each multiple of `align` */
    uint64_t starts = align == 64 ? 1 : UINT64_MAX / ((UINT64_C(1) << align) - 1);
    uint32_t index;
    for (unsigned length = units; length <= HZ_SUMMARY_LENGTHS;) {
        if (!hz_summary_find(summary, &length, &index))
            return false;
        if (claim_in(map, index, units, starts, claim))
            return true;
        /* the word has changed, or none of its runs of that length is aligned */
        classify(map, index);
        /* relaxed: hint. A leaf that differs is old, or its thread is still busy; forget checks again */
        if ((hz_load_rlx(&map->longest[index]) >> shift & LENGTH_MASK) != length)
            forget(map, summary, shift, length, index);
        if (align == 1)
            length = units;
        else
            length++;
    }
    return false;
}

bool hz_runmap_claim(struct hz_runmap *map, unsigned units, unsigned align, struct hz_claim *claim) {
    hz_assert(units >= 1 && units <= 64 && hz_is_power_of_two(align));
    return claim_from(map, &map->dirty_runs, DIRTY_SHIFT, units, align, claim) ||
           claim_from(map, &map->free_runs, 0, units, align, claim);
}

bool hz_runmap_claim_bits(struct hz_runmap *map, uint32_t index, uint64_t bits, struct hz_claim *claim) {
    uint64_t seen = hz_load_rlx(&map->free_masks[index]); /* relaxed: cas */
    do {
        if ((seen & bits) != bits)
            return false;
        /* sync: run-release, partner hz_runmap_release */
    } while (!hz_cas_acq_rlx(&map->free_masks[index], &seen, seen & ~bits));
    claimed(map, index, bits, claim);
    return true;
}

void hz_runmap_clean(struct hz_runmap *map, uint32_t index, uint64_t bits) {
    hz_and_rlx(&map->dirty_masks[index], ~bits); /* relaxed: owner of the units' bits; published with the free bits */
}

void hz_runmap_release(struct hz_runmap *map, uint32_t index, uint64_t bits) {
    hz_or_rel(&map->free_masks[index], bits); /* sync: run-release, partners claim_in, hz_runmap_claim_bits */
    classify(map, index);
}
