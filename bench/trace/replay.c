/*
 * hakoreplay - repeats the allocation calls of a recorded program, with its threads and in its order.
 *
 * Each thread makes its own calls one after another. A call that concerns a block on which another thread must act
 * first waits until that is done (plan.h). Before a thread starts, every thread whose last recorded call came before
 * the first call of the new one has ended. So as many threads live at a time as in the recording, and their ends are
 * part of the work. Apart from touching the blocks, the replay leaves out the program's work between its calls.
 *
 * A thread that only allocates would run far ahead of those that free, and the replay would need memory that the
 * program never needed, because the program's queues were bounded. So while more bytes are live than ever were in the
 * recording, threads that are ahead wait until the others are near. The thread that is furthest behind never waits in
 * this way, and a thread that waits for a block does not hold others back, so the argument of plan.h against deadlocks
 * still holds.
 *
 * The main thread replays the recording's first thread, so a recording of one thread starts no other thread. Otherwise
 * an additional thread, the starter, starts and joins all others; it lives from before the first round until after the
 * last.
 *
 * The figures of resident memory exclude the events and slots, which are resident before the start.
 *
 * With --addresses a file gets the address of each event's block, which `hakobench locality` reads (trace_format.h).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/args.h"
#include "common/machine.h"
#include "plan.h"

enum { TOUCH_EDGES, TOUCH_PAGES, TOUCH_ALL, PAGE_BYTES = 4096 };
static const char *const touch_words[] = {"edges", "pages", "all", NULL};

struct slot {
    _Atomic uint32_t turn; /* sync: release after the fields below are written, acquire before they are read */
    uint32_t thread;       /* the thread that allocated the block, or last moved it */
    unsigned char *address;
    uint64_t size;
    bool live;
};

struct counters {
    uint64_t calls, allocated, freed, remote_frees;
    uint64_t waits, pace_waits;    /* waits for a turn at a block; waits of a thread that is too far ahead */
    uint64_t waited_ns, thread_ns; /* time in both kinds of waits; time from the first to the last event */
    uint64_t bytes_in, bytes_out;  /* including growth and shrinkage of blocks */
};

enum { AHEAD_EVENTS = 1024 };

/* What the threads of a round know about one another. */
struct pace {
    _Alignas(MACHINE_LINE_BYTES) _Atomic int64_t live_bytes; /* counter: as of each thread's last keep_pace */
    _Alignas(MACHINE_LINE_BYTES) int64_t peak_bytes;         /* const in a round, like the fields below */
    const struct member *members;
    uint32_t member_count;
};

struct member {
    _Alignas(MACHINE_LINE_BYTES) _Atomic uint64_t place; /* hint: index of the next event among those of all threads */
    const struct plan_thread *plan;
    struct slot *slots;
    struct pace *pace;
    uint64_t *addresses; /* of the blocks of its events, in their order; NULL: not wanted */
    int64_t told_bytes;  /* this thread's share of pace->live_bytes */
    unsigned index, touch;
    struct counters counters; /* owner: the thread; read by others after the thread was joined */
    pthread_t thread;         /* unused in the first member, which runs in main */
};

/* The starter, which starts and joins the threads; main and the starter hand over through the semaphores. */
struct crew {
    const struct plan *plan;
    struct member *members;
    uint64_t rounds;
    sem_t begin, first_ended, all_ended;
    pthread_t starter;
};

/* ---- contents --------------------------------------------------------------------------------------------------- */

static uint64_t seal_of(const struct slot *slot) {
    return ((uint64_t)(uintptr_t)slot->address ^ slot->size << 48 ^ slot->size) * UINT64_C(0x9E3779B97F4A7C15) | 1;
}

/* Writes first word and last byte; a block too small for a word gets only the last byte. */
static void seal_write(const struct slot *slot) {
    uint64_t seal = seal_of(slot);
    if (slot->size >= sizeof seal) {
        memcpy(slot->address, &seal, sizeof seal);
    }
    if (slot->size > 0) {
        slot->address[slot->size - 1] = (unsigned char)(seal >> 56);
    }
}

static bool word_is(const unsigned char *address, uint64_t size, uint64_t expected) {
    uint64_t word = expected;
    memcpy(&word, address, size < sizeof word ? 0 : sizeof word);
    return word == expected;
}

static void seal_check(const struct slot *slot) {
    uint64_t seal = seal_of(slot);
    bool last_is_right = slot->size == 0 || slot->address[slot->size - 1] == (unsigned char)(seal >> 56);
    if (!last_is_right || !word_is(slot->address, slot->size, seal)) {
        machine_fail("content check failed: block %p of %" PRIu64 " bytes was changed while it was live",
                     (void *)slot->address, slot->size);
    }
}

