/*
 * threads - what many threads with a few blocks each cost in memory, while they live and after they have ended.
 *
 * THREADS threads start; then each allocates BLOCKS blocks of MIN to MAX bytes, and all of them stay alive at once.
 * Then each thread frees its blocks and ends; main sleeps. Printed in KiB: started_rss_kb (all threads run, none has
 * allocated), during_rss_kb (everything is live), live_kb and live_pages_kb (at that time), and what idle.h measures
 * after the last thread has ended. The stacks of the threads count as RSS, the same under every allocator.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include "common/args.h"
#include "common/block.h"
#include "common/idle.h"
#include "common/live_pages.h"
#include "common/machine.h"
#include "common/rng.h"
#include "common/worker.h"

enum { THREADS_MAX = 32768, THREADS_DEFAULT = 2000, BLOCKS_DEFAULT = 100, MIN_DEFAULT = 16, MAX_DEFAULT = 1024 };

struct config {
    uint64_t threads, blocks, min, max, idle, seed, check;
};

struct member {
    struct worker worker;
    const struct config *config;
    struct member *first;    /* the array of all members */
    pthread_barrier_t *turn; /* all members */
    block_ticket *blocks;    /* owner; the first member reads it between two turns */
    uint64_t freed;          /* owner; read after the thread was joined */
};

static void measure(const struct member *first) {
    uint64_t rss_kb = machine_status_kb("VmRSS:");
    uint64_t live = 0;
    struct live_pages set;
    live_pages_open(&set);
    for (uint64_t i = 0; i < first->config->threads; i++) {
        for (uint64_t k = 0; k < first->config->blocks; k++) {
            live += block_bytes(first[i].blocks[k]);
            live_pages_add(&set, first[i].blocks[k]);
        }
    }
    printf("during_rss_kb=%" PRIu64 "\n", rss_kb);
    printf("live_kb=%" PRIu64 "\n", live >> 10);
    printf("live_pages_kb=%" PRIu64 "\n", live_pages_close_kb(&set));
}

static void *member_main(void *argument) {
    struct member *self = argument;
    const struct config *config = self->config;
    const struct block_rules rules = {(uint32_t)config->min, (uint32_t)config->max, config->check == BLOCK_CHECK_FULL};
    uint64_t random = rng_stream(config->seed, self->worker.index);
    uint32_t tags = block_first_tag(self->worker.index);
    worker_start(&self->worker);
    if (self == self->first) {
        printf("started_rss_kb=%" PRIu64 "\n", machine_status_kb("VmRSS:"));
    }
    pthread_barrier_wait(self->turn); /* nothing is live */
    for (uint64_t k = 0; k < config->blocks; k++) {
        uint32_t size = (uint32_t)config->min + rng_below(&random, (uint32_t)(config->max - config->min + 1));
        self->blocks[k] = block_touched(block_new(&rules, size, &tags));
    }
    pthread_barrier_wait(self->turn); /* everything is live */
    if (self == self->first) {
        measure(self);
    }
    pthread_barrier_wait(self->turn);
    for (uint64_t k = 0; k < config->blocks; k++) {
        block_release(&rules, self->blocks[k]);
        self->freed++;
    }
    worker_finish(&self->worker);
    return NULL;
}

static void parse(struct config *config, int argc, char **argv) {
    *config = (struct config){THREADS_DEFAULT, BLOCKS_DEFAULT, MIN_DEFAULT, MAX_DEFAULT, .idle = 5, .seed = 1};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_OPTIONAL, "THREADS", &config->threads, 1, THREADS_MAX, "threads, all alive at once"),
        ARGS_ROW(ARGS_OPTIONAL, "BLOCKS", &config->blocks, 1, 1 << 20, "blocks of each thread"),
        ARGS_ROW(ARGS_OPTIONAL, "MIN", &config->min, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "smallest size in bytes"),
        ARGS_ROW(ARGS_OPTIONAL, "MAX", &config->max, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "largest size in bytes"),
        ARGS_ROW(ARGS_NUMBER, "idle", &config->idle, 0, 86400, "seconds of sleep at the end"),
        ARGS_ROW(ARGS_NUMBER, "seed", &config->seed, 0, UINT64_MAX, "start of the random numbers"),
        ARGS_ROW_CHOICE("check", &config->check, block_check_words, "bytes verified at each free"),
    };
    const struct args_spec spec = {"Many threads hold a few blocks each, free them, and end.", items, ARGS_COUNT(items),
                                   NULL};
    args_parse(&spec, argc, argv);
    args_require_ordered(&spec, "MIN", config->min, "MAX", config->max);
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct config config;
    parse(&config, argc, argv);
    machine_cpus_read();
    unsigned count = (unsigned)config.threads;
    struct member *members = machine_map(count, sizeof *members);
    block_ticket *blocks = machine_map(config.threads * config.blocks, sizeof *blocks);
    pthread_barrier_t turn;
    pthread_barrier_init(&turn, NULL, count);
    for (unsigned i = 0; i < count; i++) {
        members[i] = (struct member){.config = &config, .first = members, .turn = &turn};
        members[i].blocks = blocks + i * config.blocks;
    }
    printf("threads=%" PRIu64 " blocks=%" PRIu64 " min=%" PRIu64 " max=%" PRIu64 " idle=%" PRIu64 " seed=%" PRIu64
           " check=%s\n",
           config.threads, config.blocks, config.min, config.max, config.idle, config.seed,
           block_check_words[config.check]);
    workers_run(members, sizeof *members, count, member_main);
    idle_measure(config.idle);
    uint64_t freed = 0;
    for (unsigned i = 0; i < count; i++) {
        freed += members[i].freed;
    }
    machine_require_equal("freed = allocated", freed, config.threads * config.blocks);
    printf("table_kb=%" PRIu64 "\n", (count * sizeof *members + config.threads * config.blocks * sizeof *blocks) >> 10);
    double seconds = workers_seconds(members, sizeof *members, count);
    workers_print_result(seconds, "ops_per_s", (double)(2 * freed) / seconds);
    return 0;
}
