/*
 * latency - how long single calls of malloc and free take under traffic between threads.
 *
 * THREADS threads stand in a ring. Each has SLOTS slots, all of them filled. In each of ITERS steps a thread frees the
 * blocks that its predecessor has handed on, picks a random slot, hands the slot's block on to its successor (in
 * REMOTE_PCT percent of the steps) or frees it, and fills the slot again. Every malloc and every free is timed; writing
 * and checking the block is not. When the ring to the successor is full the thread empties its own and tries again.
 *
 * Printed for malloc and for free: p50, p99, p99.99 and the maximum in ns. The time contains one reading of the clock,
 * which is printed as timer_ns (the median), and whatever else the machine does meanwhile: with more threads than cpus
 * the scheduler's pauses are the longest times. Counts are kept in buckets that are 3 % wide.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

#include "common/args.h"
#include "common/block.h"
#include "common/draws.h"
#include "common/machine.h"
#include "common/ring.h"
#include "common/worker.h"

enum { RING_SLOTS = 4096, TIMER_READINGS = 20000 };
enum { BUCKETS_LOG2 = 5, BUCKETS = 1 << BUCKETS_LOG2, BUCKET_COUNT = (64 - BUCKETS_LOG2 + 1) * BUCKETS };

struct config {
    uint64_t threads, iters, slot_count, min, max, remote_percent, seed, check;
};

/* Times in ns. A bucket is 1/32 of a power of two. */
struct times {
    uint64_t counts[BUCKET_COUNT];
    uint64_t count, longest;
};

struct member {
    struct worker worker;
    const struct config *config;
    struct ring *in, *out;
    struct times *mallocs, *frees;             /* owner; read after the thread was joined */
    uint64_t allocated, freed, sent, received; /* owner; read after the thread was joined */
};

/* ---- counts ------------------------------------------------------------------------------------------------ */

static unsigned bucket_of(uint64_t ns) {
    if (ns < BUCKETS) {
        return (unsigned)ns;
    }
    unsigned shift = 63 - (unsigned)__builtin_clzll(ns) - BUCKETS_LOG2;
    return (shift + 1) * BUCKETS + (unsigned)(ns >> shift) - BUCKETS;
}

/* The middle of a bucket. */
static double ns_of(unsigned bucket) {
    if (bucket < BUCKETS) {
        return bucket;
    }
    unsigned shift = bucket / BUCKETS - 1;
    return ((double)(BUCKETS + bucket % BUCKETS) + 0.5) * (double)(UINT64_C(1) << shift);
}

static void times_add(struct times *times, uint64_t ns) {
    times->counts[bucket_of(ns)]++;
    times->count++;
    times->longest = ns > times->longest ? ns : times->longest;
}

static void times_merge(struct times *into, const struct times *from) {
    for (unsigned i = 0; i < BUCKET_COUNT; i++) {
        into->counts[i] += from->counts[i];
    }
    into->count += from->count;
    into->longest = from->longest > into->longest ? from->longest : into->longest;
}

/* The time that `share` of all are no longer than; never above the longest. */
static double times_quantile(const struct times *times, double share) {
    uint64_t wanted = (uint64_t)(share * (double)times->count);
    uint64_t seen = 0;
    for (unsigned i = 0; i < BUCKET_COUNT; i++) {
        seen += times->counts[i];
        if (seen > wanted) {
            double ns = ns_of(i);
            return ns < (double)times->longest ? ns : (double)times->longest;
        }
    }
    return (double)times->longest;
}

static void times_print(const struct times *times, const char *name) {
    const double shares[] = {0.5, 0.99, 0.9999};
    const char *const words[] = {"p50", "p99", "p9999"};
    for (unsigned i = 0; i < 3; i++) {
        printf("%s_%s_ns=%.1f\n", name, words[i], times_quantile(times, shares[i]));
    }
    printf("%s_max_ns=%.0f\n", name, (double)times->longest);
}

/* ---- the traffic --------------------------------------------------------------------------------------------- */

static block_ticket timed_new(struct member *self, const struct block_rules *rules, uint32_t size, uint32_t *tags) {
    uint64_t from = machine_now_ns();
    unsigned char *block = malloc(size);
    times_add(self->mallocs, machine_now_ns() - from);
    self->allocated++;
    return block_sealed(rules, block, size, tags);
}

static void timed_release(struct member *self, const struct block_rules *rules, block_ticket ticket) {
    unsigned char *block = block_checked(rules, ticket);
    uint64_t from = machine_now_ns();
    free(block);
    times_add(self->frees, machine_now_ns() - from);
    self->freed++;
}

static void drain(struct member *self, const struct block_rules *rules) {
    uint64_t first;
    uint64_t end = ring_sent(self->in, &first);
    for (uint64_t i = first; i != end; i++) {
        timed_release(self, rules, self->in->blocks[i & self->in->mask]);
    }
    if (first != end) {
        ring_received(self->in, end);
        self->received += end - first;
    }
}

static void hand_on(struct member *self, const struct block_rules *rules, block_ticket block) {
    while (!ring_send(self->out, block)) {
        drain(self, rules); /* so at least one thread of the ring can always send */
        sched_yield();
    }
    self->sent++;
}

