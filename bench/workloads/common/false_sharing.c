/*
 * false_sharing.c - see false_sharing.h. The start value of each byte depends on thread and position. The thread adds
 * one to every byte WRITES times and then compares, so a block held by two threads at the same time is noticed.
 */
#include "false_sharing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "args.h"
#include "block.h"
#include "machine.h"
#include "worker.h"

enum { SIZE_DEFAULT = 8, SIZE_MAX_BYTES = 1 << 20 };

struct config {
    uint64_t threads, iters, size, writes;
    bool passive;
};

struct writer {
    struct worker worker;
    const struct config *config;
    unsigned char *inherited; /* passive: a block of the main thread, which the writer frees first */
    uint64_t allocated, freed;
};

static unsigned char start_value(uint32_t index, uint64_t offset) {
    return (unsigned char)(index * 37 + offset);
}

static void mark(unsigned char *block, uint64_t size, uint32_t index) {
    for (uint64_t i = 0; i < size; i++) {
        block[i] = start_value(index, i);
    }
}

static void verify(const unsigned char *block, uint64_t size, uint32_t index, uint64_t writes) {
    for (uint64_t i = 0; i < size; i++) {
        unsigned char expected = (unsigned char)(start_value(index, i) + writes);
        if (block[i] != expected) {
            machine_fail("content check failed: block %p of thread %" PRIu32 ", offset %" PRIu64 " holds %u, not %u",
                         (const void *)block, index, i, block[i], expected);
        }
    }
}

static unsigned char *block_marked(uint64_t size, uint32_t index) {
    unsigned char *block = malloc(size);
    if (block == NULL) {
        block_fail_address(block, (uint32_t)size);
    }
    mark(block, size, index);
    return block;
}

static void write_over_and_over(volatile unsigned char *block, uint64_t size, uint64_t writes) {
    for (uint64_t w = 0; w < writes; w++) {
        for (uint64_t i = 0; i < size; i++) {
            block[i] = (unsigned char)(block[i] + 1);
        }
    }
}

static void *writer_main(void *argument) {
    struct writer *self = argument;
    const struct config *config = self->config;
    uint32_t index = self->worker.index;
    worker_start(&self->worker);
    if (config->passive) {
        verify(self->inherited, config->size, index, 0);
        free(self->inherited);
        self->freed++;
    }
    for (uint64_t i = 0; i < config->iters; i++) {
        unsigned char *block = block_marked(config->size, index);
        write_over_and_over(block, config->size, config->writes);
        verify(block, config->size, index, config->writes);
        free(block);
    }
    worker_finish(&self->worker);
    self->allocated += config->iters;
    self->freed += config->iters;
    return NULL;
}

static void parse(struct config *config, int argc, char **argv, const char *summary) {
    config->size = SIZE_DEFAULT;
    const struct args_item items[] = {
        ARGS_ROW(ARGS_REQUIRED, "THREADS", &config->threads, 1, WORKER_COUNT_MAX, "threads"),
        ARGS_ROW(ARGS_REQUIRED, "ITERS", &config->iters, 1, UINT64_C(1) << 32, "blocks per thread, one at a time"),
        ARGS_ROW(ARGS_REQUIRED, "WRITES", &config->writes, 1, UINT64_C(1) << 32, "writes to each byte of a block"),
        ARGS_ROW(ARGS_OPTIONAL, "SIZE", &config->size, 1, SIZE_MAX_BYTES, "size in bytes"),
    };
    const struct args_spec spec = {summary, items, ARGS_COUNT(items), NULL};
    args_parse(&spec, argc, argv);
}

int false_sharing_main(int argc, char **argv, bool passive, const char *summary) {
    machine_stdout_prepare();
    struct config config = {.passive = passive};
    parse(&config, argc, argv, summary);
    machine_cpus_read();
    struct writer *writers = machine_map(config.threads, sizeof *writers);
    for (uint32_t i = 0; i < config.threads; i++) {
        writers[i].config = &config;
        if (passive) {
            writers[i].inherited = block_marked(config.size, i);
            writers[i].allocated++;
        }
    }
    workers_run(writers, sizeof *writers, (unsigned)config.threads, writer_main);
    double seconds = workers_seconds(writers, sizeof *writers, (unsigned)config.threads);
    uint64_t allocated = 0;
    uint64_t freed = 0;
    for (uint64_t i = 0; i < config.threads; i++) {
        allocated += writers[i].allocated;
        freed += writers[i].freed;
    }
    machine_require_equal("freed = allocated", freed, allocated);
    machine_require_equal("allocated = threads x iters (passive: + threads)", allocated,
                          config.threads * (config.iters + (passive ? 1 : 0)));
    printf("threads=%" PRIu64 " iters=%" PRIu64 " writes=%" PRIu64 " size=%" PRIu64 "\n", config.threads, config.iters,
           config.writes, config.size);
    printf("allocated=%" PRIu64 " freed=%" PRIu64 "\n", allocated, freed);
    workers_print_result(seconds, "seconds", seconds);
    return 0;
}
