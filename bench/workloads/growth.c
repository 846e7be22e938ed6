/*
 * growth - what it costs to fill fresh memory with blocks, and to reach them afterwards.
 *
 * One thread allocates blocks of MIN to MAX bytes and writes all of each, until MIB are live. Then it reads blocks in
 * random order, where each read depends on the one before. With --churn it first frees that many per cent of the
 * blocks, in random order, and allocates as many again. At the end it frees everything. With --fragment the machine's
 * free memory is broken into pieces before (common/fragments.h), so that huge pages have to be gathered. Printed:
 * us_per_mib (microseconds for each MiB of the first filling), faults_per_mib (page faults likewise), worst_us (the
 * longest single malloc, without the write), read_ns (nanoseconds for each read), churn_seconds, and table_kb (the
 * workload's own table, which counts as RSS).
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/args.h"
#include "common/fragments.h"
#include "common/machine.h"
#include "common/rng.h"
#include "common/worker.h"

enum { MIN_DEFAULT = 16, MAX_DEFAULT = 512, READS_DEFAULT = 20, SIZE_MAX_ALLOWED = 1 << 20, MIN_ALLOWED = 8 };

struct config {
    uint64_t mib, min, max, reads, churn, fragment, seed;
};

/* Each block begins with its number, so that a wrong block is noticed. */
struct table {
    uint64_t **blocks;
    uint64_t room, count;
};

struct clock {
    uint64_t worst_ns;
};

static uint64_t faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_minflt;
}

static void block_put(const struct config *config, struct table *table, uint64_t index, uint64_t *random,
                      struct clock *clock, uint64_t *bytes) {
    size_t size = (size_t)config->min + rng_below(random, (uint32_t)(config->max - config->min + 1));
    uint64_t before = machine_now_ns();
    uint64_t *block = malloc(size);
    uint64_t took = machine_now_ns() - before;
    if (block == NULL)
        machine_fail("malloc returned NULL");
    if (took > clock->worst_ns)
        clock->worst_ns = took;
    memset(block, (int)index, size);
    *block = index;
    table->blocks[index] = block;
    *bytes += size;
}

static void fill(const struct config *config, struct table *table, uint64_t *random, struct clock *clock) {
    for (uint64_t bytes = 0; bytes < config->mib << 20 && table->count < table->room; table->count++)
        block_put(config, table, table->count, random, clock, &bytes);
}

static void churn(const struct config *config, struct table *table, uint64_t *random, struct clock *clock) {
    uint64_t ignored = 0;
    for (uint64_t left = table->count * config->churn / 100; left > 0; left--) {
        uint64_t index = rng_below(random, (uint32_t)table->count);
        free(table->blocks[index]);
        block_put(config, table, index, random, clock, &ignored);
    }
}

/* What a block holds decides which one comes next. */
static uint64_t read_all(const struct table *table, uint64_t reads, uint64_t seed) {
    uint64_t state = seed;
    for (uint64_t i = 0; i < reads; i++)
        state += *table->blocks[rng_below(&state, (uint32_t)table->count)];
    return state;
}

static void drain(struct table *table) {
    for (uint64_t index = 0; index < table->count; index++) {
        if (*table->blocks[index] != index)
            machine_fail("a block lost its contents");
        free(table->blocks[index]);
    }
}

static void parse(struct config *config, int argc, char **argv) {
    *config = (struct config){.min = MIN_DEFAULT, .max = MAX_DEFAULT, .reads = READS_DEFAULT, .seed = 1};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_REQUIRED, "MIB", &config->mib, 1, 1 << 16, "MiB live"),
        ARGS_ROW(ARGS_OPTIONAL, "MIN", &config->min, MIN_ALLOWED, SIZE_MAX_ALLOWED, "smallest size in bytes"),
        ARGS_ROW(ARGS_OPTIONAL, "MAX", &config->max, MIN_ALLOWED, SIZE_MAX_ALLOWED, "largest size in bytes"),
        ARGS_ROW(ARGS_NUMBER, "reads", &config->reads, 1, 100000, "million reads"),
        ARGS_ROW(ARGS_NUMBER, "churn", &config->churn, 0, 10000, "per cent of the blocks that are replaced"),
        ARGS_ROW(ARGS_NUMBER, "fragment", &config->fragment, 0, 1 << 16, "MiB of free memory broken at most; 0: none"),
        ARGS_ROW(ARGS_NUMBER, "seed", &config->seed, 0, UINT64_MAX, "seed of the sizes"),
    };
    const struct args_spec spec = {"Fills fresh memory with blocks, and reads them in random order.", items,
                                   ARGS_COUNT(items), NULL};
    args_parse(&spec, argc, argv);
    args_require_ordered(&spec, "MIN", config->min, "MAX", config->max);
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct config config;
    parse(&config, argc, argv);
    machine_cpus_read();
    machine_pin(0);
    uint64_t room = (config.mib << 20) / ((config.min + config.max) / 2);
    struct table table = {.room = room + room / 4 + 64};
    if (table.room > UINT32_MAX)
        machine_fail("MIB: more than 2^32 blocks");
    table.blocks = machine_map(table.room, sizeof *table.blocks);
    struct fragments fragments = {0};
    if (config.fragment > 0)
        fragments_open(&fragments, config.fragment);
    uint64_t random = rng_stream(config.seed, 0);
    struct clock clock = {0};

    uint64_t faults_before = faults();
    uint64_t begin = machine_now_ns();
    fill(&config, &table, &random, &clock);
    uint64_t filled = machine_now_ns();
    uint64_t new_faults = faults() - faults_before;
    churn(&config, &table, &random, &clock);
    uint64_t churned = machine_now_ns();
    uint64_t reads = config.reads * 1000000;
    uint64_t state = read_all(&table, reads, config.seed);
    uint64_t end = machine_now_ns();

    printf("mib=%" PRIu64 " min=%" PRIu64 " max=%" PRIu64 " reads=%" PRIu64 " churn=%" PRIu64 " seed=%" PRIu64 "\n",
           config.mib, config.min, config.max, config.reads, config.churn, config.seed);
    printf("blocks=%" PRIu64 " state=%016" PRIx64 "\n", table.count, state);
    printf("table_kb=%" PRIu64 "\n", table.room * sizeof *table.blocks / 1024);
    printf("us_per_mib=%.2f\n", (double)(filled - begin) / 1000 / (double)config.mib);
    printf("faults_per_mib=%.2f\n", (double)new_faults / (double)config.mib);
    printf("churn_seconds=%.6f\n", (double)(churned - filled) / 1e9);
    printf("worst_us=%.1f\n", (double)clock.worst_ns / 1000);
    printf("read_ns=%.2f\n", (double)(end - churned) / (double)reads);
    if (config.fragment > 0) {
        printf("fragmented_mib=%" PRIu64 " held_mib=%" PRIu64 "\n", fragments.broken_mib, fragments.held_mib);
        fragments_close(&fragments);
    }
    drain(&table);
    workers_print_result((double)(end - begin) / 1e9, "ops_per_s",
                         (double)(table.count + reads) / ((double)(end - begin) / 1e9));
    return 0;
}
