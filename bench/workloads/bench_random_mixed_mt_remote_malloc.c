/*
 * bench_random_mixed_mt_remote_malloc - a ring of threads that free each other's blocks.
 *
 * Each of THREADS threads has WS slots and a single-producer, single-consumer ring that carries RING_SLOTS pointers to
 * the next thread. In each iteration a thread drains the ring it receives from (frees every block in it) and picks a
 * random slot. If the slot is empty, it allocates a block of uniform size MIN..MAX; if the slot is occupied, it sends
 * the block to the next thread with a probability of REMOTE_PCT percent, and otherwise frees it. So
 * allocated + local_freed + remote_sent = THREADS x ITERS, exactly.
 *
 * When the ring is full: with --full=fallback the sender frees the block itself (counted in local_freed and in
 * ring_full_fallback; the figures mean little when that happens in more than 0.1 % of the sends). With --full=wait it
 * drains the ring it receives from, yields and tries again, so every allocator does the same work even on few CPUs.
 *
 * A thread that has finished its iterations keeps draining until its predecessor has finished too and the ring is
 * empty; then its clock stops. The blocks left in its slots are freed after that (remaining_freed). This version has no
 * overflow list: overflow_sent and overflow_received are always 0, for programs that parse the line.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

#include "common/args.h"
#include "common/block.h"
#include "common/draws.h"
#include "common/machine.h"
#include "common/ring.h"
#include "common/worker.h"

enum { RING_SLOTS_DEFAULT = 65536, RING_SLOTS_MAX = 1 << 24, FULL_FALLBACK = 0, FULL_WAIT = 1 };
static const char *const full_words[] = {"fallback", "wait", NULL};

struct config {
    uint64_t threads, iters, slot_count, size_min, size_max, remote_percent, ring_slots;
    uint64_t full, seed, check;
};

struct counts {
    uint64_t allocated, local_freed, remote_sent, remote_received, fallback, waits, remaining;
};

struct peer {
    struct worker worker;
    const struct config *config;
    struct ring *in, *out;
    struct counts counts; /* owner; read after the thread was joined */
};

static uint64_t ring_drain(struct ring *ring, const struct block_rules *rules) {
    uint64_t first;
    uint64_t end = ring_sent(ring, &first);
    if (first == end) {
        return 0;
    }
    for (uint64_t i = first; i != end; i++) {
        block_release(rules, ring->blocks[i & ring->mask]);
    }
    ring_received(ring, end);
    return end - first;
}

static void send_or_fall_back(struct peer *self, const struct block_rules *rules, block_ticket block,
                              struct counts *counts) {
    while (!ring_send(self->out, block)) {
        if (self->config->full == FULL_FALLBACK) {
            block_release(rules, block);
            counts->fallback++;
            counts->local_freed++;
            return;
        }
        /* no deadlock: every waiting thread keeps draining, so at least one thread of the ring can always send */
        counts->waits++;
        counts->remote_received += ring_drain(self->in, rules);
        sched_yield();
    }
    counts->remote_sent++;
}

static void run_iterations(struct peer *self, const struct block_rules *rules, struct draw_cursor *draws,
                           block_ticket *slots, struct counts *counts) {
    uint32_t tags = block_first_tag(self->worker.index);
    for (uint64_t i = 0; i < self->config->iters; i++) {
        counts->remote_received += ring_drain(self->in, rules);
        struct draw draw = draw_next(draws);
        block_ticket block = slots[draw.slot];
        if (block == 0) {
            slots[draw.slot] = block_new(rules, draw.size, &tags);
            counts->allocated++;
            continue;
        }
        slots[draw.slot] = 0;
        if (draw.remote) {
            send_or_fall_back(self, rules, block, counts);
        } else {
            block_release(rules, block);
            counts->local_freed++;
        }
    }
}

static void drain_to_the_end(struct peer *self, const struct block_rules *rules, struct counts *counts) {
    while (!ring_is_closed(self->in)) {
        counts->remote_received += ring_drain(self->in, rules);
        sched_yield();
    }
    counts->remote_received += ring_drain(self->in, rules);
}

static void *peer_main(void *argument) {
    struct peer *self = argument;
    const struct config *config = self->config;
    const struct block_rules rules = {(uint32_t)config->size_min, (uint32_t)config->size_max,
                                      config->check == BLOCK_CHECK_FULL};
    struct size_mix mix = size_mix_uniform(rules.size_min, rules.size_max);
    struct draw_cursor draws;
    draw_cursor_open(&draws, config->seed, self->worker.index, (uint32_t)config->slot_count, &mix,
                     (uint32_t)config->remote_percent);
    block_ticket *slots = machine_map(config->slot_count, sizeof *slots);
    struct counts counts = {0}; /* local, or the cost of counters in shared memory would be measured too */

    worker_start(&self->worker);
    run_iterations(self, &rules, &draws, slots, &counts);
    ring_close(self->out);
    drain_to_the_end(self, &rules, &counts);
    worker_finish(&self->worker);

    for (uint64_t s = 0; s < config->slot_count; s++) {
        if (slots[s] != 0) {
            block_release(&rules, slots[s]);
            counts.remaining++;
        }
    }
    self->counts = counts;
    return NULL;
}

