/*
 * service - a day of a service, compressed into --seconds: what it keeps resident while load and sizes change.
 *
 * The service holds a store of blocks that all threads share; a thread frees what another one has allocated. Each of
 * the 24 hours has a load: it decides how many of THREADS threads work, how many bytes are live (MIB at full load), and
 * how many blocks are replaced. Most sizes of an hour lie around one size, which the seed draws for each hour. One slot
 * in 32 is long-lived. Every step also allocates and frees two blocks of its own, as a request would. A thread lives
 * for one to four hours. In some hours of the day a thread allocates a burst of a quarter of MIB and ends; another one
 * frees it. At night the little work is done at the start of the hour, and then all threads sleep.
 *
 * Printed for each hour, at its end and in KiB: live_kb, live_pages_kb, rss_kb. At the end hour1_ratio and
 * hour24_ratio: the RSS without table_kb, the workload's own tables, as a multiple of the live bytes. Both hours have
 * the same load. late_ms says by how much the work of an hour took longer than the hour.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "common/args.h"
#include "common/block.h"
#include "common/live_pages.h"
#include "common/machine.h"
#include "common/rng.h"
#include "common/worker.h"

enum { HOURS = 24, SHARDS = 64, BATCHES = 40, LIFE_HOURS_MAX = 4, THREADS_MAX = 256, MIB_MAX = 1 << 16 };
enum { LONG_LIVED_SHARE = 32, LONG_LIVED_STEPS = 64, REPLACED_IN_HOUR = 4, REQUEST_BLOCKS = 2 };
enum { SMALL_MIN = 16, SMALL_MAX = 256, LARGE_MIN = 4096, LARGE_MAX = 65536, BURST_BYTES_MIN = 64 };
enum { NIGHT_LOAD = 20, NIGHT_SHARE = 10, DAY_SHARE = 80, BURST_LOAD = 70, BURST_PART = 4 }; /* per cent; 1 / part */

static const uint8_t loads[HOURS] = {10, 8,  6,  5,   5,  8,  20, 45, 70, 85, 95, 100,
                                     90, 80, 95, 100, 90, 75, 60, 80, 70, 45, 25, 10};
static const struct block_rules rules = {SMALL_MIN, LARGE_MAX, false};

struct config {
    uint64_t mib, threads, seconds, seed;
};

struct hour {
    uint32_t size; /* most sizes lie around it */
    unsigned threads;
    uint64_t steps;  /* of each thread */
    uint64_t target; /* live bytes of a shard */
    uint32_t burst;  /* size of the burst's blocks; 0: no burst */
};

struct shard {
    _Alignas(MACHINE_LINE_BYTES) pthread_mutex_t lock;
    block_ticket *slots; /* lock */
    uint64_t bytes;      /* lock: of the live blocks */
};

struct service {
    struct config config;
    struct hour hours[HOURS]; /* const after publish */
    struct shard *shards;
    uint32_t slot_count; /* of a shard */
    uint64_t start_ns, hour_ns;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned opened, busy; /* lock: hours that may run; threads that have not ended the work of the last of them */
    block_ticket *burst;   /* owner: the thread of the burst, started and joined by main */
    uint64_t burst_count, table_bytes;
};

struct member {
    struct service *service;
    unsigned index, first_hour, last_hour;
    pthread_t thread;
    bool lives;
    uint64_t rng, allocated, freed; /* owner; read after the thread was joined */
    uint32_t tags;
};

static void *table_map(struct service *service, uint64_t count, size_t bytes_each) {
    service->table_bytes += count * bytes_each;
    return machine_map(count, bytes_each);
}

static void sleep_until(uint64_t ns) {
    const struct timespec at = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0) {
    }
}

static uint64_t time_in_hour(const struct service *service, unsigned hour, unsigned percent) {
    return service->start_ns + hour * service->hour_ns + service->hour_ns * percent / 100;
}

/* ---- the plan ------------------------------------------------------------------------------------------------ */

