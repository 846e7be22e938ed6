/*
 * resident - how much memory a program keeps after its work, for several shapes of program.
 *
 * The shapes (--shape), each with MIB of blocks:
 *   classes   one thread allocates MIB of each of 80 sizes, one size after the other, and frees each in random order
 *   shift     one thread keeps MIB live and replaces all blocks by blocks of the next size, 80 times; a few stay
 *   queues    THREADS pairs: a producer allocates 16 B to 32 KiB, a consumer frees; MIB are in the queues at most
 *   relay     THREADS threads allocate MIB of one size, the next thread frees them in random order; then the next size
 *   sleepers  THREADS threads use MIB of all sizes in turn, free them, and sleep
 *   stranger  one thread allocates MIB of 64 B, another thread frees them in random order; both sleep
 *   ended     THREADS threads use MIB of all sizes in turn, free them, and end; main goes on with a little work
 *
 * Printed in KiB: table_kb (the workload's own tables, which count as RSS), live_kb and live_pages_kb (what the program
 * holds at the end, and the system pages that hold it), end_rss_kb (when the work ends), after1_rss_kb and
 * after5_rss_kb (after 1 s and after --idle seconds of sleep, 5 by default), trimmed_rss_kb (after malloc_trim(0)).
 * hakobench samples the RSS over time from outside.
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

enum shape { CLASSES, SHIFT, QUEUES, RELAY, SLEEPERS, STRANGER, ENDED };

static const char *const shape_words[] = {"classes", "shift", "queues", "relay", "sleepers", "stranger", "ended", NULL};

enum {
    LINEAR_SIZES = 16, /* 16, 32, ... 256 */
    SIZES = LINEAR_SIZES + 8 * 8,
    QUEUE_SLOTS = 4096,
    QUEUE_BYTES_MAX = 32768,
    STRANGER_BYTES = 64,
    THREADS_DEFAULT = 4,
    STAY_SHARE = 200, /* shift: one block in this many stays for ever */
    ENDED_ROUNDS = 20000,
};

struct config {
    uint64_t shape, mib, threads, rounds, idle, seed;
};

static const struct block_rules rules = {16, 65536, false};

/* 16-byte steps to 256, then eight a doubling to 64 KiB. */
static uint32_t size_at(unsigned index) {
    if (index < LINEAR_SIZES)
        return 16 * (index + 1);
    unsigned step = index - LINEAR_SIZES;
    return (256U << step / 8) + (step % 8 + 1) * (32U << step / 8);
}

static uint64_t table_bytes; /* main only */

static void *table_map(size_t count, size_t bytes_each) {
    table_bytes += count * bytes_each;
    return machine_map(count, bytes_each);
}

static void shuffle(block_ticket *blocks, uint64_t count, uint64_t *random) {
    for (uint64_t i = count; i > 1; i--) {
        uint32_t other = rng_below(random, (uint32_t)i);
        block_ticket swap = blocks[i - 1];
        blocks[i - 1] = blocks[other];
        blocks[other] = swap;
    }
}

static void fill(block_ticket *blocks, uint64_t count, uint32_t size, uint32_t *tags) {
    for (uint64_t i = 0; i < count; i++)
        blocks[i] = block_touched(block_new(&rules, size, tags));
}

static void release_all(const block_ticket *blocks, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        block_release(&rules, blocks[i]);
}

static uint64_t count_of(uint64_t mib, uint32_t size) {
    uint64_t count = (mib << 20) / size;
    return count > 0 ? count : 1;
}

/* ---- one thread ------------------------------------------------------------------------------------ */

/* Allocates and frees `bytes` of each size in turn. */
static uint64_t use_all_sizes(block_ticket *blocks, uint64_t bytes, uint64_t *random, uint32_t *tags) {
    uint64_t made = 0;
    for (unsigned s = 0; s < SIZES; s++) {
        uint64_t count = bytes / size_at(s) > 0 ? bytes / size_at(s) : 1;
        fill(blocks, count, size_at(s), tags);
        shuffle(blocks, count, random);
        release_all(blocks, count);
        made += count;
    }
    return made;
}

