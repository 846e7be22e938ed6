/*
 * summary.h - finds a word with a long enough run of ones among up to 2^18 words.
 *
 * Owns, for each length from 1 to 64, a tree of bits over the words: a leaf bit says that the longest run of the word
 * has that length, a bit above says that 64 leaves or bits are not all zero. So a search reads four words, however many
 * words there are. The nodes of all lengths lie side by side, so a small program touches a page or two.
 *
 * The trees are hints: a caller checks the word that it gets. No lock: each change is one atomic operation on each
 * level. After all changes are over, a set bit is found. The edge "summary-set" ensures
 * that: a thread that sets a leaf then sets the bit above, and a thread that clears a bit above then looks at the node
 * below once more, so one of the two sees the other.
 */
#ifndef HZ_BASE_MAP_SUMMARY_H
#define HZ_BASE_MAP_SUMMARY_H

#include "base/os/atomic.h"
#include "base/os/compiler.h"

enum {
    HZ_SUMMARY_LEVELS = 3,
    HZ_SUMMARY_LENGTHS = 64,
    HZ_SUMMARY_WORDS_MAX = 1 << 18,
};

struct hz_summary {
    _Atomic(uint64_t) *levels[HZ_SUMMARY_LEVELS]; /* const after publish; sync: summary-set */
    _Atomic(uint64_t) lengths;                    /* sync: summary-set; bit n: the longest run of some word is n + 1 */
    uint32_t words;                               /* const after publish */
};

/* Zeroed memory that a summary of `words` words takes, a multiple of 64. */
size_t hz_summary_bytes(uint32_t words);

/* `memory`: hz_summary_bytes(words) zeroed bytes. Once, before any other call. */
void hz_summary_init(struct hz_summary *summary, void *memory, uint32_t words);

/* Notes that the longest run of word `index` has (no longer has) this length, 1..64. */
void hz_summary_set(struct hz_summary *summary, unsigned length, uint32_t index);
void hz_summary_clear(struct hz_summary *summary, unsigned length, uint32_t index);

/* The first word of the smallest length that is at least `*length` (1..64). Writes its length and number; false when
   there is none. */
bool hz_summary_find(struct hz_summary *summary, unsigned *length, uint32_t *index);

/* The first word from `from` on whose longest run has one of the lengths from `least` to `most`; false when there is
   none. */
bool hz_summary_next(struct hz_summary *summary, unsigned least, unsigned most, uint32_t from, uint32_t *index);

/* In a fork's child: makes the bits above a leaf agree with it. */
void hz_summary_repair(struct hz_summary *summary, unsigned length, uint32_t index);

#endif
