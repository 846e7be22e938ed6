/*
 * requests - what belongs together goes together: each request allocates its blocks, and they all go at its end.
 *
 * Each thread handles REQUESTS requests one after the other. A request allocates BLOCKS blocks. --from says where they
 * come from: from malloc, or from a heap of the request's own, which is a zone of hakozuna (hz_zone_create) or a heap
 * of mimalloc (mi_heap_new), whichever the preloaded library has; `best` takes such a heap if there is one. --end says
 * how the blocks go: `all` destroys the heap (blocks of malloc are freed one by one), `each` frees them one by one in
 * any case. In ops_per_s each block counts as two operations, however it goes.
 *
 * With --end=all a program need not look at its blocks again, so only one in 64 is checked, or all with --check=full.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/args.h"
#include "common/block.h"
#include "common/draws.h"
#include "common/machine.h"
#include "common/worker.h"

enum { MIN_DEFAULT = 16, MAX_DEFAULT = 512, CHECKED_SHARE = 64, BLOCKS_MAX = 1 << 22 };
enum { FROM_BEST, FROM_MALLOC, FROM_HEAP };
enum { END_ALL, END_EACH };

static const char *const from_words[] = {"best", "malloc", "heap", NULL};
static const char *const end_words[] = {"all", "each", NULL};

struct config {
    uint64_t threads, requests, blocks, min, max, from, end, seed, check;
};

/* The heaps of the library that is preloaded. */
struct heap_kind {
    const char *name;
    void *(*create)(void);
    void *(*take)(void *heap, size_t size);
    void (*destroy)(void *heap);
};

struct handler {
    struct worker worker;
    const struct config *config;
    const struct heap_kind *kind; /* NULL: malloc */
    struct block_rules rules;
    struct draw_cursor cursor;
    block_ticket *tickets;
    uint32_t tags;
    uint64_t made, gone;
};

