/*
 * larson - a server whose threads end and hand their blocks to a successor (after Larson and Krishnan: Memory
 * allocation for long-running server applications, ISMM 1998).
 *
 * There are THREADS chains of threads, each with BLOCKS blocks that the main thread allocated. BLOCKS x ROUNDS times, a
 * thread frees the block of a random slot and allocates another one; then it starts its successor, which inherits the
 * slots, and ends. A chain has --generations threads. So threads free blocks that other threads allocated, often when
 * the allocating thread has already ended. The figure is replacements (free + malloc) per second.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include "common/args.h"
#include "common/block.h"
#include "common/draws.h"
#include "common/machine.h"
#include "common/worker.h"

enum { GENERATIONS_DEFAULT = 10, GENERATIONS_MAX = 10000 };

struct config {
    uint64_t threads, size_min, size_max, block_count, rounds;
    uint64_t seed, generations, check;
};

/* The state that the threads of a chain inherit. owner: the running thread; starting and joining threads hand it on. */
struct chain {
    struct worker worker; /* started by the first generation, finished by the last */
    const struct config *config;
    struct draw_cursor draws;
    struct block_rules rules;
    block_ticket *slots;
    uint32_t tags;
    pthread_t *successors; /* [generation], written by the previous generation; read after that one was joined */
    uint64_t generation, replaced;
};

static void replace_blocks(struct chain *chain) {
    uint64_t steps = chain->config->block_count * chain->config->rounds;
    struct draw_cursor draws = chain->draws;
    const struct block_rules rules = chain->rules;
    block_ticket *slots = chain->slots;
    uint32_t tags = chain->tags;
    for (uint64_t i = 0; i < steps; i++) {
        struct draw draw = draw_next(&draws);
        block_release(&rules, slots[draw.slot]);
        slots[draw.slot] = block_new(&rules, draw.size, &tags);
    }
    chain->draws = draws;
    chain->tags = tags;
    chain->replaced += steps;
}

static void *generation_main(void *argument) {
    struct chain *chain = argument;
    machine_pin(chain->worker.index);
    replace_blocks(chain);
    if (chain->generation + 1 == chain->config->generations) {
        worker_finish(&chain->worker);
    } else {
        uint64_t next = ++chain->generation;
        pthread_t *successors = chain->successors; /* read now: the successor owns the chain once it runs */
        successors[next] = worker_thread_start(generation_main, chain);
    }
    return NULL;
}

static void *first_generation_main(void *argument) {
    struct chain *chain = argument;
    worker_start(&chain->worker);
    return generation_main(argument);
}

static void chain_open(struct chain *chain, const struct config *config, uint64_t index) {
    const struct size_mix mix = size_mix_uniform((uint32_t)config->size_min, (uint32_t)config->size_max);
    chain->config = config;
    chain->tags = block_first_tag((uint32_t)index);
    chain->rules = (struct block_rules){mix.min, mix.max, config->check == BLOCK_CHECK_FULL};
    chain->slots = machine_map(config->block_count, sizeof *chain->slots);
    chain->successors = machine_map(config->generations, sizeof *chain->successors);
    draw_cursor_open(&chain->draws, config->seed, index, (uint32_t)config->block_count, &mix, 0);
    for (uint64_t b = 0; b < config->block_count; b++) {
        uint32_t size = size_mix_draw(&mix, &chain->draws.rng);
        chain->slots[b] = block_new(&chain->rules, size, &chain->tags);
    }
}

/* Frees the chain's blocks; returns their number. */
static uint64_t chain_close(struct chain *chain) {
    uint64_t held = 0;
    for (uint64_t b = 0; b < chain->config->block_count; b++) {
        if (chain->slots[b] != 0) {
            block_release(&chain->rules, chain->slots[b]);
            held++;
        }
    }
    return held;
}

static void parse(struct config *config, int argc, char **argv) {
    *config = (struct config){.seed = 1, .generations = GENERATIONS_DEFAULT};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_REQUIRED, "THREADS", &config->threads, 1, WORKER_COUNT_MAX, "threads at a time"),
        ARGS_ROW(ARGS_REQUIRED, "MIN", &config->size_min, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "smallest size in bytes"),
        ARGS_ROW(ARGS_REQUIRED, "MAX", &config->size_max, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "largest size in bytes"),
        ARGS_ROW(ARGS_REQUIRED, "BLOCKS", &config->block_count, 1, 1 << 24, "blocks per thread"),
        ARGS_ROW(ARGS_REQUIRED, "ROUNDS", &config->rounds, 1, 1 << 24, "replacements per thread, times BLOCKS"),
        ARGS_ROW(ARGS_OPTIONAL, "SEED", &config->seed, 0, UINT64_MAX, "random seed"),
        ARGS_ROW(ARGS_NUMBER, "generations", &config->generations, 1, GENERATIONS_MAX, "threads in a chain"),
        ARGS_ROW_CHOICE("check", &config->check, block_check_words, "bytes verified at each free"),
    };
    const struct args_spec spec = {"Threads replace blocks, end and hand them to a successor.", items,
                                   ARGS_COUNT(items), NULL};
    args_parse(&spec, argc, argv);
    args_require_ordered(&spec, "MIN", config->size_min, "MAX", config->size_max);
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct config config;
    parse(&config, argc, argv);
    machine_cpus_read();
    struct chain *chains = machine_map(config.threads, sizeof *chains);
    for (uint64_t i = 0; i < config.threads; i++) {
        chain_open(&chains[i], &config, i);
    }
    workers_run(chains, sizeof *chains, (unsigned)config.threads, first_generation_main);
    uint64_t replaced = 0;
    uint64_t held = 0;
    for (uint64_t i = 0; i < config.threads; i++) {
        for (uint64_t g = 1; g < config.generations; g++) {
            pthread_join(chains[i].successors[g], NULL);
        }
        replaced += chains[i].replaced;
        held += chain_close(&chains[i]);
    }
    double seconds = workers_seconds(chains, sizeof *chains, (unsigned)config.threads);
    machine_require_equal("replaced = threads x generations x blocks x rounds", replaced,
                          config.threads * config.generations * config.block_count * config.rounds);
    machine_require_equal("held at the end = threads x blocks", held, config.threads * config.block_count);
    printf("threads=%" PRIu64 " min=%" PRIu64 " max=%" PRIu64 " blocks=%" PRIu64 " rounds=%" PRIu64 " seed=%" PRIu64
           " generations=%" PRIu64 " check=%s\n",
           config.threads, config.size_min, config.size_max, config.block_count, config.rounds, config.seed,
           config.generations, block_check_words[config.check]);
    printf("allocated=%" PRIu64 " freed=%" PRIu64 " remaining_freed=%" PRIu64 "\n", held + replaced, replaced, held);
    printf("pairs_per_s=%.0f\n", (double)replaced / seconds);
    workers_print_result(seconds, "ops_per_s", (double)replaced * 2 / seconds);
    return 0;
}
