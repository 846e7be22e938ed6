/*
 * random.c - see random.h. Called by the sampling guard. Uses no function of libm, since a program need not be linked
 * with it.
 */
#include "base/random.h"

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