/* Touches the block between its edges, from `start` on. */
static void touch(const struct member *self, const struct slot *slot, uint64_t start) {
    if (self->touch == TOUCH_ALL && start + 1 < slot->size) {
        memset(slot->address + start, 0x5a, slot->size - 1 - start);
    } else if (self->touch == TOUCH_PAGES) {
        for (uint64_t at = start + PAGE_BYTES; at + 1 < slot->size; at += PAGE_BYTES) {
            slot->address[at] = 0x5a;
        }
    }
}

/* ---- one event -------------------------------------------------------------------------------------------------- */

static void *call(const struct plan_event *event) {
    size_t alignment = (size_t)1 << event->align_log2;
    void *block = NULL;
    switch ((enum trace_function)event->function) {
    case TRACE_CALLOC:
        return calloc(1, event->size);
    case TRACE_REALLOC:
        return realloc(NULL, event->size);
    case TRACE_REALLOCARRAY:
        return reallocarray(NULL, 1, event->size);
    case TRACE_MEMALIGN:
        return memalign(alignment, event->size);
    case TRACE_ALIGNED_ALLOC:
        return aligned_alloc(alignment, event->size);
    case TRACE_POSIX_MEMALIGN:
        return posix_memalign(&block, alignment, event->size) == 0 ? block : NULL;
    case TRACE_VALLOC:
        return valloc(event->size);
    case TRACE_PVALLOC:
        return pvalloc(event->size);
    case TRACE_MALLOC:
    case TRACE_NONE:
    case TRACE_FREE:
    case TRACE_FUNCTION_COUNT:
        break;
    }
    return malloc(event->size);
}

static void check_address(const struct plan_event *event, const void *address) {
    if (address == NULL && event->size > 0) {
        machine_fail("no memory for %" PRIu64 " bytes", (uint64_t)event->size);
    }
    uint64_t misaligned = (uint64_t)(uintptr_t)address & ((UINT64_C(1) << event->align_log2) - 1);
    if (misaligned != 0) {
        machine_fail("the request was for alignment 2^%u, the block is at %p", (unsigned)event->align_log2, address);
    }
}

static void allocate(struct member *self, struct slot *slot, const struct plan_event *event) {
    slot->thread = self->index;
    slot->size = event->size;
    slot->live = true;
    slot->address = call(event);
    check_address(event, slot->address);
    if (event->function == TRACE_CALLOC && slot->size > 0 &&
        (slot->address[slot->size - 1] != 0 || !word_is(slot->address, slot->size, 0))) {
        machine_fail("calloc of %" PRIu64 " bytes returned memory that is not zero", slot->size);
    }
    slot->size = slot->address == NULL ? 0 : slot->size;
    touch(self, slot, slot->size < sizeof(uint64_t) ? 0 : sizeof(uint64_t));
    seal_write(slot);
    self->counters.allocated++;
    self->counters.bytes_in += slot->size;
}

static void resize(struct member *self, struct slot *slot, const struct plan_event *event) {
    seal_check(slot);
    uint64_t old_size = slot->size;
    uint64_t seal = seal_of(slot);
    uint64_t kept = old_size < event->size ? old_size : event->size;
    unsigned char *moved = event->function == TRACE_REALLOC ? realloc(slot->address, event->size)
                                                            : reallocarray(slot->address, 1, event->size);
    check_address(event, moved);
    if (moved != NULL && !word_is(moved, kept, seal)) {
        machine_fail("realloc from %" PRIu64 " to %" PRIu64 " bytes lost the contents", old_size,
                     (uint64_t)event->size);
    }
    if (moved != slot->address) {
        self->counters.remote_frees += slot->thread != self->index;
        slot->thread = self->index;
    }
    slot->address = moved;
    slot->size = moved == NULL ? 0 : event->size;
    touch(self, slot, kept);
    seal_write(slot);
    self->counters.bytes_out += old_size;
    self->counters.bytes_in += slot->size;
}

static void release(struct member *self, struct slot *slot) {
    seal_check(slot);
    free(slot->address);
    slot->live = false;
    self->counters.freed++;
    self->counters.bytes_out += slot->size;
    self->counters.remote_frees += slot->thread != self->index;
}

/* Lets other threads pass while this thread waits for its turn at a block: none of them may wait for it. */
static void place_pass(struct member *self) {
    uint64_t next = (self->counters.calls - 1) / PLAN_PACE_EVENTS + 1;
    uint64_t place = next * PLAN_PACE_EVENTS < self->plan->count ? self->plan->places[next] : UINT64_MAX;
    atomic_store_explicit(&self->place, place, memory_order_relaxed);
}

