/*
 * xmalloc_test - producers only allocate, releasers only free.
 *
 * Each producer allocates batches of BATCH blocks of SIZE bytes (with --most: of SIZE to that many, at random) and
 * pushes them on a locked LIFO of at most 100 batches; each releaser pops batches and frees their blocks. The figure is
 * frees per second. Either the work is fixed (BATCHES per producer) and the time is measured, or --seconds=N fixes the
 * time. The batches themselves come from a fixed pool of the workload's own memory.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/args.h"
#include "common/block.h"
#include "common/machine.h"
#include "common/rng.h"
#include "common/worker.h"

enum { LIFO_BATCHES_MAX = 100, BATCHES_DEFAULT = 500, SIZE_DEFAULT = 64, BATCH_DEFAULT = 4096 };

struct config {
    uint64_t producers, releasers, batches, size, most, batch_blocks;
    uint64_t seconds, check;
};

struct batch {
    struct batch *next; /* lock: lifo */
    block_ticket blocks[];
};

struct lifo {
    pthread_mutex_t lock;
    pthread_cond_t filled;  /* a batch was pushed, or the last producer has finished */
    pthread_cond_t emptied; /* a batch was popped */
    struct batch *full;     /* lock: lock */
    struct batch *spare;    /* lock: lock */
    uint64_t full_count;    /* lock: lock */
    uint64_t producing;     /* lock: lock; producers that may still push */
};

struct member {
    struct worker worker;
    const struct config *config;
    struct lifo *lifo;
    uint64_t blocks; /* owner; allocated or freed by this thread, read after the thread was joined */
};

static struct batch *lifo_take_spare(struct lifo *lifo) {
    pthread_mutex_lock(&lifo->lock);
    struct batch *batch = lifo->spare; /* never NULL: the pool has a batch per thread in addition to the full ones */
    lifo->spare = batch->next;
    pthread_mutex_unlock(&lifo->lock);
    return batch;
}

static void lifo_give_spare(struct lifo *lifo, struct batch *batch) {
    pthread_mutex_lock(&lifo->lock);
    batch->next = lifo->spare;
    lifo->spare = batch;
    pthread_mutex_unlock(&lifo->lock);
}

static void lifo_push(struct lifo *lifo, struct batch *batch) {
    pthread_mutex_lock(&lifo->lock);
    while (lifo->full_count == LIFO_BATCHES_MAX) {
        pthread_cond_wait(&lifo->emptied, &lifo->lock);
    }
    batch->next = lifo->full;
    lifo->full = batch;
    lifo->full_count++;
    pthread_cond_signal(&lifo->filled);
    pthread_mutex_unlock(&lifo->lock);
}

/* NULL when all producers have finished and the LIFO is empty. */
static struct batch *lifo_pop(struct lifo *lifo) {
    pthread_mutex_lock(&lifo->lock);
    while (lifo->full == NULL && lifo->producing > 0) {
        pthread_cond_wait(&lifo->filled, &lifo->lock);
    }
    struct batch *batch = lifo->full;
    if (batch != NULL) {
        lifo->full = batch->next;
        lifo->full_count--;
        pthread_cond_signal(&lifo->emptied);
    }
    pthread_mutex_unlock(&lifo->lock);
    return batch;
}

static void lifo_producer_through(struct lifo *lifo) {
    pthread_mutex_lock(&lifo->lock);
    if (--lifo->producing == 0) {
        pthread_cond_broadcast(&lifo->filled);
    }
    pthread_mutex_unlock(&lifo->lock);
}

static bool production_goes_on(const struct member *self, uint64_t batches_done) {
    const struct config *config = self->config;
    if (config->seconds > 0) {
        return machine_now_ns() - self->worker.start_ns < config->seconds * UINT64_C(1000000000);
    }
    return batches_done < config->batches;
}

static uint64_t produce(struct member *self, const struct block_rules *rules) {
    uint64_t batches = 0;
    uint32_t tags = block_first_tag(self->worker.index);
    uint64_t random = rng_stream(1, self->worker.index);
    uint32_t size_count = rules->size_max - rules->size_min + 1;
    for (; production_goes_on(self, batches); batches++) {
        struct batch *batch = lifo_take_spare(self->lifo);
        for (uint64_t b = 0; b < self->config->batch_blocks; b++) {
            batch->blocks[b] = block_new(rules, rules->size_min + rng_below(&random, size_count), &tags);
        }
        lifo_push(self->lifo, batch);
    }
    lifo_producer_through(self->lifo);
    return batches;
}

static uint64_t release(struct member *self, const struct block_rules *rules) {
    uint64_t batches = 0;
    for (struct batch *batch; (batch = lifo_pop(self->lifo)) != NULL; batches++) {
        for (uint64_t b = 0; b < self->config->batch_blocks; b++) {
            block_release(rules, batch->blocks[b]);
        }
        lifo_give_spare(self->lifo, batch);
    }
    return batches;
}

