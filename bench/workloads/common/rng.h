/*
 * rng.h - splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014):
 * one word of state, and any seed is good.
 */
#ifndef WORKLOADS_RNG_H
#define WORKLOADS_RNG_H

#include <stdint.h>

static inline uint64_t rng_next(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* A number from 0 to bound - 1; the bias of multiply-and-shift is below bound / 2^32. */
static inline uint32_t rng_below(uint64_t *state, uint32_t bound) {
    return (uint32_t)(((rng_next(state) >> 32) * bound) >> 32);
}

/* The initial state of a separate stream for each (seed, index). */
static inline uint64_t rng_stream(uint64_t seed, uint64_t index) {
    uint64_t state = seed ^ (index * UINT64_C(0xD1B54A32D192ED03));
    return rng_next(&state);
}

#endif /* WORKLOADS_RNG_H */
