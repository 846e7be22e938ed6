/*
 * random_mixed.h - the single-threaded loop behind bench_random_mixed_malloc_args and _dist.
 *
 * There are WS slots; each of ITERS steps picks a random one. Toggle mode (the default): a step frees the block of an
 * occupied slot or fills an empty one, so half of the slots are occupied on average; one step is one operation. Pair
 * mode: all slots are filled before the clock starts, and a step frees the block of its slot and allocates the next
 * one; one step is two operations. In toggle mode the processor mispredicts "is the slot occupied?" half of the time,
 * and that cost can hide a factor of two between allocators; pair mode has no such branch.
 */
#ifndef WORKLOADS_RANDOM_MIXED_H
#define WORKLOADS_RANDOM_MIXED_H

#include <stdint.h>

#include "args.h"
#include "draws.h"

enum { RANDOM_MIXED_ARGS = 7 };

struct random_mixed {
    uint64_t iters, slot_count, size_min, size_max, seed;
    uint64_t pair, check;
    struct args_item items[RANDOM_MIXED_ARGS];
    struct args_spec spec;
};

/* Parses ITERS WS MIN MAX SEED and the options. SEED is required or optional; `tail_usage` is as in args_spec. Returns
   the number of words of the tail. */
int random_mixed_parse(struct random_mixed *config, int argc, char **argv, enum args_kind seed_kind,
                       const char *summary, const char *tail_usage);

/* Runs the workload and prints the result; `sizes` is the word printed as "sizes=". */
void random_mixed_run(const struct random_mixed *config, const struct size_mix *mix, const char *sizes);

#endif /* WORKLOADS_RANDOM_MIXED_H */