static struct counts counts_sum(const struct peer *peers, uint64_t count) {
    struct counts sum = {0};
    for (uint64_t i = 0; i < count; i++) {
        sum.allocated += peers[i].counts.allocated;
        sum.local_freed += peers[i].counts.local_freed;
        sum.remote_sent += peers[i].counts.remote_sent;
        sum.remote_received += peers[i].counts.remote_received;
        sum.fallback += peers[i].counts.fallback;
        sum.waits += peers[i].counts.waits;
        sum.remaining += peers[i].counts.remaining;
    }
    return sum;
}

static double percent(uint64_t part, uint64_t whole) {
    return whole == 0 ? 0.0 : 100.0 * (double)part / (double)whole;
}

static void print_counts(const struct config *config, const struct counts *sum) {
    double fallback_rate = percent(sum->fallback, sum->remote_sent + sum->fallback);
    printf("threads=%" PRIu64 " iters=%" PRIu64 " ws=%" PRIu64 " min=%" PRIu64 " max=%" PRIu64 " remote_pct=%" PRIu64
           " ring_slots=%" PRIu64 " full=%s seed=%" PRIu64 " check=%s\n",
           config->threads, config->iters, config->slot_count, config->size_min, config->size_max,
           config->remote_percent, config->ring_slots, full_words[config->full], config->seed,
           block_check_words[config->check]);
    printf("[EFFECTIVE_REMOTE] target=%.1f%% actual=%.1f%% fallback_rate=%.2f%%\n", (double)config->remote_percent,
           percent(sum->remote_sent, sum->remote_sent + sum->local_freed), fallback_rate);
    printf("[STATS] allocated=%" PRIu64 " local_freed=%" PRIu64 " remote_sent=%" PRIu64 " remote_received=%" PRIu64
           " ring_full_fallback=%" PRIu64 " overflow_sent=0 overflow_received=0\n",
           sum->allocated, sum->local_freed, sum->remote_sent, sum->remote_received, sum->fallback);
    printf("ring_full_waits=%" PRIu64 " remaining_freed=%" PRIu64 "\n", sum->waits, sum->remaining);
    if (fallback_rate > 0.1) {
        fprintf(stderr,
                "warning: %.2f %% of the sends met a full ring and became local frees; above 0.1 %% the figures "
                "are not comparable, use --full=wait\n",
                fallback_rate);
    }
}

static void parse(struct config *config, int argc, char **argv) {
    *config = (struct config){.ring_slots = RING_SLOTS_DEFAULT, .full = FULL_FALLBACK, .seed = 1};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_REQUIRED, "THREADS", &config->threads, 1, WORKER_COUNT_MAX, "threads"),
        ARGS_ROW(ARGS_REQUIRED, "ITERS", &config->iters, 1, UINT64_C(1) << 40, "iterations per thread"),
        ARGS_ROW(ARGS_REQUIRED, "WS", &config->slot_count, 1, 1 << 24, "slots per thread (working set)"),
        ARGS_ROW(ARGS_REQUIRED, "MIN", &config->size_min, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "smallest size in bytes"),
        ARGS_ROW(ARGS_REQUIRED, "MAX", &config->size_max, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "largest size in bytes"),
        ARGS_ROW(ARGS_REQUIRED, "REMOTE_PCT", &config->remote_percent, 0, 100, "percent of frees by the next thread"),
        ARGS_ROW(ARGS_OPTIONAL, "RING_SLOTS", &config->ring_slots, 2, RING_SLOTS_MAX, "ring size, a power of two"),
        ARGS_ROW_CHOICE("full", &config->full, full_words, "when the ring is full: free locally, or drain and retry"),
        ARGS_ROW(ARGS_NUMBER, "seed", &config->seed, 0, UINT64_MAX, "random seed"),
        ARGS_ROW_CHOICE("check", &config->check, block_check_words, "bytes verified at each free"),
    };
    const struct args_spec spec = {"Threads in a ring free each other's blocks.", items, ARGS_COUNT(items), NULL};
    args_parse(&spec, argc, argv);
    args_require_ordered(&spec, "MIN", config->size_min, "MAX", config->size_max);
    if ((config->ring_slots & (config->ring_slots - 1)) != 0) {
        args_fail(&spec, "RING_SLOTS: '%" PRIu64 "' is not a power of two from 2 to %d", config->ring_slots,
                  RING_SLOTS_MAX);
    }
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct config config;
    parse(&config, argc, argv);
    machine_cpus_read();
    struct peer *peers = machine_map(config.threads, sizeof *peers);
    struct ring *rings = machine_map(config.threads, sizeof *rings);
    for (uint64_t i = 0; i < config.threads; i++) {
        ring_open(&rings[i], config.ring_slots);
        peers[i].config = &config;
        peers[i].in = &rings[i];
        peers[i].out = &rings[(i + 1) % config.threads];
    }
    workers_run(peers, sizeof *peers, (unsigned)config.threads, peer_main);
    double seconds = workers_seconds(peers, sizeof *peers, (unsigned)config.threads);
    struct counts sum = counts_sum(peers, config.threads);
    uint64_t operations = config.threads * config.iters;
    machine_require_equal("allocated + local_freed + remote_sent = threads x iters",
                          sum.allocated + sum.local_freed + sum.remote_sent, operations);
    machine_require_equal("remote_received = remote_sent", sum.remote_received, sum.remote_sent);
    machine_require_equal("allocated = local_freed + remote_sent + remaining_freed", sum.allocated,
                          sum.local_freed + sum.remote_sent + sum.remaining);
    print_counts(&config, &sum);
    workers_print_result(seconds, "ops_per_s", (double)operations / seconds);
    return 0;
}
