/*
 * random.c - see random.h. Uses no function of libm, since a program need not be linked with it.
 */
#include "base/os/random.h"

/* In [0, 1). */
static double uniform(uint64_t *state) {
    return (double)(hz_random_next(state) >> 11) * 0x1p-53;
}

/* Exponentially distributed, with mean 1, by von Neumann's comparison method (1951): a descending run of uniform
   numbers that begins with x has an odd length with probability exp(-x). */
static double exponential(uint64_t *state) {
    for (double whole = 0;; whole++) {
        double first = uniform(state);
        double last = first;
        bool is_odd = true;
        for (double next = uniform(state); next < last; next = uniform(state)) {
            last = next;
            is_odd = !is_odd;
        }
        if (is_odd)
            return whole + first;
    }
}

/* -ln(1 - p) for p <= 1/2, by its series. */
static double minus_log_of_rest(double p) {
    double sum = 0;
    double power = p;
    for (int i = 1; power / i > sum * 0x1p-53; i++) {
        sum += power / i;
        power *= p;
    }
    return sum;
}

uint64_t hz_random_tries(uint64_t *state, uint32_t rate) {
    if (rate <= 1)
        return 1;
    return 1 + (uint64_t)(exponential(state) / minus_log_of_rest(1.0 / rate));
}

uint64_t hz_random_gap(uint64_t *state, uint64_t mean) {
    return (uint64_t)(exponential(state) * (double)mean);
}

/* 1 - exp(-x). For small x by its series; f(2x) = f(x) (2 - f(x)) leads to larger ones. */
double hz_random_chance(uint64_t length, uint64_t mean) {
    double x = (double)length / (double)mean;
    if (x > 64)
        return 1;
    unsigned doublings = 0;
    for (; x > 0x1p-6; x /= 2)
        doublings++;
    double chance = x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5 * (1 - x / 6)))));
    for (; doublings > 0; doublings--)
        chance *= 2 - chance;
    return chance;
}
