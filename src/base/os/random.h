/*
 * random.h - cheap random numbers: Sebastiano Vigna's SplitMix64 (Steele, Lea, Flood 2014). Guessable, so not for
 * secrets. Any initial state will do; threads must not share a state.
 */
#ifndef HZ_BASE_OS_RANDOM_H
#define HZ_BASE_OS_RANDOM_H

#include "base/os/compiler.h"

/* The next of 2^64 equally likely numbers. */
HZ_INLINE uint64_t hz_random_next(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* Number of independent tries up to the first success, if each succeeds with probability 1/`rate`: 1 or more. */
uint64_t hz_random_tries(uint64_t *state, uint32_t rate);

/* Distance from any place to the next event, rounded down, if events happen at any place, on average once in `mean`. */
uint64_t hz_random_gap(uint64_t *state, uint64_t mean);

/* The chance that there is such an event in a range of this length. */
double hz_random_chance(uint64_t length, uint64_t mean);

#endif
