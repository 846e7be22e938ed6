/*
 * false_sharing.c - see false_sharing.h. The start value of each byte depends on thread and position. The thread adds
 * one to every byte WRITES times and then compares, so a block held by two threads at the same time is noticed.
 *
 * Where the blocks lie differs from placement to placement: each has new threads, which first take a random number of
 * blocks that they keep, and which get the memory that the threads before them have left. A thread notes the cache
 * lines of its blocks; lines that two threads have noted are shared.
 */
#include "false_sharing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "block.h"
#include "machine.h"
#include "rng.h"
#include "worker.h"

enum {
    SIZE_DEFAULT = 8,
    SIZE_MAX_BYTES = 1 << 20,
    PLACEMENTS_MAX = 1000,
    KEPT_MAX = 31,         /* blocks that a thread keeps while it writes to others */
    LINE_LOG2 = 6,         /* cache lines of 64 bytes */
    LINES_NOTED_MAX = 1024 /* a power of two; further lines are not noted */
};

struct config {
    uint64_t threads, iters, size, most, writes, placements, seed;
    bool passive;
};

struct writer {
    struct worker worker;
    const struct config *config;
    unsigned char *inherited; /* passive: a block of the main thread, which the writer frees first */
    unsigned char *kept[KEPT_MAX];
    uint64_t random, kept_count, allocated, freed;
    uint64_t lines[LINES_NOTED_MAX]; /* numbers of cache lines; 0: free slot */
};

/* Over the placements. */
struct outcome {
    double *seconds; /* [placement] */
    uint64_t shared_placements, shared_lines, allocated, freed;
};

/* Looks for the line from its home slot on; returns the slot that has it or is free, or NULL when there is none. */
static uint64_t *line_slot(struct writer *writer, uint64_t line) {
    for (uint64_t step = 0; step < LINES_NOTED_MAX; step++) {
        uint64_t *slot = &writer->lines[(line + step) & (LINES_NOTED_MAX - 1)];
        if (*slot == line || *slot == 0) {
            return slot;
        }
    }
    return NULL;
}

static void lines_note(struct writer *writer, const unsigned char *block, uint64_t size) {
    uint64_t first = (uint64_t)(uintptr_t)block >> LINE_LOG2;
    uint64_t last = ((uint64_t)(uintptr_t)block + size - 1) >> LINE_LOG2;
    for (uint64_t line = first; line <= last; line++) {
        uint64_t *slot = line_slot(writer, line);
        if (slot != NULL) {
            *slot = line;
        }
    }
}

/* The number of lines that this writer and one before it have noted. */
static uint64_t lines_shared(struct writer *writers, uint32_t index) {
    uint64_t count = 0;
    for (uint64_t at = 0; at < LINES_NOTED_MAX; at++) {
        uint64_t line = writers[index].lines[at];
        bool is_shared = false;
        for (uint32_t other = 0; other < index && line != 0; other++) {
            uint64_t *slot = line_slot(&writers[other], line);
            is_shared = is_shared || (slot != NULL && *slot == line);
        }
        count += is_shared ? 1 : 0;
    }
    return count;
}

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

static uint64_t size_draw(struct writer *self) {
    const struct config *config = self->config;
    return config->size + rng_below(&self->random, (uint32_t)(config->most - config->size + 1));
}

/* Blocks that stay while the thread writes to others, so that those lie elsewhere in each placement. */
static void keep_some(struct writer *self) {
    self->kept_count = self->config->placements == 1 ? 0 : rng_below(&self->random, KEPT_MAX + 1);
    for (uint64_t k = 0; k < self->kept_count; k++) {
        self->kept[k] = block_marked(size_draw(self), self->worker.index);
    }
}

static void *writer_main(void *argument) {
    struct writer *self = argument;
    const struct config *config = self->config;
    uint32_t index = self->worker.index;
    keep_some(self);
    worker_start(&self->worker);
    if (config->passive) {
        verify(self->inherited, config->size, index, 0);
        free(self->inherited);
        self->freed++;
    }
    for (uint64_t i = 0; i < config->iters; i++) {
        uint64_t size = size_draw(self);
        unsigned char *block = block_marked(size, index);
        write_over_and_over(block, size, config->writes);
        verify(block, size, index, config->writes);
        lines_note(self, block, size);
        free(block);
    }
    worker_finish(&self->worker);
    for (uint64_t k = 0; k < self->kept_count; k++) {
        free(self->kept[k]);
    }
    self->allocated += config->iters + self->kept_count;
    self->freed += config->iters + self->kept_count;
    return NULL;
}