static void step(struct member *self, const struct plan_event *event) {
    self->counters.calls++;
    if (event->kind == TRACE_NULL) {
        free(NULL);
        return;
    }
    struct slot *slot = &self->slots[event->slot];
    /* sync: turn; partner: the release below, in the thread that had the previous turn */
    if (atomic_load_explicit(&slot->turn, memory_order_acquire) != event->turn) {
        uint64_t start_ns = machine_now_ns();
        self->counters.waits++;
        place_pass(self);
        while (atomic_load_explicit(&slot->turn, memory_order_acquire) != event->turn) {
            sched_yield();
        }
        self->counters.waited_ns += machine_now_ns() - start_ns;
    }
    if (event->kind == TRACE_ALLOCATE) {
        allocate(self, slot, event);
    } else if (event->kind == TRACE_RESIZE) {
        resize(self, slot, event);
    } else {
        release(self, slot);
    }
    if (self->addresses != NULL) {
        self->addresses[event - self->plan->events] = (uintptr_t)slot->address;
    }
    /* sync: turn; publishes the slot's fields */
    atomic_store_explicit(&slot->turn, event->turn + 1, memory_order_release);
}

/* ---- a round ---------------------------------------------------------------------------------------------------- */

static uint64_t lowest_place(const struct pace *pace) {
    uint64_t lowest = UINT64_MAX;
    for (uint32_t t = 0; t < pace->member_count; t++) {
        uint64_t place = atomic_load_explicit(&pace->members[t].place, memory_order_relaxed);
        lowest = place < lowest ? place : lowest;
    }
    return lowest;
}

/* Called every PLAN_PACE_EVENTS events. All accesses are relaxed: they are hints and a counter, and no block is reached
   through them. */
static void keep_pace(struct member *self, uint64_t at) {
    struct pace *pace = self->pace;
    int64_t bytes = (int64_t)(self->counters.bytes_in - self->counters.bytes_out);
    int64_t more = bytes - self->told_bytes;
    int64_t live = atomic_fetch_add_explicit(&pace->live_bytes, more, memory_order_relaxed) + more;
    uint64_t place = self->plan->places[at / PLAN_PACE_EVENTS];
    self->told_bytes = bytes;
    atomic_store_explicit(&self->place, place, memory_order_relaxed);
    uint64_t start_ns = 0;
    while (live > pace->peak_bytes) {
        uint64_t lowest = lowest_place(pace);
        if (place <= lowest || place - lowest <= AHEAD_EVENTS) {
            break;
        }
        start_ns = start_ns == 0 ? machine_now_ns() : start_ns;
        sched_yield();
        live = atomic_load_explicit(&pace->live_bytes, memory_order_relaxed);
    }
    if (start_ns != 0) {
        self->counters.pace_waits++;
        self->counters.waited_ns += machine_now_ns() - start_ns;
    }
}

static void member_run(struct member *self) {
    uint64_t start_ns = machine_now_ns();
    const struct plan_event *events = self->plan->events;
    for (uint64_t i = 0; i < self->plan->count; i++) {
        if (i % PLAN_PACE_EVENTS == 0) {
            keep_pace(self, i);
        }
        step(self, &events[i]);
    }
    atomic_store_explicit(&self->place, UINT64_MAX, memory_order_relaxed);
    self->counters.thread_ns += machine_now_ns() - start_ns;
}

static void *member_main(void *argument) {
    struct member *self = argument;
    machine_pin(self->index);
    member_run(self);
    return NULL;
}

static void await(sem_t *semaphore) {
    while (sem_wait(semaphore) != 0) {
        if (errno != EINTR) {
            machine_fail("cannot wait for a thread: %s", strerror(errno));
        }
    }
}

static void join(struct crew *crew, uint32_t thread) {
    if (thread == 0) {
        await(&crew->first_ended);
    } else {
        pthread_join(crew->members[thread].thread, NULL);
    }
}

/* A thread is joined only after it was started: if its last event comes before another thread's first, so does its own
   first event, and threads are started in the order of their first events. */
static void start_and_join(struct crew *crew) {
    const struct plan *plan = crew->plan;
    uint32_t joined = 0;
    for (uint32_t t = 1; t < plan->thread_count; t++) {
        while (plan->threads[plan->ends[joined]].last < plan->threads[t].first) {
            join(crew, plan->ends[joined++]);
        }
        int error = pthread_create(&crew->members[t].thread, NULL, member_main, &crew->members[t]);
        if (error != 0) {
            machine_fail("cannot start thread %" PRIu32 ": %s", t, strerror(error));
        }
    }
    while (joined < plan->thread_count) {
        join(crew, plan->ends[joined++]);
    }
}

