/*
 * burst_idle - how much memory stays resident after a burst, while every thread sleeps.
 *
 * In each cycle the producers fill LIVE_MIB with blocks, and one consumer frees them all without ever allocating. After
 * the last cycle nothing is live and all threads wait. Printed in KiB: live_rss_kb (all blocks live, last cycle),
 * freed_rss_kb (right after the last free), idle_rss_kb (after --idle seconds of sleep: the figure of this workload),
 * and trimmed_rss_kb (after malloc_trim(0), called by the consumer while the producers sleep).
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "common/args.h"
#include "common/block.h"
#include "common/draws.h"
#include "common/machine.h"
#include "common/worker.h"

enum { CYCLES_DEFAULT = 3, MIN_DEFAULT = 16, MAX_DEFAULT = 1024, IDLE_DEFAULT = 3 };

struct config {
    uint64_t producers, live_mib, cycles, min, max, idle, check;
};

struct member {
    struct worker worker;
    const struct config *config;
    struct member *first;       /* the array of all members; the last one is the consumer */
    pthread_barrier_t *turn;    /* all members: separates the turns of the producers and of the consumer */
    block_ticket *blocks;       /* owner: producer until the turn, then consumer */
    uint64_t block_max, filled; /* owner: as for blocks */
    uint64_t allocated, freed;  /* owner; read after the thread was joined */
};

static bool is_consumer(const struct member *self) {
    return self->worker.index == self->config->producers;
}

static void fill(struct member *self, const struct block_rules *rules, struct draw_cursor *cursor, uint32_t *tags) {
    uint64_t bytes = (self->config->live_mib << 20) / self->config->producers;
    self->filled = 0;
    for (uint64_t sum = 0; sum < bytes && self->filled < self->block_max;) {
        uint32_t size = draw_next(cursor).size;
        self->blocks[self->filled++] = block_new(rules, size, tags);
        sum += size;
    }
    self->allocated += self->filled;
}

static void drain(struct member *self, const struct block_rules *rules) {
    for (struct member *from = self->first; from != self; from++) {
        for (uint64_t i = 0; i < from->filled; i++) {
            block_release(rules, from->blocks[i]);
        }
        self->freed += from->filled;
        from->filled = 0;
    }
}

static void *member_main(void *argument) {
    struct member *self = argument;
    const struct config *config = self->config;
    const struct block_rules rules = {(uint32_t)config->min, (uint32_t)config->max, config->check == BLOCK_CHECK_FULL};
    const struct size_mix mix = size_mix_uniform((uint32_t)config->min, (uint32_t)config->max);
    struct draw_cursor cursor;
    draw_cursor_open(&cursor, 1, self->worker.index, 1, &mix, 0);
    uint32_t tags = block_first_tag(self->worker.index);
    worker_start(&self->worker);
    for (uint64_t cycle = 0; cycle < config->cycles; cycle++) {
        if (!is_consumer(self)) {
            fill(self, &rules, &cursor, &tags);
        }
        pthread_barrier_wait(self->turn); /* everything is live */
        if (is_consumer(self)) {
            if (cycle + 1 == config->cycles) {
                printf("live_rss_kb=%" PRIu64 "\n", machine_status_kb("VmRSS:"));
            }
            drain(self, &rules);
        }
        pthread_barrier_wait(self->turn); /* nothing is live */
    }
    worker_finish(&self->worker);
    if (is_consumer(self)) {
        const struct timespec idle = {(time_t)config->idle, 0};
        printf("freed_rss_kb=%" PRIu64 "\n", machine_status_kb("VmRSS:"));
        clock_nanosleep(CLOCK_MONOTONIC, 0, &idle, NULL);
        printf("idle_rss_kb=%" PRIu64 "\n", machine_status_kb("VmRSS:"));
        malloc_trim(0);
        printf("trimmed_rss_kb=%" PRIu64 "\n", machine_status_kb("VmRSS:"));
    }
    pthread_barrier_wait(self->turn); /* keeps all threads alive, asleep, until the last measurement */
    return NULL;
}

static void parse(struct config *config, int argc, char **argv) {
    *config = (struct config){.cycles = CYCLES_DEFAULT, .min = MIN_DEFAULT, .max = MAX_DEFAULT, .idle = IDLE_DEFAULT};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_REQUIRED, "PRODUCERS", &config->producers, 1, WORKER_COUNT_MAX - 1, "threads that allocate"),
        ARGS_ROW(ARGS_REQUIRED, "LIVE_MIB", &config->live_mib, 1, 1 << 20, "MiB live at the end of a burst"),
        ARGS_ROW(ARGS_OPTIONAL, "CYCLES", &config->cycles, 1, UINT32_MAX, "bursts"),
        ARGS_ROW(ARGS_OPTIONAL, "MIN", &config->min, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "smallest size in bytes"),
        ARGS_ROW(ARGS_OPTIONAL, "MAX", &config->max, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "largest size in bytes"),
        ARGS_ROW(ARGS_NUMBER, "idle", &config->idle, 0, 86400, "seconds of sleep at the end"),
        ARGS_ROW_CHOICE("check", &config->check, block_check_words, "bytes verified at each free"),
    };
    const struct args_spec spec = {"Producers fill memory, a consumer frees it, all threads sleep.", items,
                                   ARGS_COUNT(items), NULL};
    args_parse(&spec, argc, argv);
    args_require_ordered(&spec, "MIN", config->min, "MAX", config->max);
}

/* The table size of one producer: a quarter more than blocks of the mean size need. The table counts as RSS, so it must
   not be much longer. */
static uint64_t tickets_max(const struct config *config) {
    uint64_t expected = (config->live_mib << 20) / config->producers / ((config->min + config->max) / 2);
    return expected + expected / 4 + 64;
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct config config;
    parse(&config, argc, argv);
    machine_cpus_read();
    unsigned count = (unsigned)config.producers + 1;
    struct member *members = machine_map(count, sizeof *members);
    pthread_barrier_t *turn = machine_map(1, sizeof *turn);
    pthread_barrier_init(turn, NULL, count);
    for (unsigned i = 0; i < count; i++) {
        uint64_t block_max = i + 1 == count ? 1 : tickets_max(&config);
        members[i].config = &config;
        members[i].first = members;
        members[i].turn = turn;
        members[i].block_max = block_max;
        members[i].blocks = machine_map(block_max, sizeof *members[i].blocks);
    }
    printf("producers=%" PRIu64 " live_mib=%" PRIu64 " cycles=%" PRIu64 " min=%" PRIu64 " max=%" PRIu64 " idle=%" PRIu64
           " check=%s\n",
           config.producers, config.live_mib, config.cycles, config.min, config.max, config.idle,
           block_check_words[config.check]);
    workers_run(members, sizeof *members, count, member_main);
    uint64_t allocated = 0;
    for (unsigned i = 0; i < count; i++) {
        allocated += members[i].allocated;
    }
    machine_require_equal("freed = allocated", members[count - 1].freed, allocated);
    double seconds = workers_seconds(members, sizeof *members, count);
    printf("allocated=%" PRIu64 " freed=%" PRIu64 "\n", allocated, members[count - 1].freed);
    workers_print_result(seconds, "ops_per_s", (double)(2 * allocated) / seconds);
    return 0;
}