static void plan_hours(struct service *service) {
    const struct config *config = &service->config;
    uint64_t rng = rng_stream(config->seed, 0);
    for (unsigned h = 0; h < HOURS; h++) {
        struct hour *hour = &service->hours[h];
        unsigned before = loads[h > 0 ? h - 1 : h];
        unsigned busiest = loads[h] > before ? loads[h] : before; /* what the last hour has left is replaced too */
        uint64_t slots = (uint64_t)service->slot_count * SHARDS;
        uint32_t doubling = UINT32_C(32) << rng_below(&rng, 7);
        hour->size = doubling + rng_below(&rng, doubling);
        hour->threads = 1 + (unsigned)(config->threads - 1) * loads[h] / 100;
        hour->steps = slots * REPLACED_IN_HOUR * busiest / 100 / hour->threads;
        hour->target = (config->mib << 20) * loads[h] / 100 / SHARDS;
        uint32_t burst = (uint32_t)BURST_BYTES_MIN << rng_below(&rng, 9);
        hour->burst = rng_below(&rng, 2) == 0 && loads[h] >= BURST_LOAD ? burst : 0;
    }
}

static uint32_t draw_size(const struct hour *hour, uint64_t *rng) {
    uint32_t kind = rng_below(rng, 100);
    if (kind < 5) {
        return LARGE_MIN + rng_below(rng, rng_below(rng, LARGE_MAX - LARGE_MIN) + 1); /* mostly the smaller ones */
    }
    if (kind < 30) {
        return SMALL_MIN + rng_below(rng, SMALL_MAX - SMALL_MIN + 1);
    }
    return hour->size - hour->size / 4 + rng_below(rng, hour->size / 2 + 1);
}

/* ---- the work ---------------------------------------------------------------------------------------------------- */

static block_ticket make(struct member *self, uint32_t size) {
    self->allocated++;
    return block_touched(block_new(&rules, size, &self->tags));
}

static void drop(struct member *self, block_ticket block) {
    if (block != 0) {
        block_release(&rules, block);
        self->freed++;
    }
}

/* Takes the block out of a slot. *wants: the shard has room for another one there. */
static block_ticket slot_take(struct shard *shard, uint32_t slot, uint64_t target, bool *wants) {
    pthread_mutex_lock(&shard->lock);
    block_ticket block = shard->slots[slot];
    shard->slots[slot] = 0;
    shard->bytes -= block != 0 ? block_bytes(block) : 0;
    *wants = shard->bytes < target;
    pthread_mutex_unlock(&shard->lock);
    return block;
}

/* Returns the block that does not go into the slot. */
static block_ticket slot_fill(struct shard *shard, uint32_t slot, block_ticket block) {
    pthread_mutex_lock(&shard->lock);
    if (shard->slots[slot] == 0) {
        shard->slots[slot] = block;
        shard->bytes += block_bytes(block);
        block = 0;
    }
    pthread_mutex_unlock(&shard->lock);
    return block;
}

static void step(struct member *self, const struct hour *hour) {
    struct service *service = self->service;
    block_ticket request[REQUEST_BLOCKS];
    for (unsigned i = 0; i < REQUEST_BLOCKS; i++) {
        request[i] = make(self, draw_size(hour, &self->rng));
    }
    struct shard *shard = &service->shards[rng_below(&self->rng, SHARDS)];
    uint32_t slot = rng_below(&self->rng, service->slot_count);
    if (slot % LONG_LIVED_SHARE != 0 || rng_below(&self->rng, LONG_LIVED_STEPS) == 0) {
        bool wants;
        drop(self, slot_take(shard, slot, hour->target, &wants));
        if (wants) {
            drop(self, slot_fill(shard, slot, make(self, draw_size(hour, &self->rng))));
        }
    }
    for (unsigned i = 0; i < REQUEST_BLOCKS; i++) {
        drop(self, request[i]);
    }
}

static void work_for_an_hour(struct member *self, unsigned h) {
    const struct hour *hour = &self->service->hours[h];
    unsigned share = loads[h] < NIGHT_LOAD ? NIGHT_SHARE : DAY_SHARE;
    for (unsigned batch = 0; batch < BATCHES; batch++) {
        for (uint64_t i = hour->steps * batch / BATCHES; i < hour->steps * (batch + 1) / BATCHES; i++) {
            step(self, hour);
        }
        sleep_until(time_in_hour(self->service, h, share * (batch + 1) / BATCHES));
    }
}

static void *member_main(void *argument) {
    struct member *self = argument;
    struct service *service = self->service;
    machine_pin(self->index);
    for (unsigned h = self->first_hour; h <= self->last_hour; h++) {
        pthread_mutex_lock(&service->lock);
        while (service->opened <= h) {
            pthread_cond_wait(&service->changed, &service->lock);
        }
        pthread_mutex_unlock(&service->lock);
        work_for_an_hour(self, h);
        pthread_mutex_lock(&service->lock);
        service->busy--;
        pthread_cond_broadcast(&service->changed);
        pthread_mutex_unlock(&service->lock);
    }
    return NULL;
}

