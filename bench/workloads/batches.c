/*
 * batches - one thread allocates BLOCKS blocks and frees them, again and again: in the order of their allocation, in
 * the reverse order, or in a random one. With more blocks than a thread's cache holds, each batch goes through whatever
 * the allocator has behind it. The figure is pairs of malloc and free per second.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>

#include "common/args.h"
#include "common/block.h"
#include "common/machine.h"
#include "common/rng.h"
#include "common/worker.h"

enum { ORDER_REVERSE, ORDER_SAME, ORDER_RANDOM };
static const char *const order_words[] = {"reverse", "same", "random", NULL};

struct config {
    uint64_t blocks, pairs, min, max, order, seed, check;
};

/* The index of the block that is freed as the n-th. */
static void order_fill(const struct config *config, uint32_t *order, uint64_t *random) {
    uint32_t count = (uint32_t)config->blocks;
    for (uint32_t n = 0; n < count; n++)
        order[n] = config->order == ORDER_REVERSE ? count - 1 - n : n;
    for (uint32_t n = count - 1; n > 0 && config->order == ORDER_RANDOM; n--) {
        uint32_t other = rng_below(random, n + 1), moved = order[n];
        order[n] = order[other];
        order[other] = moved;
    }
}

static void parse(struct config *config, int argc, char **argv) {
    *config = (struct config){.seed = 1};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_REQUIRED, "BLOCKS", &config->blocks, 1, 1 << 24, "blocks in a batch"),
        ARGS_ROW(ARGS_REQUIRED, "PAIRS", &config->pairs, 1, UINT64_C(1) << 40, "pairs in all, rounded up to batches"),
        ARGS_ROW(ARGS_REQUIRED, "MIN", &config->min, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "smallest size in bytes"),
        ARGS_ROW(ARGS_REQUIRED, "MAX", &config->max, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "largest size in bytes"),
        ARGS_ROW_CHOICE("order", &config->order, order_words, "order of the frees"),
        ARGS_ROW(ARGS_NUMBER, "seed", &config->seed, 0, UINT64_MAX, "seed of sizes and order"),
        ARGS_ROW_CHOICE("check", &config->check, block_check_words, "bytes verified at each free"),
    };
    const struct args_spec spec = {"One thread allocates batches of blocks and frees them.", items, ARGS_COUNT(items),
                                   NULL};
    args_parse(&spec, argc, argv);
    args_require_ordered(&spec, "MIN", config->min, "MAX", config->max);
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct config config;
    parse(&config, argc, argv);
    machine_cpus_read();
    machine_pin(0);
    const struct block_rules rules = {(uint32_t)config.min, (uint32_t)config.max, config.check == BLOCK_CHECK_FULL};
    block_ticket *tickets = machine_map(config.blocks, sizeof *tickets);
    uint32_t *sizes = machine_map(config.blocks, sizeof *sizes);
    uint32_t *order = machine_map(config.blocks, sizeof *order);
    uint64_t random = rng_stream(config.seed, 0);
    for (uint64_t n = 0; n < config.blocks; n++)
        sizes[n] = rules.size_min + rng_below(&random, rules.size_max - rules.size_min + 1);
    order_fill(&config, order, &random);

    uint32_t tags = block_first_tag(0);
    uint64_t allocated = 0, freed = 0;
    uint64_t begin = machine_now_ns();
    while (freed < config.pairs) {
        for (uint64_t n = 0; n < config.blocks; n++)
            tickets[n] = block_new(&rules, sizes[n], &tags);
        allocated += config.blocks;
        for (uint64_t n = 0; n < config.blocks; n++)
            block_release(&rules, tickets[order[n]]);
        freed += config.blocks;
    }
    double seconds = (double)(machine_now_ns() - begin) / 1e9;
    machine_require_equal("freed = allocated", freed, allocated);
    printf("blocks=%" PRIu64 " pairs=%" PRIu64 " min=%" PRIu64 " max=%" PRIu64 " order=%s seed=%" PRIu64 " check=%s\n",
           config.blocks, freed, config.min, config.max, order_words[config.order], config.seed,
           block_check_words[config.check]);
    printf("allocated=%" PRIu64 " freed=%" PRIu64 "\n", allocated, freed);
    printf("pairs_per_s=%.0f\n", (double)freed / seconds);
    workers_print_result(seconds, "ops_per_s", (double)freed * 2 / seconds);
    return 0;
}
