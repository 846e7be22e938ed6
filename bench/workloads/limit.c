/*
 * limit - how much a program can obtain under a limit of its address space.
 *
 * Allocates blocks of MIN to MAX bytes until malloc returns NULL (obtained_kb), then blocks of half the size, and so on
 * down to MIN, to fill what is left (filled_kb). Then it frees everything and allocates again until NULL (again_kb): an
 * allocator that has once been refused memory must still serve its own. Every block is written and checked.
 *
 * --when=start: the program limits itself and starts itself again, so the limit also holds for the loading of the
 * allocator, as after `ulimit -v`. --when=late: the limit comes after the first malloc, by setrlimit(RLIMIT_AS).
 * Address space that an allocator has reserved by then is no longer limited; the program stops at twice the limit.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/args.h"
#include "common/block.h"
#include "common/machine.h"
#include "common/rng.h"
#include "common/worker.h"

enum { LIMIT_DEFAULT_KB = 65536, LIMIT_MIN_KB = 8192, LIMIT_MAX_KB = 1 << 24 };
enum { MIN_DEFAULT = 1024, MAX_DEFAULT = 65536, SIZE_MAX_BYTES = 1 << 20, WHEN_START = 0, WHEN_LATE = 1 };
static const char *const when_words[] = {"start", "late", NULL};

struct config {
    uint64_t limit_kb, min, max, seed, when;
};

struct store {
    struct block_rules rules;
    block_ticket *blocks;
    uint64_t capacity, count, bytes, bytes_max;
    uint32_t tags;
    uint64_t allocated;
};

/* False when malloc has returned NULL, or the store is full. */
static bool obtain(struct store *store, uint32_t size) {
    if (store->count == store->capacity || store->bytes + size > store->bytes_max) {
        return false;
    }
    errno = 0;
    unsigned char *block = malloc(size);
    if (block == NULL) {
        if (errno != ENOMEM) {
            machine_fail("malloc(%" PRIu32 ") returned NULL with errno %d, not ENOMEM", size, errno);
        }
        return false;
    }
    store->blocks[store->count++] = block_sealed(&store->rules, block, size, &store->tags);
    store->bytes += size;
    store->allocated++;
    return true;
}

/* The same sizes each time. */
static void obtain_all(struct store *store, const struct config *config) {
    uint64_t random = rng_stream(config->seed, 0);
    while (obtain(store, (uint32_t)config->min + rng_below(&random, (uint32_t)(config->max - config->min + 1)))) {
    }
}

static void fill_up(struct store *store, const struct config *config) {
    for (uint64_t size = config->max / 2; size >= config->min; size /= 2) {
        while (obtain(store, (uint32_t)size)) {
        }
    }
}

static void release_all(struct store *store) {
    for (uint64_t i = 0; i < store->count; i++) {
        block_release(&store->rules, store->blocks[i]);
    }
    store->count = store->bytes = 0;
}

static void limit_set(uint64_t limit_kb) {
    const struct rlimit limit = {limit_kb << 10, limit_kb << 10};
    if (setrlimit(RLIMIT_AS, &limit) != 0) {
        machine_fail("setrlimit(RLIMIT_AS, %" PRIu64 " KiB): %s", limit_kb, strerror(errno));
    }
}

/* Returns in the program that the limit has held for since its start. */
static void limit_from_start(uint64_t limit_kb, char **argv) {
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    if (limit.rlim_cur == limit_kb << 10) {
        return;
    }
    limit_set(limit_kb);
    execv("/proc/self/exe", argv);
    machine_fail("cannot start again under the limit: %s", strerror(errno));
}

static void parse(struct config *config, int argc, char **argv) {
    *config = (struct config){.limit_kb = LIMIT_DEFAULT_KB, .min = MIN_DEFAULT, .max = MAX_DEFAULT, .seed = 1};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_OPTIONAL, "LIMIT_KIB", &config->limit_kb, LIMIT_MIN_KB, LIMIT_MAX_KB, "KiB of address space"),
        ARGS_ROW(ARGS_OPTIONAL, "MIN", &config->min, 64, SIZE_MAX_BYTES, "smallest size in bytes"),
        ARGS_ROW(ARGS_OPTIONAL, "MAX", &config->max, 64, SIZE_MAX_BYTES, "largest size in bytes"),
        ARGS_ROW(ARGS_NUMBER, "seed", &config->seed, 0, UINT64_MAX, "start of the random numbers"),
        ARGS_ROW_CHOICE("when", &config->when, when_words, "time of the limit"),
    };
    const struct args_spec spec = {"Obtains as much as it can under a limit of the address space.", items,
                                   ARGS_COUNT(items), NULL};
    args_parse(&spec, argc, argv);
    args_require_ordered(&spec, "MIN", config->min, "MAX", config->max);
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct config config;
    parse(&config, argc, argv);
    if (config.when == WHEN_START) {
        limit_from_start(config.limit_kb, argv);
    }
    machine_cpus_read();
    machine_pin(0);
    struct store store = {.rules = {64, SIZE_MAX_BYTES, false}, .tags = block_first_tag(0)};
    store.bytes_max = 2 * (config.limit_kb << 10);
    /* as many blocks as fit below the limit; the table counts in it too */
    store.capacity = (config.limit_kb << 10) / config.min;
    store.blocks = machine_map(store.capacity, sizeof *store.blocks);
    if (config.when == WHEN_LATE) {
        obtain(&store, (uint32_t)config.min);
        limit_set(config.limit_kb);
    }
    printf("limit_kb=%" PRIu64 " min=%" PRIu64 " max=%" PRIu64 " seed=%" PRIu64 " when=%s\n", config.limit_kb,
           config.min, config.max, config.seed, when_words[config.when]);
    uint64_t start = machine_now_ns();
    obtain_all(&store, &config);
    uint64_t obtained = store.bytes;
    fill_up(&store, &config);
    uint64_t filled = store.bytes;
    release_all(&store);
    obtain_all(&store, &config);
    uint64_t again = store.bytes;
    release_all(&store);
    double seconds = (double)(machine_now_ns() - start) / 1e9;
    printf("allocated=%" PRIu64 "\n", store.allocated);
    printf("filled_kb=%" PRIu64 "\n", filled >> 10);
    printf("again_kb=%" PRIu64 "\n", again >> 10);
    workers_print_result(seconds, "obtained_kb", (double)(obtained >> 10));
    return 0;
}