static void *burst_fill_main(void *argument) {
    struct member *self = argument;
    struct service *service = self->service;
    uint32_t size = service->hours[self->first_hour].burst;
    service->burst_count = (service->config.mib << 20) / BURST_PART / size;
    for (uint64_t i = 0; i < service->burst_count; i++) {
        service->burst[i] = make(self, size);
    }
    return NULL;
}

static void *burst_drain_main(void *argument) {
    struct member *self = argument;
    struct service *service = self->service;
    for (uint64_t i = 0; i < service->burst_count; i++) {
        drop(self, service->burst[i]);
    }
    service->burst_count = 0;
    return NULL;
}

/* ---- the day ------------------------------------------------------------------------------------------------ */

struct measured {
    uint64_t live_kb, pages_kb, rss_kb;
};

struct totals {
    uint64_t allocated, freed, started;
    struct measured hours[HOURS];
};

static void member_start(struct service *service, struct member *member, unsigned index, unsigned h, uint64_t stream) {
    *member = (struct member){.service = service, .index = index, .first_hour = h, .last_hour = h, .lives = true};
    member->rng = rng_stream(service->config.seed, stream);
    member->tags = block_first_tag((uint32_t)stream);
    unsigned life = 1 + rng_below(&member->rng, LIFE_HOURS_MAX);
    while (member->last_hour + 1 < HOURS && member->last_hour - h + 1 < life &&
           index < service->hours[member->last_hour + 1].threads) {
        member->last_hour++;
    }
    member->thread = worker_thread_start(member_main, member);
}

static void member_join(struct member *member, struct totals *totals) {
    pthread_join(member->thread, NULL);
    totals->allocated += member->allocated;
    totals->freed += member->freed;
    totals->started++;
    member->lives = false;
}

static void burst(struct service *service, unsigned h, struct totals *totals) {
    const unsigned percent[] = {40, 60};
    for (unsigned i = 0; i < 2; i++) {
        sleep_until(time_in_hour(service, h, percent[i]));
        struct member member = {.service = service, .first_hour = h, .tags = block_first_tag(HOURS + h)};
        member.thread = worker_thread_start(i == 0 ? burst_fill_main : burst_drain_main, &member);
        member_join(&member, totals);
    }
}

/* All threads wait meanwhile. */
static struct measured measure(const struct service *service, unsigned h, uint64_t late_ns) {
    struct measured found = {.rss_kb = machine_status_kb("VmRSS:")};
    uint64_t live = 0;
    struct live_pages set;
    live_pages_open(&set);
    for (unsigned s = 0; s < SHARDS; s++) {
        live += service->shards[s].bytes;
        for (uint32_t i = 0; i < service->slot_count; i++) {
            if (service->shards[s].slots[i] != 0) {
                live_pages_add(&set, service->shards[s].slots[i]);
            }
        }
    }
    found.live_kb = live >> 10;
    found.pages_kb = live_pages_close_kb(&set);
    printf("hour=%u load=%u threads=%u size=%" PRIu32 " live_kb=%" PRIu64 " live_pages_kb=%" PRIu64 " rss_kb=%" PRIu64
           " late_ms=%" PRIu64 "\n",
           h + 1, loads[h], service->hours[h].threads, service->hours[h].size, found.live_kb, found.pages_kb,
           found.rss_kb, late_ns / 1000000);
    fflush(stdout);
    return found;
}

/* The RSS without the tables, as a multiple of the live bytes. */
static double ratio(const struct service *service, const struct measured *hour) {
    return ((double)hour->rss_kb - (double)(service->table_bytes >> 10)) / (double)(hour->live_kb + 1);
}

/* The day in one word each, for readers that keep the last value of a key only. */
static void print_day(const struct service *service, const struct measured *hours) {
    for (unsigned h = 0; h < HOURS; h++) {
        printf("%s%" PRIu64, h == 0 ? "live_by_hour_kb=" : ",", hours[h].live_kb);
    }
    for (unsigned h = 0; h < HOURS; h++) {
        printf("%s%" PRIu64, h == 0 ? "\nrss_by_hour_kb=" : ",", hours[h].rss_kb);
    }
    printf("\nhour1_ratio=%.3f\nhour24_ratio=%.3f\n", ratio(service, &hours[0]), ratio(service, &hours[HOURS - 1]));
}

