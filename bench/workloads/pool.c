/*
 * pool - a program that makes a pool of threads for each request.
 *
 * For each request in turn, THREADS threads start. Each allocates BLOCKS blocks of MIN to MAX bytes, writes to each
 * of their pages, and allocates KEPT results of RESULT bytes evenly among them. It frees the blocks in
 * random order and ends. Main joins the threads. The results of all requests stay alive. After the last request main
 * sleeps, and idle.h measures the RSS. Printed besides, in KiB: live_kb and live_pages_kb (the results), and table_kb
 * (the program's own tables).
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>

#include "common/args.h"
#include "common/block.h"
#include "common/idle.h"
#include "common/live_pages.h"
#include "common/machine.h"
#include "common/rng.h"
#include "common/worker.h"

enum { REQUESTS_DEFAULT = 200, THREADS_DEFAULT = 8, BLOCKS_DEFAULT = 1000, MIN_DEFAULT = 16, MAX_DEFAULT = 8192 };
enum { KEPT_DEFAULT = 8, RESULT_DEFAULT = 64, REQUESTS_MAX = 1 << 20 };

struct config {
    uint64_t requests, threads, blocks, min, max, kept, result, idle, seed, check;
};

struct member {
    struct worker worker;
    const struct config *config;
    uint64_t random;       /* goes on from request to request */
    uint32_t tags;         /* like random */
    block_ticket *blocks;  /* of the request */
    block_ticket *results; /* of all requests */
    uint64_t kept, freed;
    uint64_t made; /* results of this request */
};

static struct block_rules rules_of(const struct config *config) {
    return (struct block_rules){(uint32_t)config->min, (uint32_t)config->max, config->check == BLOCK_CHECK_FULL};
}

static struct block_rules result_rules_of(const struct config *config) {
    return (struct block_rules){(uint32_t)config->result, (uint32_t)config->result, config->check == BLOCK_CHECK_FULL};
}

static void *member_main(void *argument) {
    struct member *self = argument;
    const struct config *config = self->config;
    const struct block_rules rules = rules_of(config), result_rules = result_rules_of(config);
    worker_start(&self->worker);
    for (uint64_t i = 0; i < config->blocks; i++) {
        uint32_t size = (uint32_t)config->min + rng_below(&self->random, (uint32_t)(config->max - config->min + 1));
        self->blocks[i] = block_touched(block_new(&rules, size, &self->tags));
        for (uint64_t due = (i + 1) * config->kept / config->blocks; self->made < due; self->made++) {
            self->results[self->kept++] = block_new(&result_rules, (uint32_t)config->result, &self->tags);
        }
    }
    for (uint64_t left = config->blocks; left > 0; left--) {
        uint64_t at = rng_below(&self->random, (uint32_t)left);
        block_release(&rules, self->blocks[at]);
        self->blocks[at] = self->blocks[left - 1];
        self->freed++;
    }
    self->made = 0;
    worker_finish(&self->worker);
    return NULL;
}

static void parse(struct config *config, int argc, char **argv) {
    *config = (struct config){REQUESTS_DEFAULT, THREADS_DEFAULT, BLOCKS_DEFAULT, MIN_DEFAULT, MAX_DEFAULT,
                              KEPT_DEFAULT,     RESULT_DEFAULT,  .idle = 3,      .seed = 1};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_OPTIONAL, "REQUESTS", &config->requests, 1, REQUESTS_MAX, "requests, one after the other"),
        ARGS_ROW(ARGS_OPTIONAL, "THREADS", &config->threads, 1, WORKER_COUNT_MAX, "threads of each request"),
        ARGS_ROW(ARGS_OPTIONAL, "BLOCKS", &config->blocks, 1, 1 << 20, "blocks of each thread"),
        ARGS_ROW(ARGS_OPTIONAL, "MIN", &config->min, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "smallest size in bytes"),
        ARGS_ROW(ARGS_OPTIONAL, "MAX", &config->max, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "largest size in bytes"),
        ARGS_ROW(ARGS_NUMBER, "kept", &config->kept, 0, 1 << 20, "results of each thread, which stay alive"),
        ARGS_ROW(ARGS_NUMBER, "result", &config->result, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "bytes of a result"),
        ARGS_ROW(ARGS_NUMBER, "idle", &config->idle, 0, 86400, "seconds of sleep at the end"),
        ARGS_ROW(ARGS_NUMBER, "seed", &config->seed, 0, UINT64_MAX, "start of the random numbers"),
        ARGS_ROW_CHOICE("check", &config->check, block_check_words, "bytes verified at each free"),
    };
    const struct args_spec spec = {"Each request has threads of its own, and leaves a few blocks.", items,
                                   ARGS_COUNT(items), NULL};
    args_parse(&spec, argc, argv);
    args_require_ordered(&spec, "MIN", config->min, "MAX", config->max);
}

static void print_live(const struct member *members, const struct config *config) {
    uint64_t live = 0;
    struct live_pages set;
    live_pages_open(&set);
    for (uint64_t i = 0; i < config->threads; i++) {
        for (uint64_t k = 0; k < members[i].kept; k++) {
            live += block_bytes(members[i].results[k]);
            live_pages_add(&set, members[i].results[k]);
        }
    }
    printf("live_kb=%" PRIu64 "\n", live >> 10);
    printf("live_pages_kb=%" PRIu64 "\n", live_pages_close_kb(&set));
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct config config;
    parse(&config, argc, argv);
    machine_cpus_read();
    unsigned threads = (unsigned)config.threads;
    uint64_t results = config.requests * config.kept;
    struct member *members = machine_map(threads, sizeof *members);
    block_ticket *blocks = machine_map(config.threads * config.blocks, sizeof *blocks);
    block_ticket *kept = machine_map(config.threads * results + 1, sizeof *kept);
    for (unsigned i = 0; i < threads; i++) {
        members[i] = (struct member){.config = &config, .random = rng_stream(config.seed, i)};
        members[i].tags = block_first_tag(i);
        members[i].blocks = blocks + i * config.blocks;
        members[i].results = kept + i * results;
    }
    printf("requests=%" PRIu64 " threads=%" PRIu64 " blocks=%" PRIu64 " min=%" PRIu64 " max=%" PRIu64 " kept=%" PRIu64
           " result=%" PRIu64 " idle=%" PRIu64 " seed=%" PRIu64 " check=%s\n",
           config.requests, config.threads, config.blocks, config.min, config.max, config.kept, config.result,
           config.idle, config.seed, block_check_words[config.check]);
    double seconds = 0;
    for (uint64_t request = 0; request < config.requests; request++) {
        workers_run(members, sizeof *members, threads, member_main);
        seconds += workers_seconds(members, sizeof *members, threads);
    }
    idle_measure(config.idle);
    print_live(members, &config);
    printf("table_kb=%" PRIu64 "\n",
           (threads * sizeof *members + (config.threads * (config.blocks + results) + 1) * sizeof *blocks) >> 10);
    const struct block_rules rules = result_rules_of(&config);
    uint64_t freed = 0;
    for (unsigned i = 0; i < threads; i++) {
        for (uint64_t k = 0; k < members[i].kept; k++) {
            block_release(&rules, members[i].results[k]);
        }
        freed += members[i].freed + members[i].kept;
    }
    machine_require_equal("freed = allocated", freed, config.requests * config.threads * (config.blocks + config.kept));
    workers_print_result(seconds, "ops_per_s", (double)(2 * freed) / seconds);
    return 0;
}