static void *starter_main(void *argument) {
    struct crew *crew = argument;
    for (uint64_t r = 0; r < crew->rounds; r++) {
        await(&crew->begin);
        start_and_join(crew);
        sem_post(&crew->all_ended);
    }
    return NULL;
}

/* Creates the starter before the clock starts and before main is bound to a CPU, which the starter would inherit. */
static void crew_prepare(struct crew *crew) {
    sem_init(&crew->begin, 0, 0);
    sem_init(&crew->first_ended, 0, 0);
    sem_init(&crew->all_ended, 0, 0);
    if (crew->plan->thread_count > 1) {
        int error = pthread_create(&crew->starter, NULL, starter_main, crew);
        if (error != 0) {
            machine_fail("cannot start a thread: %s", strerror(error));
        }
    }
    machine_pin(0);
}

static void crew_dismiss(struct crew *crew) {
    if (crew->plan->thread_count > 1) {
        pthread_join(crew->starter, NULL);
    }
}

/* Returns the seconds from before the first thread's first event until after the last thread's end. */
static double run_threads(struct crew *crew) {
    uint64_t start_ns = machine_now_ns();
    bool others = crew->plan->thread_count > 1;
    if (others) {
        sem_post(&crew->begin);
    }
    member_run(&crew->members[0]);
    if (others) {
        sem_post(&crew->first_ended);
        await(&crew->all_ended);
    }
    return (double)(machine_now_ns() - start_ns) / 1e9;
}

/* Frees the blocks that the program never freed and prepares the slots for another round. Returns their number and adds
   their bytes to `*bytes`. */
static uint64_t release_rest(const struct plan *plan, struct slot *slots, uint64_t *bytes) {
    uint64_t live = 0;
    for (uint32_t s = 0; s < plan->slot_count; s++) {
        if (slots[s].live) {
            seal_check(&slots[s]);
            free(slots[s].address);
            live++;
            *bytes += slots[s].size;
        }
        slots[s] = (struct slot){.live = false};
    }
    return live;
}

static void add(struct counters *sum, const struct counters *more) {
    sum->calls += more->calls;
    sum->allocated += more->allocated;
    sum->freed += more->freed;
    sum->remote_frees += more->remote_frees;
    sum->waits += more->waits;
    sum->pace_waits += more->pace_waits;
    sum->waited_ns += more->waited_ns;
    sum->thread_ns += more->thread_ns;
    sum->bytes_in += more->bytes_in;
    sum->bytes_out += more->bytes_out;
}

/* Runs a round and adds it to `sum`; returns its seconds. Sets `*live` and `*bytes` to the blocks left at its end. */
static double round_run(struct crew *crew, struct slot *slots, struct counters *sum, uint64_t *live, uint64_t *bytes) {
    const struct plan *plan = crew->plan;
    struct member *members = crew->members;
    struct counters round = {0};
    struct pace *pace = members[0].pace;
    atomic_store_explicit(&pace->live_bytes, 0, memory_order_relaxed);
    for (uint32_t t = 0; t < plan->thread_count; t++) {
        members[t].counters = (struct counters){0};
        members[t].told_bytes = 0;
        /* A thread that has not started yet counts too: a thread ahead of its first event has to wait for it. */
        atomic_store_explicit(&members[t].place, plan->threads[t].first, memory_order_relaxed);
    }
    double seconds = run_threads(crew);
    for (uint32_t t = 0; t < plan->thread_count; t++) {
        add(&round, &members[t].counters);
    }
    *bytes = 0;
    *live = release_rest(plan, slots, bytes);
    machine_require_equal("allocated = freed + live", round.allocated, round.freed + *live);
    machine_require_equal("bytes allocated = bytes freed + bytes live", round.bytes_in, round.bytes_out + *bytes);
    machine_require_equal("calls = events", round.calls, plan->event_count);
    add(sum, &round);
    return seconds;
}

/* Forgets the peak RSS of loading the plan. Without this file in /proc the reported peak includes it. */
static void peak_reset(void) {
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t written = write(fd, "5", 1);
        (void)written;
        close(fd);
    }
}

