/*
 * workload_bench_system - what a key-value server asks of malloc, without the server.
 *
 * THREADS threads share one store: KEYS keys with a value each, and LISTS lists of up to LIST_BLOCKS elements. In each
 * of CYCLES cycles a thread makes OPS operations of one pattern. The patterns run one after another, each with threads
 * of its own:
 *   set     allocates a value, exchanges it for the key's old value, and frees that
 *   get     allocates a copy of the key's value, as a reply, and frees the copy
 *   lpush   allocates an element and puts it in front of a list; a full list first loses its oldest element
 *   lpop    takes the newest element of a list and frees it
 *   random  each operation is one of these four
 * Threads meet only in the store, so with several threads most frees are of blocks that another thread allocated; with
 * one thread none is. Only pattern set has a block to free from the start: the store is filled before the first clock.
 *
 * Name and argument order are those of document 000. It gives no source, so the patterns' details are ours.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/args.h"
#include "common/block.h"
#include "common/draws.h"
#include "common/machine.h"
#include "common/worker.h"

enum { KEYS_DEFAULT = 4096, LISTS = 256, LIST_BLOCKS = 64 };
enum pattern { SET, GET, LPUSH, LPOP, RANDOM, PATTERNS, ALL = PATTERNS };
static const char *const pattern_words[] = {"set", "get", "lpush", "lpop", "random", "all", NULL};

struct config {
    uint64_t threads, cycles, ops, size_min, size_max;
    uint64_t keys, pattern, seed, check;
};

struct list {
    _Alignas(MACHINE_LINE_BYTES) pthread_mutex_t lock;
    uint32_t first, count; /* lock; the oldest element, and how many there are */
    block_ticket elements[LIST_BLOCKS];
};

struct store {
    const struct config *config;
    struct block_rules rules;
    _Atomic(block_ticket) *values; /* exchanged whole: the thread that gets a ticket owns its block */
    struct list *lists;
};

struct counts {
    uint64_t allocated, freed, misses;
};

struct client {
    struct worker worker;
    struct store *store;
    enum pattern pattern;
    struct counts counts; /* owner; read after the thread was joined */
};

/* What a client needs within its loop; local, because counters in shared memory would be measured too. */
struct state {
    struct store *store;
    struct counts counts;
    uint32_t tags;
};

static block_ticket allocate(struct state *state, uint32_t size) {
    state->counts.allocated++;
    return block_new(&state->store->rules, size, &state->tags);
}

static void release(struct state *state, block_ticket block) {
    if (block != 0) {
        state->counts.freed++;
        block_release(&state->store->rules, block);
    }
}

/* acq_rel: the next owner reads what this one wrote into the block */
static block_ticket value_exchange(struct store *store, uint32_t key, block_ticket value) {
    return atomic_exchange_explicit(&store->values[key], value, memory_order_acq_rel);
}

static void set(struct state *state, struct draw draw) {
    release(state, value_exchange(state->store, draw.slot, allocate(state, draw.size)));
}

/* Takes the value out of the store while it is copied, so nobody frees it meanwhile. */
static void get(struct state *state, struct draw draw) {
    block_ticket value = value_exchange(state->store, draw.slot, 0);
    if (value == 0) {
        state->counts.misses++;
        return;
    }
    const unsigned char *bytes = block_checked(&state->store->rules, value);
    uint32_t size = (uint32_t)block_bytes(value);
    unsigned char *reply = malloc(size);
    if (reply == NULL) {
        machine_fail("malloc(%" PRIu32 ") returned NULL", size);
    }
    memcpy(reply, bytes, size);
    state->counts.allocated++;
    if (memcmp(reply, bytes, size) != 0) {
        machine_fail("content check failed: block %p differs from what was copied to it", (void *)reply);
    }
    free(reply);
    state->counts.freed++;
    release(state, value_exchange(state->store, draw.slot, value)); /* another thread may have set the key */
}