static void hour_run(struct service *service, struct member *members, unsigned h, struct totals *totals) {
    for (unsigned i = 0; i < service->hours[h].threads; i++) {
        if (!members[i].lives) {
            member_start(service, &members[i], i, h, 1 + h * service->config.threads + i);
        }
    }
    pthread_mutex_lock(&service->lock);
    service->opened = h + 1;
    service->busy = service->hours[h].threads;
    pthread_cond_broadcast(&service->changed);
    pthread_mutex_unlock(&service->lock);
    if (service->hours[h].burst != 0) {
        burst(service, h, totals);
    }
    pthread_mutex_lock(&service->lock);
    while (service->busy > 0) {
        pthread_cond_wait(&service->changed, &service->lock);
    }
    pthread_mutex_unlock(&service->lock);
    uint64_t now = machine_now_ns();
    uint64_t end = time_in_hour(service, h, 100);
    sleep_until(end);
    totals->hours[h] = measure(service, h, now > end ? now - end : 0);
    for (unsigned i = 0; i < service->config.threads; i++) {
        if (members[i].lives && members[i].last_hour == h) {
            member_join(&members[i], totals);
        }
    }
}

static void release_store(struct service *service, struct totals *totals) {
    for (unsigned s = 0; s < SHARDS; s++) {
        for (uint32_t i = 0; i < service->slot_count; i++) {
            if (service->shards[s].slots[i] != 0) {
                block_release(&rules, service->shards[s].slots[i]);
                totals->freed++;
            }
        }
    }
}

static void parse(struct config *config, int argc, char **argv) {
    *config = (struct config){.mib = 100, .threads = 8, .seconds = 1200, .seed = 1};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_OPTIONAL, "MIB", &config->mib, 1, MIB_MAX, "MiB live at full load"),
        ARGS_ROW(ARGS_OPTIONAL, "THREADS", &config->threads, 1, THREADS_MAX, "threads at full load"),
        ARGS_ROW(ARGS_NUMBER, "seconds", &config->seconds, 1, 86400, "length of the day"),
        ARGS_ROW(ARGS_NUMBER, "seed", &config->seed, 0, UINT64_MAX, "start of the random numbers"),
    };
    const struct args_spec spec = {"Simulates a day of a service, compressed.", items, ARGS_COUNT(items), NULL};
    args_parse(&spec, argc, argv);
}

static struct service *service_open(const struct config *config) {
    struct service *service = machine_map(1, sizeof *service);
    service->config = *config;
    service->slot_count = (uint32_t)(config->mib << 20 >> 10) / SHARDS; /* for blocks of 1 KiB on average */
    service->shards = table_map(service, SHARDS, sizeof *service->shards);
    for (unsigned s = 0; s < SHARDS; s++) {
        pthread_mutex_init(&service->shards[s].lock, NULL);
        service->shards[s].slots = table_map(service, service->slot_count, sizeof *service->shards[s].slots);
    }
    service->burst = table_map(service, (config->mib << 20) / BURST_PART / BURST_BYTES_MIN, sizeof *service->burst);
    pthread_mutex_init(&service->lock, NULL);
    pthread_cond_init(&service->changed, NULL);
    service->hour_ns = config->seconds * UINT64_C(1000000000) / HOURS;
    plan_hours(service);
    return service;
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct config config;
    parse(&config, argc, argv);
    machine_cpus_read();
    struct service *service = service_open(&config);
    struct member *members = table_map(service, config.threads, sizeof *members);
    printf("mib=%" PRIu64 " day_threads=%" PRIu64 " day_seconds=%" PRIu64 " seed=%" PRIu64 "\n", config.mib,
           config.threads, config.seconds, config.seed);
    struct totals totals = {0};
    service->start_ns = machine_now_ns();
    for (unsigned h = 0; h < HOURS; h++) {
        hour_run(service, members, h, &totals);
    }
    double seconds = (double)(machine_now_ns() - service->start_ns) / 1e9;
    release_store(service, &totals);
    machine_require_equal("freed = allocated", totals.freed, totals.allocated);
    printf("table_kb=%" PRIu64 " allocated=%" PRIu64 " threads_started=%" PRIu64 "\n", service->table_bytes >> 10,
           totals.allocated, totals.started);
    print_day(service, totals.hours);
    workers_print_result(seconds, "ops_per_s", (double)(2 * totals.allocated) / seconds);
    return 0;
}