static void *member_main(void *argument) {
    struct member *self = argument;
    const struct config *config = self->config;
    const struct block_rules rules = {(uint32_t)config->size, (uint32_t)config->most,
                                      config->check == BLOCK_CHECK_FULL};
    worker_start(&self->worker);
    uint64_t batches = self->worker.index < config->producers ? produce(self, &rules) : release(self, &rules);
    worker_finish(&self->worker);
    self->blocks = batches * config->batch_blocks;
    return NULL;
}

static void lifo_open(struct lifo *lifo, const struct config *config) {
    uint64_t batch_count = LIFO_BATCHES_MAX + config->producers + config->releasers;
    size_t batch_bytes = sizeof(struct batch) + config->batch_blocks * sizeof(block_ticket);
    batch_bytes = (batch_bytes + MACHINE_LINE_BYTES - 1) / MACHINE_LINE_BYTES * MACHINE_LINE_BYTES;
    unsigned char *pool = machine_map(batch_count, batch_bytes);
    pthread_mutex_init(&lifo->lock, NULL);
    pthread_cond_init(&lifo->filled, NULL);
    pthread_cond_init(&lifo->emptied, NULL);
    lifo->producing = config->producers;
    for (uint64_t i = 0; i < batch_count; i++) {
        lifo_give_spare(lifo, (struct batch *)(void *)(pool + i * batch_bytes));
    }
}

static void parse(struct config *config, int argc, char **argv) {
    *config = (struct config){.batches = BATCHES_DEFAULT, .size = SIZE_DEFAULT, .batch_blocks = BATCH_DEFAULT};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_REQUIRED, "PRODUCERS", &config->producers, 1, WORKER_COUNT_MAX / 2, "threads that allocate"),
        ARGS_ROW(ARGS_REQUIRED, "RELEASERS", &config->releasers, 1, WORKER_COUNT_MAX / 2, "threads that free"),
        ARGS_ROW(ARGS_OPTIONAL, "BATCHES", &config->batches, 1, UINT64_C(1) << 32, "batches per producer"),
        ARGS_ROW(ARGS_OPTIONAL, "SIZE", &config->size, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "size in bytes"),
        ARGS_ROW(ARGS_OPTIONAL, "BATCH", &config->batch_blocks, 1, 1 << 20, "blocks in a batch"),
        ARGS_ROW(ARGS_NUMBER, "most", &config->most, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "largest size; default: SIZE"),
        ARGS_ROW(ARGS_NUMBER, "seconds", &config->seconds, 0, 86400, "duration of production; 0: until BATCHES"),
        ARGS_ROW_CHOICE("check", &config->check, block_check_words, "bytes verified at each free"),
    };
    const struct args_spec spec = {"Producers hand batches of blocks to releasers.", items, ARGS_COUNT(items), NULL};
    args_parse(&spec, argc, argv);
    config->most = config->most == 0 ? config->size : config->most;
    args_require_ordered(&spec, "SIZE", config->size, "most", config->most);
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct config config;
    parse(&config, argc, argv);
    machine_cpus_read();
    unsigned count = (unsigned)(config.producers + config.releasers);
    struct lifo *lifo = machine_map(1, sizeof *lifo);
    lifo_open(lifo, &config);
    struct member *members = machine_map(count, sizeof *members);
    for (unsigned i = 0; i < count; i++) {
        members[i].config = &config;
        members[i].lifo = lifo;
    }
    workers_run(members, sizeof *members, count, member_main);
    double seconds = workers_seconds(members, sizeof *members, count);
    uint64_t allocated = 0;
    uint64_t freed = 0;
    for (unsigned i = 0; i < count; i++) {
        *(i < config.producers ? &allocated : &freed) += members[i].blocks;
    }
    machine_require_equal("freed = allocated", freed, allocated);
    if (config.seconds == 0) {
        machine_require_equal("allocated = producers x batches x batch", allocated,
                              config.producers * config.batches * config.batch_blocks);
    }
    printf("producers=%" PRIu64 " releasers=%" PRIu64 " batches=%" PRIu64 " size=%" PRIu64 " most=%" PRIu64
           " batch=%" PRIu64 " fixed=%s check=%s\n",
           config.producers, config.releasers, allocated / config.batch_blocks / config.producers, config.size,
           config.most, config.batch_blocks, config.seconds > 0 ? "time" : "work", block_check_words[config.check]);
    printf("allocated=%" PRIu64 " freed=%" PRIu64 "\n", allocated, freed);
    printf("frees_per_s=%.0f\n", (double)freed / seconds);
    workers_print_result(seconds, "ops_per_s", (double)freed / seconds);
    return 0;
}