static void lpush(struct state *state, struct draw draw) {
    struct list *list = &state->store->lists[draw.slot % LISTS];
    block_ticket element = allocate(state, draw.size);
    block_ticket oldest = 0;
    pthread_mutex_lock(&list->lock);
    if (list->count == LIST_BLOCKS) {
        oldest = list->elements[list->first];
        list->first = (list->first + 1) % LIST_BLOCKS;
        list->count--;
    }
    list->elements[(list->first + list->count) % LIST_BLOCKS] = element;
    list->count++;
    pthread_mutex_unlock(&list->lock);
    release(state, oldest);
}

static void lpop(struct state *state, struct draw draw) {
    struct list *list = &state->store->lists[draw.slot % LISTS];
    block_ticket newest = 0;
    pthread_mutex_lock(&list->lock);
    if (list->count > 0) {
        list->count--;
        newest = list->elements[(list->first + list->count) % LIST_BLOCKS];
    }
    pthread_mutex_unlock(&list->lock);
    state->counts.misses += newest == 0;
    release(state, newest);
}

static void operate(struct state *state, enum pattern pattern, struct draw draw) {
    static void (*const operations[])(struct state *, struct draw) = {set, get, lpush, lpop};
    operations[pattern](state, draw);
}

static void *client_main(void *argument) {
    struct client *self = argument;
    const struct config *config = self->store->config;
    struct size_mix mix = size_mix_uniform(self->store->rules.size_min, self->store->rules.size_max);
    struct draw_cursor draws;
    uint64_t stream = self->worker.index + config->threads * (uint64_t)self->pattern;
    draw_cursor_open(&draws, config->seed, stream, (uint32_t)config->keys, &mix, 0);
    uint64_t rng = rng_stream(~config->seed, stream);
    struct state state = {.store = self->store, .tags = block_first_tag((uint32_t)stream)};

    worker_start(&self->worker);
    for (uint64_t i = 0; i < config->cycles * config->ops; i++) {
        enum pattern pattern = self->pattern == RANDOM ? (enum pattern)rng_below(&rng, RANDOM) : self->pattern;
        operate(&state, pattern, draw_next(&draws));
    }
    worker_finish(&self->worker);
    self->counts = state.counts;
    return NULL;
}

static void store_open(struct store *store, const struct config *config, struct counts *sum) {
    *store = (struct store){
        config,
        {(uint32_t)config->size_min, (uint32_t)config->size_max, config->check == BLOCK_CHECK_FULL},
        machine_map(config->keys, sizeof(block_ticket)),
        machine_map(LISTS, sizeof(struct list)),
    };
    struct state state = {.store = store, .tags = block_first_tag(WORKER_COUNT_MAX)};
    struct size_mix mix = size_mix_uniform(store->rules.size_min, store->rules.size_max);
    uint64_t rng = rng_stream(config->seed, UINT64_MAX);
    for (uint32_t key = 0; key < config->keys; key++) {
        value_exchange(store, key, allocate(&state, size_mix_draw(&mix, &rng)));
    }
    for (int at = 0; at < LISTS; at++) {
        pthread_mutex_init(&store->lists[at].lock, NULL);
    }
    sum->allocated += state.counts.allocated;
}

/* Frees everything; returns the number of blocks. */
static uint64_t store_close(struct store *store) {
    struct state state = {.store = store};
    for (uint32_t key = 0; key < store->config->keys; key++) {
        release(&state, value_exchange(store, key, 0));
    }
    for (uint32_t at = 0; at < LISTS; at++) {
        while (store->lists[at].count > 0) {
            lpop(&state, (struct draw){.slot = at});
        }
    }
    return state.counts.freed;
}