static uint64_t classes_run(const struct config *config) {
    block_ticket *blocks = table_map(count_of(config->mib, 16), sizeof *blocks);
    uint64_t random = rng_stream(config->seed, 0);
    uint32_t tags = block_first_tag(0);
    return use_all_sizes(blocks, config->mib << 20, &random, &tags);
}

struct shift {
    block_ticket *tables[2], *stayed;
    uint64_t count, stayed_count, live; /* blocks of the last size; blocks that stay; bytes of both */
};

/* Replaces the old blocks by new ones of `size`, keeping the number of live bytes. */
static void shift_once(struct shift *shift, unsigned turn, uint32_t old_size, uint32_t size, uint64_t mib,
                       uint64_t *random, uint32_t *tags) {
    block_ticket *old = shift->tables[turn % 2];
    block_ticket *made = shift->tables[(turn + 1) % 2];
    uint64_t count = count_of(mib, size);
    uint64_t done = 0;
    shuffle(old, shift->count, random);
    for (uint64_t i = 0; i < count; i++) {
        made[i] = block_touched(block_new(&rules, size, tags));
        for (; done < shift->count && done * old_size <= i * size; done++) {
            if (done % STAY_SHARE == 0) {
                shift->stayed[shift->stayed_count++] = old[done];
                shift->live += old_size;
            } else {
                block_release(&rules, old[done]);
            }
        }
    }
    for (; done < shift->count; done++)
        block_release(&rules, old[done]);
    shift->count = count;
}

static uint64_t stayed_max(uint64_t mib) {
    uint64_t count = 0;
    for (unsigned s = 0; s < SIZES; s++)
        count += count_of(mib, size_at(s)) / STAY_SHARE + 1;
    return count;
}

static uint64_t shift_run(const struct config *config, struct shift *shift) {
    *shift = (struct shift){.stayed = table_map(stayed_max(config->mib), sizeof *shift->stayed)};
    for (int i = 0; i < 2; i++)
        shift->tables[i] = table_map(count_of(config->mib, 16), sizeof *shift->tables[i]);
    uint64_t random = rng_stream(config->seed, 0);
    uint32_t tags = block_first_tag(0);
    uint64_t made = 0;
    for (unsigned s = 0; s < SIZES; s++) {
        shift_once(shift, s, s > 0 ? size_at(s - 1) : 0, size_at(s), config->mib, &random, &tags);
        made += shift->count;
    }
    shift->live += shift->count * size_at(SIZES - 1);
    return made;
}

static uint64_t shift_pages_kb(const struct shift *shift) {
    struct live_pages set;
    live_pages_open(&set);
    for (uint64_t i = 0; i < shift->count; i++)
        live_pages_add(&set, shift->tables[SIZES % 2][i]);
    for (uint64_t i = 0; i < shift->stayed_count; i++)
        live_pages_add(&set, shift->stayed[i]);
    return live_pages_close_kb(&set);
}

static void shift_end(const struct shift *shift) {
    release_all(shift->tables[SIZES % 2], shift->count); /* where the last turn put its blocks */
    release_all(shift->stayed, shift->stayed_count);
}

/* ---- threads ----------------------------------------------------------------------------------------- */

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t head, tail, bytes, bytes_max; /* lock */
    struct {
        block_ticket block;
        uint32_t size;
    } slots[QUEUE_SLOTS]; /* lock */
};

struct member {
    struct worker worker;
    const struct config *config;
    struct member *first;        /* the array of all members */
    unsigned count;              /* members */
    pthread_barrier_t *turn;     /* all members */
    pthread_barrier_t *measured; /* all members and main: before and after main measures */
    struct queue *queue;
    block_ticket *blocks; /* owner: the member that fills it, after a turn the one that frees it */
    uint64_t made;        /* owner; read after the thread was joined */
};