static void print_result(const struct plan *plan, const struct counters *sum, double seconds, uint64_t tables_kb) {
    uint64_t final_kb = machine_status_kb("VmRSS:");
    uint64_t peak_kb = machine_status_kb("VmHWM:");
    printf("events=%" PRIu64 " threads=%" PRIu32 " blocks=%" PRIu32 "\n", plan->event_count, plan->thread_count,
           plan->block_count);
    printf("allocated=%" PRIu64 " freed=%" PRIu64 " remote_frees=%" PRIu64 "\n", sum->allocated, sum->freed,
           sum->remote_frees);
    printf("calls=%" PRIu64 " waits=%" PRIu64 " pace_waits=%" PRIu64 " wait_share=%.4f\n", sum->calls, sum->waits,
           sum->pace_waits, sum->thread_ns > 0 ? (double)sum->waited_ns / (double)sum->thread_ns : 0.0);
    machine_print_malloc_source();
    printf("seconds=%.6f\n", seconds);
    printf("tables_kb=%" PRIu64 "\n", tables_kb);
    printf("peak_rss_kb=%" PRIu64 "\n", peak_kb > tables_kb ? peak_kb - tables_kb : 0);
    printf("final_rss_kb=%" PRIu64 "\n", final_kb > tables_kb ? final_kb - tables_kb : 0);
    printf("identity=ok\n");
    printf("ops_per_s=%.0f\n", (double)sum->calls / seconds);
}

/* The file of addresses, mapped. It has all its disk blocks from here on: a full disk is a message, not a SIGBUS. */
static uint64_t *addresses_create(const char *path, uint64_t count) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        machine_fail("%s: %s", path, strerror(errno));
    }
    int error = posix_fallocate(fd, 0, (off_t)(count * sizeof(uint64_t)));
    if (error != 0) {
        machine_fail("%s: no room for %" PRIu64 " addresses: %s", path, count, strerror(error));
    }
    void *file = mmap(NULL, count * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (file == MAP_FAILED) {
        machine_fail("%s: %s", path, strerror(errno));
    }
    close(fd);
    return file;
}

static void parse(int argc, char **argv, uint64_t *rounds, uint64_t *touched, uint64_t *with_addresses) {
    const struct args_item items[] = {
        ARGS_ROW(ARGS_NUMBER, "repeat", rounds, 1, 1000000, "rounds of all calls; each frees what is left"),
        ARGS_ROW_CHOICE("touch", touched, touch_words, "bytes written to a new block"),
        ARGS_ROW_FLAG("addresses", with_addresses, "write where the blocks lie, in the last round, to FILE"),
    };
    const struct args_spec spec = {"Makes the calls of a plan, which hakobench writes from a recording.", items,
                                   ARGS_COUNT(items), "PLAN [FILE]"};
    int words = args_parse(&spec, argc, argv);
    if (words != 1 + (int)*with_addresses) {
        args_fail(&spec, *with_addresses ? "--addresses: want one PLAN and one FILE" : "want one PLAN");
    }
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    uint64_t rounds = 1;
    uint64_t touched = TOUCH_PAGES;
    uint64_t with_addresses = 0;
    parse(argc, argv, &rounds, &touched, &with_addresses);
    machine_cpus_read();
    struct plan plan = plan_load(argv[1]);
    uint64_t *addresses = with_addresses ? addresses_create(argv[2], plan.event_count) : NULL;
    struct slot *slots = machine_map((size_t)plan.slot_count + 1, sizeof *slots);
    struct member *members = machine_map(plan.thread_count, sizeof *members);
    struct pace pace = {.peak_bytes = (int64_t)plan.peak_bytes, .members = members, .member_count = plan.thread_count};
    for (uint32_t t = 0; t < plan.thread_count; t++) {
        members[t] = (struct member){
            .plan = &plan.threads[t], .slots = slots, .pace = &pace, .index = t, .touch = (unsigned)touched};
        if (with_addresses) {
            members[t].addresses = addresses;
            addresses += plan.threads[t].count;
        }
    }
    struct counters sum = {0};
    double seconds = 0;
    uint64_t live = 0;
    uint64_t live_bytes = 0;
    uint64_t tables_kb = (plan.bytes + ((uint64_t)plan.slot_count + 1) * sizeof *slots) / 1024;
    struct crew crew = {.plan = &plan, .members = members, .rounds = rounds};
    crew_prepare(&crew);
    peak_reset();
    for (uint64_t r = 0; r < rounds; r++) {
        seconds += round_run(&crew, slots, &sum, &live, &live_bytes);
    }
    crew_dismiss(&crew);
    printf("rounds=%" PRIu64 " live=%" PRIu64 " live_bytes=%" PRIu64 "\n", rounds, live, live_bytes);
    print_result(&plan, &sum, seconds, tables_kb);
    return 0;
}