/* dlsym gives an object pointer. */
static int find(void *function, const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static int heap_find(struct heap_kind *kind, const char *name, const char *create, const char *take,
                     const char *destroy) {
    kind->name = name;
    return find(&kind->create, create) && find(&kind->take, take) && find(&kind->destroy, destroy);
}

/* NULL: there is none. */
static const struct heap_kind *heap_of_library(void) {
    static struct heap_kind kind;
    if (heap_find(&kind, "zone", "hz_zone_create", "hz_zone_malloc", "hz_zone_destroy") ||
        heap_find(&kind, "mi_heap", "mi_heap_new", "mi_heap_malloc", "mi_heap_destroy"))
        return &kind;
    return NULL;
}

static void blocks_take(struct handler *self, void *heap) {
    for (uint64_t i = 0; i < self->config->blocks; i++) {
        uint32_t size = draw_next(&self->cursor).size;
        unsigned char *block = heap != NULL ? self->kind->take(heap, size) : malloc(size);
        self->tickets[i] = block_sealed(&self->rules, block, size, &self->tags);
    }
    self->made += self->config->blocks;
}

static void blocks_free(struct handler *self) {
    for (uint64_t i = 0; i < self->config->blocks; i++)
        block_release(&self->rules, self->tickets[i]);
    self->gone += self->config->blocks;
}

static void heap_end(struct handler *self, void *heap) {
    uint64_t step = self->rules.full ? 1 : CHECKED_SHARE;
    for (uint64_t i = 0; i < self->config->blocks; i += step)
        (void)block_checked(&self->rules, self->tickets[i]);
    self->kind->destroy(heap);
    self->gone += self->config->blocks;
}

static void request_handle(struct handler *self) {
    void *heap = NULL;
    if (self->kind != NULL) {
        heap = self->kind->create();
        if (heap == NULL)
            machine_fail("no memory for a heap");
    }
    blocks_take(self, heap);
    if (heap != NULL && self->config->end == END_ALL) {
        heap_end(self, heap);
        return;
    }
    blocks_free(self);
    if (heap != NULL)
        self->kind->destroy(heap);
}

static void *handle(void *element) {
    struct handler *self = element;
    const struct config *config = self->config;
    struct size_mix mix = size_mix_uniform((uint32_t)config->min, (uint32_t)config->max);
    self->tickets = machine_map(config->blocks, sizeof *self->tickets);
    self->tags = block_first_tag(self->worker.index);
    draw_cursor_open(&self->cursor, config->seed, self->worker.index, 1, &mix, 0);
    worker_start(&self->worker);
    for (uint64_t i = 0; i < config->requests; i++)
        request_handle(self);
    worker_finish(&self->worker);
    return NULL;
}

static void parse(struct config *config, int argc, char **argv) {
    *config = (struct config){.min = MIN_DEFAULT, .max = MAX_DEFAULT, .seed = 1};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_REQUIRED, "THREADS", &config->threads, 1, WORKER_COUNT_MAX, "threads that handle requests"),
        ARGS_ROW(ARGS_REQUIRED, "REQUESTS", &config->requests, 1, UINT64_C(1) << 40, "requests of each thread"),
        ARGS_ROW(ARGS_REQUIRED, "BLOCKS", &config->blocks, 1, BLOCKS_MAX, "blocks of each request"),
        ARGS_ROW(ARGS_OPTIONAL, "MIN", &config->min, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "smallest size in bytes"),
        ARGS_ROW(ARGS_OPTIONAL, "MAX", &config->max, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "largest size in bytes"),
        ARGS_ROW_CHOICE("from", &config->from, from_words, "where the blocks come from"),
        ARGS_ROW_CHOICE("end", &config->end, end_words, "how the blocks go"),
        ARGS_ROW(ARGS_NUMBER, "seed", &config->seed, 0, UINT64_MAX, "seed of the sizes"),
        ARGS_ROW_CHOICE("check", &config->check, block_check_words, "how blocks are checked"),
    };
    const struct args_spec spec = {"Allocates the blocks of requests, and lets those of each request go together.",
                                   items, ARGS_COUNT(items), NULL};
    args_parse(&spec, argc, argv);
    args_require_ordered(&spec, "MIN", config->min, "MAX", config->max);
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct config config;
    parse(&config, argc, argv);
    const struct heap_kind *kind = config.from == FROM_MALLOC ? NULL : heap_of_library();
    if (kind == NULL && config.from == FROM_HEAP)
        machine_fail("--from=heap: the library has neither zones of hakozuna nor heaps of mimalloc");
    machine_cpus_read();
    struct handler *handlers = machine_map(config.threads, sizeof *handlers);
    for (uint64_t i = 0; i < config.threads; i++) {
        handlers[i].config = &config;
        handlers[i].kind = kind;
        handlers[i].rules = (struct block_rules){.size_min = (uint32_t)config.min,
                                                 .size_max = (uint32_t)config.max,
                                                 .full = config.check == BLOCK_CHECK_FULL};
    }
    workers_run(handlers, sizeof *handlers, (unsigned)config.threads, handle);

    uint64_t made = 0;
    uint64_t gone = 0;
    for (uint64_t i = 0; i < config.threads; i++) {
        made += handlers[i].made;
        gone += handlers[i].gone;
    }
    machine_require_equal("blocks made = blocks gone", made, gone);
    double seconds = workers_seconds(handlers, sizeof *handlers, (unsigned)config.threads);
    printf("threads=%" PRIu64 " requests=%" PRIu64 " blocks=%" PRIu64 " min=%" PRIu64 " max=%" PRIu64 " seed=%" PRIu64
           "\n",
           config.threads, config.requests, config.blocks, config.min, config.max, config.seed);
    printf("from=%s end=%s\n", kind != NULL ? kind->name : "malloc", end_words[config.end]);
    workers_print_result(seconds, "ops_per_s", (double)(made + gone) / seconds);
    return 0;
}