static void queue_put(struct queue *queue, block_ticket block, uint32_t size) {
    pthread_mutex_lock(&queue->lock);
    while (queue->head - queue->tail == QUEUE_SLOTS || (queue->bytes > 0 && queue->bytes + size > queue->bytes_max))
        pthread_cond_wait(&queue->changed, &queue->lock);
    queue->slots[queue->head % QUEUE_SLOTS].block = block;
    queue->slots[queue->head++ % QUEUE_SLOTS].size = size;
    queue->bytes += size;
    pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static block_ticket queue_get(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (queue->head == queue->tail)
        pthread_cond_wait(&queue->changed, &queue->lock);
    block_ticket block = queue->slots[queue->tail % QUEUE_SLOTS].block;
    queue->bytes -= queue->slots[queue->tail++ % QUEUE_SLOTS].size;
    pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return block;
}

static void queues_body(struct member *self, uint64_t *random, uint32_t *tags) {
    const struct config *config = self->config;
    bool produces = self->worker.index < config->threads;
    for (uint64_t i = 0; i < config->rounds; i++) {
        if (produces) {
            uint32_t size = 16 + rng_below(random, QUEUE_BYTES_MAX - 15);
            queue_put(self->queue, block_touched(block_new(&rules, size, tags)), size);
        } else {
            block_release(&rules, queue_get(self->queue));
        }
    }
    self->made = produces ? config->rounds : 0;
}

static void relay_body(struct member *self, uint64_t *random, uint32_t *tags) {
    uint64_t bytes = (self->config->mib << 20) / self->count;
    struct member *before = &self->first[(self->worker.index + self->count - 1) % self->count];
    for (unsigned s = 0; s < SIZES; s++) {
        uint64_t count = bytes / size_at(s) > 0 ? bytes / size_at(s) : 1;
        fill(self->blocks, count, size_at(s), tags);
        self->made += count;
        pthread_barrier_wait(self->turn);
        shuffle(before->blocks, count, random);
        release_all(before->blocks, count);
        pthread_barrier_wait(self->turn);
    }
}

static void stranger_body(struct member *self, uint64_t *random, uint32_t *tags) {
    uint64_t count = count_of(self->config->mib, STRANGER_BYTES);
    if (self->worker.index == 0) {
        fill(self->blocks, count, STRANGER_BYTES, tags);
        self->made = count;
    }
    pthread_barrier_wait(self->turn);
    if (self->worker.index == 1) {
        shuffle(self->first->blocks, count, random);
        release_all(self->first->blocks, count);
    }
}

static void *member_main(void *argument) {
    struct member *self = argument;
    const struct config *config = self->config;
    uint64_t random = rng_stream(config->seed, self->worker.index);
    uint32_t tags = block_first_tag(self->worker.index);
    worker_start(&self->worker);
    switch ((enum shape)config->shape) {
    case QUEUES:
        queues_body(self, &random, &tags);
        break;
    case RELAY:
        relay_body(self, &random, &tags);
        break;
    case STRANGER:
        stranger_body(self, &random, &tags);
        break;
    default:
        self->made = use_all_sizes(self->blocks, (config->mib << 20) / self->count, &random, &tags);
    }
    worker_finish(&self->worker);
    if (config->shape != ENDED) {
        pthread_barrier_wait(self->measured);
        pthread_barrier_wait(self->measured); /* asleep until main has measured */
    }
    return NULL;
}

/* ---- measuring ------------------------------------------------------------------------------------------ */

static void measure(const struct config *config, const struct shift *shift) {
    idle_measure(config->idle);
    printf("table_kb=%" PRIu64 "\n", table_bytes >> 10);
    printf("live_kb=%" PRIu64 "\n", shift != NULL ? shift->live >> 10 : 0);
    printf("live_pages_kb=%" PRIu64 "\n", shift != NULL ? shift_pages_kb(shift) : 0);
}

static void *measuring_main(void *argument) {
    struct member *first = argument;
    pthread_barrier_wait(first->measured);
    measure(first->config, NULL);
    pthread_barrier_wait(first->measured);
    return NULL;
}

static void little_work(uint64_t seed) {
    uint64_t random = rng_stream(seed, 0);
    uint32_t tags = block_first_tag(0);
    for (unsigned i = 0; i < ENDED_ROUNDS; i++)
        block_release(&rules, block_new(&rules, 16 + rng_below(&random, 500), &tags));
}

static unsigned members_of(const struct config *config) {
    if (config->shape == STRANGER)
        return 2;
    return (unsigned)(config->shape == QUEUES ? 2 * config->threads : config->threads);
}

static double threads_run(const struct config *config, uint64_t *made) {
    unsigned count = members_of(config);
    struct member *members = table_map(count, sizeof *members);
    pthread_barrier_t *barriers = table_map(2, sizeof *barriers);
    pthread_barrier_init(&barriers[0], NULL, count);
    pthread_barrier_init(&barriers[1], NULL, count + 1);
    struct queue *queues = config->shape == QUEUES ? table_map(config->threads, sizeof *queues) : NULL;
    for (unsigned i = 0; i < count; i++) {
        uint64_t blocks = config->shape == QUEUES     ? 1
                          : config->shape == STRANGER ? count_of(config->mib, STRANGER_BYTES)
                                                      : (config->mib << 20) / count / 16 + 1;
        members[i] = (struct member){.config = config, .first = members, .count = count, .turn = &barriers[0]};
        members[i].measured = &barriers[1];
        members[i].queue = queues != NULL ? &queues[i % config->threads] : NULL;
        members[i].blocks = config->shape == STRANGER && i > 0 ? NULL : table_map(blocks, sizeof *members[i].blocks);
    }
    for (unsigned i = 0; queues != NULL && i < config->threads; i++) {
        pthread_mutex_init(&queues[i].lock, NULL);
        pthread_cond_init(&queues[i].changed, NULL);
        queues[i].bytes_max = (config->mib << 20) / config->threads;
    }
    pthread_t measuring = 0;
    if (config->shape != ENDED)
        measuring = worker_thread_start(measuring_main, members);
    workers_run(members, sizeof *members, count, member_main);
    if (config->shape != ENDED) {
        pthread_join(measuring, NULL);
    } else {
        little_work(config->seed);
        measure(config, NULL);
    }
    *made = 0;
    for (unsigned i = 0; i < count; i++)
        *made += members[i].made;
    return workers_seconds(members, sizeof *members, count);
}

static void parse(struct config *config, int argc, char **argv) {
    *config = (struct config){.threads = THREADS_DEFAULT, .rounds = 100000, .idle = 5, .seed = 1};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_REQUIRED, "MIB", &config->mib, 1, 1 << 20, "MiB of blocks"),
        ARGS_ROW(ARGS_OPTIONAL, "THREADS", &config->threads, 1, WORKER_COUNT_MAX / 2, "threads, or pairs of threads"),
        ARGS_ROW(ARGS_NUMBER, "rounds", &config->rounds, 1, UINT32_MAX, "blocks of each producer, shape queues"),
        ARGS_ROW(ARGS_NUMBER, "idle", &config->idle, 0, 86400, "seconds of sleep at the end"),
        ARGS_ROW(ARGS_NUMBER, "seed", &config->seed, 0, UINT64_MAX, "start of the random numbers"),
        ARGS_ROW_CHOICE("shape", &config->shape, shape_words, "shape of the program"),
    };
    const struct args_spec spec = {"Measures the memory that a program keeps after its work.", items, ARGS_COUNT(items),
                                   NULL};
    args_parse(&spec, argc, argv);
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct config config;
    parse(&config, argc, argv);
    machine_cpus_read();
    printf("shape=%s mib=%" PRIu64 " threads=%" PRIu64 " rounds=%" PRIu64 " idle=%" PRIu64 " seed=%" PRIu64 "\n",
           shape_words[config.shape], config.mib, config.threads, config.rounds, config.idle, config.seed);
    uint64_t made = 0;
    double seconds;
    if (config.shape == CLASSES || config.shape == SHIFT) {
        struct shift shift = {.count = 0};
        uint64_t start = machine_now_ns();
        made = config.shape == CLASSES ? classes_run(&config) : shift_run(&config, &shift);
        seconds = (double)(machine_now_ns() - start) / 1e9;
        measure(&config, &shift);
        shift_end(&shift);
    } else {
        seconds = threads_run(&config, &made);
    }
    printf("allocated=%" PRIu64 "\n", made);
    workers_print_result(seconds, "ops_per_s", (double)(2 * made) / seconds);
    return 0;
}