static void *member_main(void *argument) {
    struct member *self = argument;
    const struct config *config = self->config;
    const struct block_rules rules = {(uint32_t)config->min, (uint32_t)config->max, config->check == BLOCK_CHECK_FULL};
    const struct size_mix mix = size_mix_uniform(rules.size_min, rules.size_max);
    struct draw_cursor draws;
    draw_cursor_open(&draws, config->seed, self->worker.index, (uint32_t)config->slot_count, &mix,
                     (uint32_t)config->remote_percent);
    block_ticket *slots = machine_map(config->slot_count, sizeof *slots);
    uint32_t tags = block_first_tag(self->worker.index);
    for (uint64_t i = 0; i < config->slot_count; i++) {
        slots[i] = block_new(&rules, draw_next(&draws).size, &tags);
    }
    worker_start(&self->worker);
    for (uint64_t i = 0; i < config->iters; i++) {
        drain(self, &rules);
        struct draw draw = draw_next(&draws);
        if (draw.remote) {
            hand_on(self, &rules, slots[draw.slot]);
        } else {
            timed_release(self, &rules, slots[draw.slot]);
        }
        slots[draw.slot] = timed_new(self, &rules, draw.size, &tags);
    }
    ring_close(self->out);
    while (!ring_is_closed(self->in)) {
        drain(self, &rules);
        sched_yield();
    }
    drain(self, &rules);
    worker_finish(&self->worker);
    for (uint64_t i = 0; i < config->slot_count; i++) {
        block_release(&rules, slots[i]);
    }
    return NULL;
}

static void parse(struct config *config, int argc, char **argv) {
    *config = (struct config){.slot_count = 1000, .min = 16, .max = 2048, .remote_percent = 50, .seed = 1};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_REQUIRED, "THREADS", &config->threads, 1, WORKER_COUNT_MAX, "threads"),
        ARGS_ROW(ARGS_REQUIRED, "ITERS", &config->iters, 1, UINT64_C(1) << 40, "steps of each thread"),
        ARGS_ROW(ARGS_OPTIONAL, "SLOTS", &config->slot_count, 1, 1 << 24, "live blocks of each thread"),
        ARGS_ROW(ARGS_OPTIONAL, "MIN", &config->min, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "smallest size in bytes"),
        ARGS_ROW(ARGS_OPTIONAL, "MAX", &config->max, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "largest size in bytes"),
        ARGS_ROW(ARGS_OPTIONAL, "REMOTE_PCT", &config->remote_percent, 0, 100, "percent of blocks handed on"),
        ARGS_ROW(ARGS_NUMBER, "seed", &config->seed, 0, UINT64_MAX, "start of the random numbers"),
        ARGS_ROW_CHOICE("check", &config->check, block_check_words, "bytes verified at each free"),
    };
    const struct args_spec spec = {"Times every malloc and free under traffic between threads.", items,
                                   ARGS_COUNT(items), NULL};
    args_parse(&spec, argc, argv);
    args_require_ordered(&spec, "MIN", config->min, "MAX", config->max);
}

static void print_results(const struct config *config, struct member *members) {
    struct times *sums = machine_map(3, sizeof *sums);
    uint64_t sent = 0;
    uint64_t received = 0;
    uint64_t allocated = 0;
    uint64_t freed = 0;
    for (uint64_t i = 0; i < config->threads; i++) {
        times_merge(&sums[0], members[i].mallocs);
        times_merge(&sums[1], members[i].frees);
        sent += members[i].sent;
        received += members[i].received;
        allocated += members[i].allocated;
        freed += members[i].freed;
    }
    machine_require_equal("received = sent", received, sent);
    machine_require_equal("timed mallocs = threads x iters", allocated, config->threads * config->iters);
    machine_require_equal("timed frees = timed mallocs", freed, allocated);
    machine_require_equal("times of malloc = timed mallocs", sums[0].count, allocated);
    for (unsigned i = 0; i < TIMER_READINGS; i++) {
        uint64_t from = machine_now_ns();
        times_add(&sums[2], machine_now_ns() - from);
    }
    printf("allocated=%" PRIu64 " freed=%" PRIu64 " sent=%" PRIu64 "\n", allocated, freed, sent);
    printf("timer_ns=%.1f\n", times_quantile(&sums[2], 0.5));
    times_print(&sums[0], "malloc");
    times_print(&sums[1], "free");
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct config config;
    parse(&config, argc, argv);
    machine_cpus_read();
    unsigned count = (unsigned)config.threads;
    struct member *members = machine_map(count, sizeof *members);
    struct ring *rings = machine_map(count, sizeof *rings);
    for (unsigned i = 0; i < count; i++) {
        ring_open(&rings[i], RING_SLOTS);
        members[i].config = &config;
        members[i].in = &rings[i];
        members[i].out = &rings[(i + 1) % count];
        members[i].mallocs = machine_map(1, sizeof *members[i].mallocs);
        members[i].frees = machine_map(1, sizeof *members[i].frees);
    }
    printf("threads=%" PRIu64 " iters=%" PRIu64 " slots=%" PRIu64 " min=%" PRIu64 " max=%" PRIu64 " remote_pct=%" PRIu64
           " seed=%" PRIu64 " check=%s\n",
           config.threads, config.iters, config.slot_count, config.min, config.max, config.remote_percent, config.seed,
           block_check_words[config.check]);
    workers_run(members, sizeof *members, count, member_main);
    print_results(&config, members);
    double seconds = workers_seconds(members, sizeof *members, count);
    workers_print_result(seconds, "ops_per_s", (double)(2 * config.threads * config.iters) / seconds);
    return 0;
}
