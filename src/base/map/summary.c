/*
 * summary.c - see summary.h. Level 0 are the leaves; `lengths` is the top level.
 */
#include "base/map/summary.h"

enum { TOP = HZ_SUMMARY_LEVELS };

static size_t level_words(uint32_t words, unsigned level) {
    uint32_t per_node = UINT32_C(64) << (6 * level);
    return ((size_t)words + per_node - 1) / per_node * HZ_SUMMARY_LENGTHS;
}

size_t hz_summary_bytes(uint32_t words) {
    size_t sum = 0;
    for (unsigned level = 0; level < TOP; level++)
        sum += level_words(words, level) * sizeof(uint64_t);
    return sum;
}

void hz_summary_init(struct hz_summary *summary, void *memory, uint32_t words) {
    _Atomic(uint64_t) *next = memory;
    summary->words = words;
    for (unsigned level = 0; level < TOP; level++) {
        summary->levels[level] = next;
        next += level_words(words, level);
    }
}

static _Atomic(uint64_t) *node_of(struct hz_summary *summary, unsigned level, unsigned length, uint32_t index) {
    if (level == TOP)
        return &summary->lengths;
    return &summary->levels[level][(size_t)(index >> (6 * (level + 1))) * HZ_SUMMARY_LENGTHS + length - 1];
}

static uint64_t level_bit(unsigned level, unsigned length, uint32_t index) {
    return UINT64_C(1) << (level == TOP ? length - 1 : (index >> (6 * level)) % 64);
}

static void set_from(struct hz_summary *summary, unsigned level, unsigned length, uint32_t index) {
    for (; level <= TOP; level++)
        /* sync: summary-set, partner clear_from. A node that was not zero has its bit above, or the thread that set its
         * first bit is about to set that */
        if (hz_or_rel(node_of(summary, level, length, index), level_bit(level, length, index)) != 0)
            return;
}

static void clear_from(struct hz_summary *summary, unsigned level, unsigned length, uint32_t index) {
    for (; level <= TOP; level++) {
        uint64_t bit = level_bit(level, length, index);
        /* sync: summary-set, partner set_from */
        uint64_t left = hz_and_acq(node_of(summary, level, length, index), ~bit) & ~bit;
        /* relaxed: ordered by the acquire above */
        if (level > 0 && hz_load_rlx(node_of(summary, level - 1, length, index)) != 0) {
            set_from(summary, level, length, index);
            return;
        }
        if (left != 0)
            return;
    }
}

void hz_summary_set(struct hz_summary *summary, unsigned length, uint32_t index) {
    set_from(summary, 0, length, index);
}

void hz_summary_clear(struct hz_summary *summary, unsigned length, uint32_t index) {
    clear_from(summary, 0, length, index);
}

bool hz_summary_find(struct hz_summary *summary, unsigned *length, uint32_t *index) {
    for (;;) {
        /* relaxed, both: hints; the caller checks the word */
        uint64_t lengths = hz_load_rlx(&summary->lengths) & (UINT64_MAX << (*length - 1));
        if (lengths == 0)
            return false;
        unsigned found = (unsigned)__builtin_ctzll(lengths) + 1;
        uint32_t at = 0;
        unsigned level = TOP;
        while (level > 0) {
            uint64_t node = hz_load_rlx(node_of(summary, level - 1, found, at));
            if (node == 0)
                break;
            level--;
            at |= (uint32_t)__builtin_ctzll(node) << (6 * level);
        }
        if (level == 0) {
            *length = found;
            *index = at;
            return true;
        }
        clear_from(summary, level, found, at); /* a bit over a node that is zero */
    }
}

/* The nodes of the lengths from `least` to `most` together. They are neighbours. `level`: below the top. */
static uint64_t node_of_any(struct hz_summary *summary, unsigned level, unsigned least, unsigned most, uint32_t index) {
    uint64_t any = 0;
    _Atomic(uint64_t) *behind = node_of(summary, level, most, index) + 1;
    for (_Atomic(uint64_t) *node = node_of(summary, level, least, index); node < behind; node++)
        any |= hz_load_rlx(node); /* relaxed: hint */
    return any;
}

bool hz_summary_next(struct hz_summary *summary, unsigned least, unsigned most, uint32_t from, uint32_t *index) {
    while (from < summary->words) {
        unsigned level = 0;
        uint64_t node = 0;
        while (from < summary->words && level < TOP) {
            node = node_of_any(summary, level, least, most, from) & (UINT64_MAX << ((from >> (6 * level)) % 64));
            if (node != 0)
                break;
            level++; /* nothing in the rest of this node: on to the next one, whose bit is in the level above */
            from = ((from >> (6 * level)) + 1) << (6 * level);
        }
        if (node == 0)
            return false;
        from = (from >> (6 * (level + 1)) << (6 * (level + 1))) | (uint32_t)__builtin_ctzll(node) << (6 * level);
        if (level == 0) {
            *index = from;
            return true;
        }
    }
    return false;
}

void hz_summary_repair(struct hz_summary *summary, unsigned length, uint32_t index) {
    for (unsigned level = 0; level <= TOP; level++) /* relaxed: one thread */
        hz_or_rlx(node_of(summary, level, length, index), level_bit(level, length, index));
}
