/*
 * runmap.c - see runmap.h.
 *
 * Edge "longest-publish": a thread that has changed a free mask classifies the word: it writes the lengths of the
 * word's longest runs with one exchange, moves the word's bits in the summaries, and looks at the masks again. Each
 * exchange acquires the one before it, so the thread of the last exchange sees every change that was classified, and a
 * thread that clears a leaf sees the length for which another thread set it.
 */
#include "base/map/runmap.h"

#include "base/os/check.h"
#include "base/os/os.h"

enum {
    DIRTY_SHIFT = 8,
    LENGTH_MASK = 0xff,
    LOOK_WORDS = 1024, /* words that a purge of rested units looks at in one call */
    OLDEST_WORDS = 8,  /* words of which a purge of the oldest units takes the oldest */
    ALIGN_WORDS = 32,  /* words at which an ordinary claim looks though their runs may have no aligned part */
};

static const uint64_t one_used = UINT64_C(1) << 32;

size_t hz_runmap_bytes(uint32_t words) {
    return 2 * hz_summary_bytes(words) + (size_t)words * (8 + 8 + 8 + 4 + 4 + 2);
}

void hz_runmap_init(struct hz_runmap *map, void *memory, uint32_t words,
                    bool (*give_back)(uint32_t index, uint64_t bits, bool anew)) {
    char *next = memory;
    map->give_back = give_back;
    hz_summary_init(&map->free_runs, next, words);
    next += hz_summary_bytes(words);
    hz_summary_init(&map->dirty_runs, next, words);
    next += hz_summary_bytes(words);
    map->free_masks = (_Atomic(uint64_t) *)(void *)next;
    next += (size_t)words * 8;
    map->dirty_masks = (_Atomic(uint64_t) *)(void *)next;
    next += (size_t)words * 8;
    map->rested_masks = (_Atomic(uint64_t) *)(void *)next;
    next += (size_t)words * 8;
    map->looked_at_ms = (_Atomic(uint32_t) *)(void *)next;
    next += (size_t)words * 4;
    map->freed_at_ms = (_Atomic(uint32_t) *)(void *)next;
    next += (size_t)words * 4;
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

/* The free units of a word, and those of them that are dirty. */
struct free_units {
    uint64_t all;
    uint64_t dirty;
};

static struct free_units free_units_of(struct hz_runmap *map, uint32_t index) {
    uint64_t all = hz_load_rlx(&map->free_masks[index]); /* relaxed, both: see classify */
    return (struct free_units){all, all & hz_load_rlx(&map->dirty_masks[index])};
}

static unsigned lengths_of(struct free_units units) {
    unsigned all = longest_run(units.all);
    return all | (units.dirty == units.all ? all : longest_run(units.dirty)) << DIRTY_SHIFT;
}

/* Takes the word's bit for `length` out of a summary, unless the word has that length again. */
static void forget(struct hz_runmap *map, struct hz_summary *summary, unsigned shift, unsigned length, uint32_t index) {
    hz_summary_clear(summary, length, index);
    /* relaxed: sync: longest-publish, partner classify, through the leaf that hz_summary_clear has acquired */
    if ((hz_load_rlx(&map->longest[index]) >> shift & LENGTH_MASK) == length)
        hz_summary_set(summary, length, index);
}

static void reclassify(struct hz_runmap *map, struct hz_summary *summary, unsigned shift, unsigned before, unsigned now,
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
    for (struct free_units units = free_units_of(map, index);;) {
        unsigned now = lengths_of(units);
        /* sync: longest-publish, partners classify, forget */
        unsigned before = hz_xchg_ar(&map->longest[index], (uint16_t)now);
        reclassify(map, &map->free_runs, 0, before, now, index);
        reclassify(map, &map->dirty_runs, DIRTY_SHIFT, before, now, index);
        struct free_units again = free_units_of(map, index);
        if (again.all == units.all && again.dirty == units.dirty)
            return;
        units = again;
    }
}

static void repair(struct hz_runmap *map, uint32_t index) {
    classify(map, index);
    unsigned now = hz_load_rlx(&map->longest[index]); /* relaxed: one thread */
    if ((now & LENGTH_MASK) != 0)
        hz_summary_repair(&map->free_runs, now & LENGTH_MASK, index);
    if (now >> DIRTY_SHIFT != 0)
        hz_summary_repair(&map->dirty_runs, now >> DIRTY_SHIFT, index);
}

void hz_runmap_repair(struct hz_runmap *map, uint32_t words) {
    uint64_t counts = 0;
    for (uint32_t index = 0; index < words; index++) {
        uint64_t free_mask = hz_load_rlx(&map->free_masks[index]); /* relaxed, all: one thread */
        uint64_t dirty_mask = hz_load_rlx(&map->dirty_masks[index]);
        /* a unit that is handed out is dirty; one that a vanished thread had claimed may be, and then counts as used */
        counts += one_used * hz_bits_count(dirty_mask & ~free_mask) + hz_bits_count(dirty_mask & free_mask);
        repair(map, index);
    }
    hz_store_rlx(&map->counts, counts);
}

/* ---- claim and release ------------------------------------------------------------------------------- */

void hz_runmap_add(struct hz_runmap *map, uint32_t index) {
    hz_store_rlx(&map->freed_at_ms[index], (uint32_t)hz_os_now_ms()); /* relaxed, both: published by the next store */
    hz_store_rlx(&map->dirty_masks[index], 0);
    hz_store_rel(&map->free_masks[index], UINT64_MAX); /* sync: run-release, partner claim_in */
    classify(map, index);
}

/* Counts claimed units, and marks them dirty, since their holder will write to them. */
static void claimed(struct hz_runmap *map, uint32_t index, uint64_t bits, struct hz_claim *claim) {
    claim->index = index;
    claim->first = (unsigned)__builtin_ctzll(bits);
    claim->bits = bits;
    claim->dirty = hz_or_rlx(&map->dirty_masks[index], bits); /* relaxed: owner of the units' bits */
    /* relaxed: counter */
    hz_add_rlx(&map->counts, one_used * hz_bits_count(bits) - hz_bits_count(claim->dirty & bits));
    if ((hz_load_rlx(&map->rested_masks[index]) & bits) != 0) /* relaxed, both: hint */
        hz_and_rlx(&map->rested_masks[index], ~bits);
    classify(map, index);
}

/* Claims a run of the word `index`; false when it has none. Prefers units that hold memory already. `starts`: the bits
   at which a run can begin. */
HZ_INLINE bool claim_in(struct hz_runmap *map, uint32_t index, unsigned units, uint64_t starts,
                        struct hz_claim *claim) {
    uint64_t seen = hz_load_rlx(&map->free_masks[index]); /* relaxed: cas */
    for (;;) {
        uint64_t fitting = runs_in(seen, units) & starts;
        if (fitting == 0)
            return false;
        uint64_t dirty = hz_load_rlx(&map->dirty_masks[index]); /* relaxed: hint */
        uint64_t reusable = runs_in(seen & dirty, units) & starts;
        uint64_t bits = hz_run_bits((unsigned)__builtin_ctzll(reusable != 0 ? reusable : fitting), units);
        /* sync: run-release, partner put_back */
        if (hz_cas_acq_rlx(&map->free_masks[index], &seen, seen & ~bits)) {
            claimed(map, index, bits, claim);
            return true;
        }
    }
}

/* Claims a run of some word whose longest run has at least `least` units, which is enough for one of `starts`. */
static bool claim_by(struct hz_runmap *map, struct hz_summary *summary, unsigned shift, unsigned units, unsigned least,
                     uint64_t starts, struct hz_claim *claim) {
    uint32_t index;
    for (;;) {
        unsigned length = least;
        if (!hz_summary_find(summary, &length, &index))
            return false;
        if (claim_in(map, index, units, starts, claim))
            return true;
        classify(map, index); /* the word has changed */
        /* relaxed: hint. A leaf that differs is old, or its thread is still busy; forget checks again */
        if ((hz_load_rlx(&map->longest[index]) >> shift & LENGTH_MASK) != length)
            forget(map, summary, shift, length, index);
    }
}

/* The same for words whose longest run has `units` to `most_units` units, which may have no aligned part. Goes on where
   the last call ended, and looks at `most` words at most. */
static bool claim_by_looking(struct hz_runmap *map, struct hz_summary *summary, unsigned units, unsigned most_units,
                             uint64_t starts, size_t most, struct hz_claim *claim) {
    uint32_t begin = hz_load_rlx(&map->align_cursor); /* relaxed, both: hint */
    uint32_t from = begin;
    uint32_t index = 0;
    bool is_round = false; /* the search has wrapped around */
    bool done = false;
    while (!done && most > 0) {
        bool found = hz_summary_next(summary, units, most_units, from, &index) && (!is_round || index < begin);
        if (!found && is_round)
            break;
        is_round = is_round || !found;
        from = found ? index + 1 : 0;
        most -= found;
        done = found && claim_in(map, index, units, starts, claim);
    }
    if (done || most == 0) /* after a whole round, the next search begins where this one did */
        hz_store_rlx(&map->align_cursor, done ? index : from);
    return done;
}

static HZ_NOINLINE bool claim_aligned(struct hz_runmap *map, struct hz_summary *summary, unsigned shift, unsigned units,
                                      unsigned align, bool thorough, struct hz_claim *claim) {
    uint64_t starts = align == 64 ? 1 : UINT64_MAX / ((UINT64_C(1) << align) - 1); /* a one at each multiple */
    unsigned sure = (unsigned)hz_min(units + align - 1, HZ_SUMMARY_LENGTHS);       /* one so long has an aligned part */
    return claim_by_looking(map, summary, units, sure - 1, starts, ALIGN_WORDS, claim) ||
           claim_by(map, summary, shift, units, sure, starts, claim) ||
           (thorough && claim_by_looking(map, summary, units, sure - 1, starts, SIZE_MAX, claim));
}

bool hz_runmap_claim(struct hz_runmap *map, unsigned units, unsigned align, bool thorough, struct hz_claim *claim) {
    hz_assert(units >= 1 && units <= 64 && hz_is_power_of_two(align));
    if (HZ_LIKELY(align == 1))
        return claim_by(map, &map->dirty_runs, DIRTY_SHIFT, units, units, UINT64_MAX, claim) ||
               claim_by(map, &map->free_runs, 0, units, units, UINT64_MAX, claim);
    return claim_aligned(map, &map->dirty_runs, DIRTY_SHIFT, units, align, thorough, claim) ||
           claim_aligned(map, &map->free_runs, 0, units, align, thorough, claim);
}

bool hz_runmap_claim_bits(struct hz_runmap *map, uint32_t index, uint64_t bits, struct hz_claim *claim) {
    uint64_t seen = hz_load_rlx(&map->free_masks[index]); /* relaxed: cas */
    do {
        if ((seen & bits) != bits)
            return false;
        /* sync: run-release, partner put_back */
    } while (!hz_cas_acq_rlx(&map->free_masks[index], &seen, seen & ~bits));
    claimed(map, index, bits, claim);
    return true;
}

void hz_runmap_clean(struct hz_runmap *map, uint32_t index, uint64_t bits) {
    hz_and_rlx(&map->dirty_masks[index], ~bits); /* relaxed: owner of the units' bits; published with the free bits */
}

/* Gives units back, some of which can be clean. */
static void put_back(struct hz_runmap *map, uint32_t index, uint64_t bits) {
    uint64_t dirty = hz_load_rlx(&map->dirty_masks[index]) & bits; /* relaxed: owner of the units' bits */
    /* relaxed: counter. First: a claim that follows must find the units counted */
    hz_add_rlx(&map->counts, hz_bits_count(dirty) - one_used * hz_bits_count(bits));
    hz_or_rel(&map->free_masks[index], bits); /* sync: run-release, partners claim_in, hz_runmap_claim_bits */
    classify(map, index);
}

void hz_runmap_release(struct hz_runmap *map, uint32_t index, uint64_t bits) {
    hz_store_rlx(&map->freed_at_ms[index], (uint32_t)hz_os_now_ms()); /* relaxed: hint */
    put_back(map, index, bits);
}

void hz_runmap_remove(struct hz_runmap *map, uint32_t index) {
    hz_store_rlx(&map->dirty_masks[index], 0); /* relaxed: owner of all units */
    hz_sub_rlx(&map->counts, one_used * 64);   /* relaxed: counter */
}

/* ---- purge ------------------------------------------------------------------------------------------- */

static uint64_t resting_units(struct hz_runmap *map, uint32_t index) {
    /* relaxed, both: hints, checked by the claim */
    return hz_load_rlx(&map->free_masks[index]) & hz_load_rlx(&map->dirty_masks[index]);
}

enum how {
    RESTING, /* units that rest */
    FREE,    /* clean ones too */
    ANEW,    /* and maps them anew */
};

/* Purges one run of units that are in `tries`, and removes it from `tries`; false when there is none. Adds to *purged
   the units that were given back and, with ANEW, were dirty. No other thread can get them meanwhile. */
static bool purge_run(struct hz_runmap *map, uint32_t index, uint64_t *tries, enum how how, size_t *purged) {
    struct hz_claim claim;
    uint64_t run;
    do {
        /* relaxed: hint, checked by the claim */
        uint64_t bits = *tries & (how != RESTING ? hz_load_rlx(&map->free_masks[index]) : resting_units(map, index));
        if (bits == 0)
            return false;
        unsigned first = (unsigned)__builtin_ctzll(bits);
        uint64_t after = ~(bits >> first);
        run = hz_run_bits(first, after == 0 ? 64 - first : (unsigned)__builtin_ctzll(after));
    } while (!hz_runmap_claim_bits(map, index, run, &claim));
    /* if another thread used and purged some of the units before the claim, they are purged twice */
    bool done = map->give_back(index, run, how == ANEW);
    hz_runmap_clean(map, index, done ? run : run & ~claim.dirty);
    *purged += done ? hz_bits_count(how == ANEW ? run & claim.dirty : run) : 0;
    *tries &= ~run;
    put_back(map, index, run);
    return true;
}

/* The lowest `most` ones of `bits`. */
static uint64_t lowest_bits(uint64_t bits, size_t most) {
    if (hz_bits_count(bits) <= most)
        return bits;
    uint64_t others = bits;
    while (most-- > 0)
        others &= others - 1;
    return bits & ~others;
}

/* Purges at most `most` of the units of `tries` that rest. Returns the number of units that it tried. */
static size_t purge_word(struct hz_runmap *map, uint32_t index, uint64_t tries, size_t most, size_t *purged) {
    tries = lowest_bits(tries & resting_units(map, index), most);
    size_t tried = hz_bits_count(tries);
    while (tries != 0 && purge_run(map, index, &tries, RESTING, purged)) {
    }
    return tried;
}

void hz_runmap_purge_free(struct hz_runmap *map, uint32_t index, uint64_t tries) {
    size_t purged = 0;
    while (tries != 0 && purge_run(map, index, &tries, FREE, &purged)) {
    }
}

size_t hz_runmap_renew_free(struct hz_runmap *map, uint32_t index, uint64_t tries) {
    size_t purged = 0;
    while (purge_run(map, index, &tries, ANEW, &purged)) {
    }
    return purged;
}

size_t hz_runmap_purge_all(struct hz_runmap *map, size_t most) {
    size_t purged = 0;
    uint32_t index;
    for (uint32_t from = 0; most > 0 && hz_summary_next(&map->dirty_runs, 1, HZ_SUMMARY_LENGTHS, from, &index);
         from = index + 1)
        most -= purge_word(map, index, UINT64_MAX, most, &purged);
    return purged;
}

/* The next word with resting units from `place` on; after the last word the search wraps around. */
static bool next_word(struct hz_runmap *map, uint32_t *place, uint32_t *index) {
    if (!hz_summary_next(&map->dirty_runs, 1, HZ_SUMMARY_LENGTHS, *place, index) &&
        !hz_summary_next(&map->dirty_runs, 1, HZ_SUMMARY_LENGTHS, 0, index))
        return false;
    *place = *index + 1;
    return true;
}

size_t hz_runmap_purge_rested(struct hz_runmap *map, uint32_t delay_ms, size_t most) {
    uint32_t now = (uint32_t)hz_os_now_ms();
    size_t purged = 0;
    uint32_t place = hz_load_rlx(&map->look_cursor); /* relaxed, all: hints */
    uint32_t start = place;
    bool is_round = false; /* the search has wrapped around */
    for (unsigned words = 0; words < LOOK_WORDS && most > 0; words++) {
        uint32_t before = place;
        uint32_t index;
        if (!next_word(map, &place, &index))
            break;
        if (index < before && is_round)
            break;
        is_round = is_round || index < before;
        if (is_round && index >= start)
            break;
        if (now - hz_load_rlx(&map->looked_at_ms[index]) < delay_ms)
            continue;
        most -= purge_word(map, index, hz_load_rlx(&map->rested_masks[index]), most, &purged);
        if (most == 0) { /* the next call goes on with this word */
            place = index;
            break;
        }
        hz_store_rlx(&map->looked_at_ms[index], now);
        /* a unit that is claimed between these two steps, and freed again, is purged early */
        hz_store_rlx(&map->rested_masks[index], resting_units(map, index));
    }
    hz_store_rlx(&map->look_cursor, place);
    return purged;
}

/* Of the next few words with resting units, the one whose last free is the oldest; UINT32_MAX when there is none. */
static uint32_t oldest_word(struct hz_runmap *map) {
    uint32_t now = (uint32_t)hz_os_now_ms();
    uint32_t place = hz_load_rlx(&map->purge_cursor); /* relaxed, all: hints */
    uint32_t oldest = UINT32_MAX;
    int32_t oldest_age = 0;
    uint32_t index;
    for (unsigned words = 0; words < OLDEST_WORDS && next_word(map, &place, &index); words++) {
        int32_t age = (int32_t)(now - hz_load_rlx(&map->freed_at_ms[index]));
        if (oldest == UINT32_MAX || age > oldest_age) {
            oldest = index;
            oldest_age = age;
        }
    }
    hz_store_rlx(&map->purge_cursor, oldest + 1); /* 0 if there is none */
    return oldest;
}

size_t hz_runmap_purge_oldest(struct hz_runmap *map, size_t most) {
    size_t purged = 0;
    while (most > 0) {
        uint32_t index = oldest_word(map);
        if (index == UINT32_MAX)
            break;
        uint64_t rested = hz_load_rlx(&map->rested_masks[index]) & resting_units(map, index); /* relaxed: hint */
        size_t tried = purge_word(map, index, rested != 0 ? rested : UINT64_MAX, most, &purged);
        most -= hz_max(tried, 1); /* a word that other threads have emptied counts, so the loop ends */
    }
    return purged;
}