static void parse(struct config *config, int argc, char **argv, const char *summary) {
    config->size = SIZE_DEFAULT;
    config->placements = 1;
    config->seed = 1;
    const struct args_item items[] = {
        ARGS_ROW(ARGS_REQUIRED, "THREADS", &config->threads, 1, WORKER_COUNT_MAX, "threads"),
        ARGS_ROW(ARGS_REQUIRED, "ITERS", &config->iters, 1, UINT64_C(1) << 32, "blocks per thread, one at a time"),
        ARGS_ROW(ARGS_REQUIRED, "WRITES", &config->writes, 1, UINT64_C(1) << 32, "writes to each byte of a block"),
        ARGS_ROW(ARGS_OPTIONAL, "SIZE", &config->size, 1, SIZE_MAX_BYTES, "size in bytes"),
        ARGS_ROW(ARGS_NUMBER, "most", &config->most, 1, SIZE_MAX_BYTES, "largest size; default: SIZE"),
        ARGS_ROW(ARGS_NUMBER, "placements", &config->placements, 1, PLACEMENTS_MAX, "times with new threads"),
        ARGS_ROW(ARGS_NUMBER, "seed", &config->seed, 0, UINT64_MAX, "seed of sizes and placements"),
    };
    const struct args_spec spec = {summary, items, ARGS_COUNT(items), NULL};
    args_parse(&spec, argc, argv);
    config->most = config->most == 0 ? config->size : config->most;
    args_require_ordered(&spec, "SIZE", config->size, "most", config->most);
}

static void place(const struct config *config, struct writer *writers, uint64_t placement, struct outcome *outcome) {
    memset(writers, 0, config->threads * sizeof *writers);
    for (uint32_t i = 0; i < config->threads; i++) {
        writers[i].config = config;
        writers[i].random = rng_stream(config->seed, placement * config->threads + i);
        if (config->passive) {
            writers[i].inherited = block_marked(config->size, i);
            writers[i].allocated++;
        }
    }
    workers_run(writers, sizeof *writers, (unsigned)config->threads, writer_main);
    outcome->seconds[placement] = workers_seconds(writers, sizeof *writers, (unsigned)config->threads);
    uint64_t shared = 0;
    for (uint32_t i = 0; i < config->threads; i++) {
        shared += lines_shared(writers, i);
        outcome->allocated += writers[i].allocated - writers[i].kept_count;
        outcome->freed += writers[i].freed - writers[i].kept_count;
    }
    outcome->shared_lines += shared;
    outcome->shared_placements += shared > 0 ? 1 : 0;
}

static int by_value(const void *left, const void *right) {
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

int false_sharing_main(int argc, char **argv, bool passive, const char *summary) {
    machine_stdout_prepare();
    struct config config = {.passive = passive};
    parse(&config, argc, argv, summary);
    machine_cpus_read();
    struct writer *writers = machine_map(config.threads, sizeof *writers);
    struct outcome outcome = {.seconds = machine_map(config.placements, sizeof *outcome.seconds)};
    double seconds = 0;
    for (uint64_t p = 0; p < config.placements; p++) {
        place(&config, writers, p, &outcome);
        seconds += outcome.seconds[p];
    }
    machine_require_equal("freed = allocated", outcome.freed, outcome.allocated);
    machine_require_equal("allocated = placements x threads x iters (passive: + threads)", outcome.allocated,
                          config.placements * config.threads * (config.iters + (passive ? 1 : 0)));
    qsort(outcome.seconds, config.placements, sizeof *outcome.seconds, by_value);
    double fastest = outcome.seconds[0];
    double median = outcome.seconds[config.placements / 2];
    double slowest = outcome.seconds[config.placements - 1];
    printf("threads=%" PRIu64 " iters=%" PRIu64 " writes=%" PRIu64 " size=%" PRIu64 " most=%" PRIu64
           " placements=%" PRIu64 " seed=%" PRIu64 "\n",
           config.threads, config.iters, config.writes, config.size, config.most, config.placements, config.seed);
    printf("allocated=%" PRIu64 " freed=%" PRIu64 "\n", outcome.allocated, outcome.freed);
    printf("shared_placements=%" PRIu64 " shared_lines=%" PRIu64 "\n", outcome.shared_placements, outcome.shared_lines);
    printf("fastest_seconds=%.6f median_seconds=%.6f slowest_seconds=%.6f slowest_ratio=%.3f\n", fastest, median,
           slowest, slowest / fastest);
    workers_print_result(seconds, "seconds", seconds);
    return 0;
}