/* Runs one pattern, prints its line, and returns its seconds. */
static double run_pattern(struct store *store, enum pattern pattern, struct counts *sum) {
    const struct config *config = store->config;
    struct client *clients = machine_map(config->threads, sizeof *clients);
    for (uint64_t i = 0; i < config->threads; i++) {
        clients[i].store = store;
        clients[i].pattern = pattern;
    }
    workers_run(clients, sizeof *clients, (unsigned)config->threads, client_main);
    double seconds = workers_seconds(clients, sizeof *clients, (unsigned)config->threads);
    struct counts counts = {0};
    for (uint64_t i = 0; i < config->threads; i++) {
        counts.allocated += clients[i].counts.allocated;
        counts.freed += clients[i].counts.freed;
        counts.misses += clients[i].counts.misses;
    }
    machine_unmap(clients, config->threads, sizeof *clients);
    sum->allocated += counts.allocated;
    sum->freed += counts.freed;
    sum->misses += counts.misses;
    printf("%s_ops_per_s=%.0f %s_misses=%" PRIu64 "\n", pattern_words[pattern],
           (double)(config->threads * config->cycles * config->ops) / seconds, pattern_words[pattern], counts.misses);
    return seconds;
}

static void parse(struct config *config, int argc, char **argv) {
    *config = (struct config){.keys = KEYS_DEFAULT, .pattern = ALL, .seed = 1};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_REQUIRED, "THREADS", &config->threads, 1, WORKER_COUNT_MAX, "threads"),
        ARGS_ROW(ARGS_REQUIRED, "CYCLES", &config->cycles, 1, 1 << 24, "cycles of each thread and pattern"),
        ARGS_ROW(ARGS_REQUIRED, "OPS", &config->ops, 1, 1 << 24, "operations in a cycle"),
        ARGS_ROW(ARGS_REQUIRED, "MIN", &config->size_min, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "smallest value in bytes"),
        ARGS_ROW(ARGS_REQUIRED, "MAX", &config->size_max, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "largest value in bytes"),
        ARGS_ROW(ARGS_NUMBER, "keys", &config->keys, 1, 1 << 24, "keys, all set at the start"),
        ARGS_ROW_CHOICE("pattern", &config->pattern, pattern_words, "the pattern to run, or all of them"),
        ARGS_ROW(ARGS_NUMBER, "seed", &config->seed, 0, UINT64_MAX, "random seed"),
        ARGS_ROW_CHOICE("check", &config->check, block_check_words, "bytes verified at each free"),
    };
    const struct args_spec spec = {"Patterns of a key-value server on a store that threads share.", items,
                                   ARGS_COUNT(items), NULL};
    args_parse(&spec, argc, argv);
    args_require_ordered(&spec, "MIN", config->size_min, "MAX", config->size_max);
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct config config;
    parse(&config, argc, argv);
    machine_cpus_read();
    struct counts sum = {0};
    struct store store;
    store_open(&store, &config, &sum);
    double seconds = 0;
    uint64_t patterns = 0;
    for (enum pattern pattern = SET; pattern < PATTERNS; pattern++) {
        if (config.pattern == ALL || config.pattern == (uint64_t)pattern) {
            seconds += run_pattern(&store, pattern, &sum);
            patterns++;
        }
    }
    uint64_t remaining = store_close(&store);
    machine_require_equal("allocated = freed + remaining_freed", sum.allocated, sum.freed + remaining);
    printf("threads=%" PRIu64 " cycles=%" PRIu64 " ops=%" PRIu64 " min=%" PRIu64 " max=%" PRIu64 " keys=%" PRIu64
           " pattern=%s seed=%" PRIu64 " check=%s\n",
           config.threads, config.cycles, config.ops, config.size_min, config.size_max, config.keys,
           pattern_words[config.pattern], config.seed, block_check_words[config.check]);
    printf("allocated=%" PRIu64 " freed=%" PRIu64 " remaining_freed=%" PRIu64 " misses=%" PRIu64 "\n", sum.allocated,
           sum.freed, remaining, sum.misses);
    uint64_t operations = patterns * config.threads * config.cycles * config.ops;
    workers_print_result(seconds, "ops_per_s", (double)operations / seconds);
    return 0;
}
