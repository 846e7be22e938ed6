/*
 * line_transfer - how long a cache line takes from one CPU to another. Calibrates simulate.py.
 *
 * Two threads, bound to CPU A and CPU B, take turns to raise a counter by compare and swap: each turn moves the
 * counter's line once and ends with a CAS on it. Then one thread alone raises it as often, with the line in its cache.
 *   line_ns   time of a turn minus that of a CAS alone: --line of simulate.py
 *   cas_ns    time of a CAS on a line in the cache: --cas
 * The medians of ROUNDS rounds are printed. Wants two CPUs for itself: on a busy machine the turns wait for the
 * scheduler.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/args.h"
#include "common/machine.h"
#include "common/worker.h"

enum { ROUNDS_MAX = 1000, SPINS_BEFORE_YIELD = 1 << 14 };

struct config {
    uint64_t turns, rounds, first_cpu, second_cpu;
};

struct turn_taker {
    struct worker worker;
    const struct config *config;
};

static struct { _Alignas(MACHINE_LINE_BYTES) _Atomic(uint64_t) value; } counter;

/* Waits until it is this thread's turn: even values are the first one's, odd ones the second one's. */
static void wait_for(uint64_t value) {
    for (unsigned spins = 1; atomic_load_explicit(&counter.value, memory_order_acquire) != value; spins++) {
        if (spins % SPINS_BEFORE_YIELD == 0) {
            sched_yield(); /* both threads may have to share a CPU */
        }
    }
}

static void raise_counter(uint64_t value) {
    if (!atomic_compare_exchange_strong_explicit(&counter.value, &value, value + 1, memory_order_acq_rel,
                                                 memory_order_relaxed)) {
        machine_fail("another thread raised the counter to %" PRIu64, value);
    }
}

static void bind(uint64_t cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        machine_fail("cannot run on CPU %" PRIu64, cpu);
    }
}

static void *turns_main(void *argument) {
    struct turn_taker *self = argument;
    uint64_t index = self->worker.index;
    bind(index == 0 ? self->config->first_cpu : self->config->second_cpu);
    worker_start(&self->worker);
    for (uint64_t turn = index; turn < self->config->turns; turn += 2) {
        wait_for(turn);
        raise_counter(turn);
    }
    worker_finish(&self->worker);
    return NULL;
}

/* Nanoseconds a turn. */
static double measure_turns(const struct config *config) {
    struct turn_taker *takers = machine_map(2, sizeof *takers);
    takers[0].config = takers[1].config = config;
    atomic_store(&counter.value, 0);
    workers_run(takers, sizeof *takers, 2, turns_main);
    double seconds = workers_seconds(takers, sizeof *takers, 2);
    machine_unmap(takers, 2, sizeof *takers);
    machine_require_equal("counter = turns", atomic_load(&counter.value), config->turns);
    return seconds * 1e9 / (double)config->turns;
}

static double measure_alone(const struct config *config) {
    atomic_store(&counter.value, 0);
    uint64_t start = machine_now_ns();
    for (uint64_t turn = 0; turn < config->turns; turn++) {
        raise_counter(turn);
    }
    return (double)(machine_now_ns() - start) / (double)config->turns;
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values, uint64_t count) {
    qsort(values, count, sizeof *values, compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct config config = {.turns = 1000000, .rounds = 11, .second_cpu = 1};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_OPTIONAL, "TURNS", &config.turns, 2, UINT64_C(1) << 40, "turns of both threads together"),
        ARGS_ROW(ARGS_OPTIONAL, "ROUNDS", &config.rounds, 1, ROUNDS_MAX, "rounds, of which the medians are printed"),
        ARGS_ROW(ARGS_OPTIONAL, "A", &config.first_cpu, 0, CPU_SETSIZE - 1, "CPU of the first thread"),
        ARGS_ROW(ARGS_OPTIONAL, "B", &config.second_cpu, 0, CPU_SETSIZE - 1, "CPU of the second thread"),
    };
    const struct args_spec spec = {"Measures how long a cache line takes from CPU to CPU.", items, ARGS_COUNT(items),
                                   NULL};
    args_parse(&spec, argc, argv);
    machine_cpus_read();
    static double turns[ROUNDS_MAX];
    static double alone[ROUNDS_MAX];
    for (uint64_t round = 0; round < config.rounds; round++) {
        turns[round] = measure_turns(&config);
        alone[round] = measure_alone(&config);
    }
    double cas = median(alone, config.rounds);
    double turn = median(turns, config.rounds);
    printf("turns=%" PRIu64 " rounds=%" PRIu64 " cpus=%" PRIu64 ",%" PRIu64 " turn_min_ns=%.1f turn_max_ns=%.1f\n",
           config.turns, config.rounds, config.first_cpu, config.second_cpu, turns[0], turns[config.rounds - 1]);
    printf("line_ns=%.1f cas_ns=%.1f\n", turn - cas, cas);
    return 0;
}
