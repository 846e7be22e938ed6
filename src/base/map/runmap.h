/*
 * runmap.h - which units of address space are free, and which may hold memory.
 *
 * Owns words of 64 units each: a bit in `free_masks` says that a unit is free, a bit in `dirty_masks` that it may hold
 * memory. A claim takes a run of neighbouring units of one word, dirty ones if it can; a release gives units back. Each
 * changes the free mask by one atomic operation, so it needs no lock, and a fork can copy it at any instant. Summaries
 * find a word with a long enough run, so no call is linear in the number of words.
 *
 * Invariants: a unit is never both free and handed out. Only the thread that has taken a unit's free bit changes its
 * dirty bit. A unit that is handed out is dirty.
 * Edge "run-release": all writes to units before hz_runmap_release are over before hz_runmap_claim hands them out again
 * (free_masks: release on free, acquire on claim).
 */
#ifndef HZ_BASE_MAP_RUNMAP_H
#define HZ_BASE_MAP_RUNMAP_H

#include "base/map/summary.h"
#include "base/os/atomic.h"
#include "base/os/compiler.h"

struct hz_runmap {
    _Atomic(uint64_t) *free_masks;  /* sync: run-release */
    _Atomic(uint64_t) *dirty_masks; /* owner: the thread that has taken the unit's free bit */
    _Atomic(uint16_t) *longest;     /* sync: longest-publish; longest free run, and longest free dirty run << 8 */
    struct hz_summary free_runs;
    struct hz_summary dirty_runs; /* of units that are free and dirty */

    /* counter: units that are claimed << 32 | units that rest, that is, are free and dirty */
    _Atomic(uint64_t) counts;

    _Atomic(uint64_t) *rested_masks; /* hint: units that rested at the last look, and were not claimed since */
    _Atomic(uint32_t) *looked_at_ms; /* hint */
    _Atomic(uint32_t) *freed_at_ms;  /* hint */
    _Atomic(uint32_t) look_cursor;   /* hint: next word to look at */
    _Atomic(uint32_t) purge_cursor;  /* hint: next word to purge when there is too much */
    _Atomic(uint32_t) align_cursor;  /* hint: next word to look at for an aligned run */

    /* const after publish. Gives back the memory of neighbouring units, which the caller has claimed; `anew`: by
       mapping them anew, if that can be */
    bool (*give_back)(uint32_t index, uint64_t bits, bool anew);
};

struct hz_claim {
    uint32_t index; /* of the word */
    unsigned first; /* number of the first unit in the word */
    uint64_t bits;  /* the units */
    uint64_t dirty; /* units of the word that were dirty before; right for the claimed ones */
};

HZ_INLINE uint64_t hz_run_bits(unsigned first, unsigned units) {
    return (units == 64 ? UINT64_MAX : (UINT64_C(1) << units) - 1) << first;
}

HZ_INLINE unsigned hz_bits_count(uint64_t bits) {
    return (unsigned)__builtin_popcountll(bits);
}

/* Zeroed memory for a map of `words` words. Init: once, before any other call; there are no units at first. */
size_t hz_runmap_bytes(uint32_t words);
void hz_runmap_init(struct hz_runmap *map, void *memory, uint32_t words,
                    bool (*give_back)(uint32_t index, uint64_t bits, bool anew));

/* Makes the units of a new word free and clean. */
void hz_runmap_add(struct hz_runmap *map, uint32_t index);

/* Ends a word all of whose units the caller has claimed. */
void hz_runmap_remove(struct hz_runmap *map, uint32_t index);

/* Units that are claimed, and units that rest. Both are exact when no call is under way, because only the thread that
   has taken a unit's free bit counts the unit: a claim counts after taking the bit, a release before setting it. */
HZ_INLINE size_t hz_runmap_used(struct hz_runmap *map) {
    return hz_load_rlx(&map->counts) >> 32; /* relaxed: counter */
}

HZ_INLINE size_t hz_runmap_resting(struct hz_runmap *map) {
    return (uint32_t)hz_load_rlx(&map->counts); /* relaxed: counter */
}

/* Takes a run of `units` (1..64) whose first number is a multiple of `align` (a power of two up to 64). False when it
   finds none. A run of units + align - 1 units always has an aligned part. A shorter one may have none, which only a
   look at its word tells. A claim looks at a few of these words; with `thorough`, at all of them if it must. */
bool hz_runmap_claim(struct hz_runmap *map, unsigned units, unsigned align, bool thorough, struct hz_claim *claim);

/* Takes exactly these units; false when they are not all free. */
bool hz_runmap_claim_bits(struct hz_runmap *map, uint32_t index, uint64_t bits, struct hz_claim *claim);

/* The first word from `from` on whose units are all free; false when there is none. A hint. */
HZ_INLINE bool hz_runmap_next_unused(struct hz_runmap *map, uint32_t from, uint32_t *index) {
    return hz_summary_next(&map->free_runs, HZ_SUMMARY_LENGTHS, HZ_SUMMARY_LENGTHS, from, index);
}

/* Notes that units which the caller has claimed hold no memory any more. */
void hz_runmap_clean(struct hz_runmap *map, uint32_t index, uint64_t bits);

/* Gives units back. */
void hz_runmap_release(struct hz_runmap *map, uint32_t index, uint64_t bits);

/* Each purges at most `most` resting units and returns the number given back. If the OS refuses, units stay dirty.
   All: resting units of every word.
   Rested: units that rested at two looks at their word at least `delay_ms` apart, whatever happened to other units of
   the word. A call looks at each word at most once, and at a limited number of words; the next call goes on there.
   Oldest: of the next few words with resting units, the one into which nothing was freed for the longest time. */
size_t hz_runmap_purge_all(struct hz_runmap *map, size_t most);
size_t hz_runmap_purge_rested(struct hz_runmap *map, uint32_t delay_ms, size_t most);
size_t hz_runmap_purge_oldest(struct hz_runmap *map, size_t most);

/* Purges those of the units that are free, also if they should hold no memory. */
void hz_runmap_purge_free(struct hz_runmap *map, uint32_t index, uint64_t tries);

/* Maps the free ones of these units anew, also those that should hold no memory. Returns how many were dirty. */
size_t hz_runmap_renew_free(struct hz_runmap *map, uint32_t index, uint64_t tries);

/* In a fork's child: makes the counts and the summaries of the first `words` words agree with the masks. */
void hz_runmap_repair(struct hz_runmap *map, uint32_t words);

#endif
