/*
 * plan.c - see plan.h.
 */
#define _GNU_SOURCE
#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/machine.h"

enum {
    THREADS_MAX = 1 << 16,
    ALIGN_LOG2_MAX = 40,
    SLOTS_AT_ONCE = 64 /* a thread takes new slots in groups, so that threads do not share cache lines */
};
#define NO_SLOT UINT32_MAX

enum block_state { BLOCK_UNKNOWN, BLOCK_LIVE, BLOCK_RELEASED };

struct block {
    uint32_t slot;
    uint32_t state; /* enum block_state */
    uint64_t size;
};

struct slot_state {
    uint32_t turn;
    uint32_t next_free; /* the next slot in a thread's list of free slots */
};

struct thread_state {
    uint32_t free_slot; /* head of the list of slots that this thread released */
    uint32_t fresh, fresh_end;
};

/* State that is needed only while the plan is loaded. */
struct loader {
    const char *path;
    const struct trace_plan *header;
    const struct trace_plan_event *events;
    struct block *blocks;
    struct slot_state *slots;
    struct thread_state *states;
    uint32_t slots_used, threads_seen;
    uint64_t live_bytes, peak_bytes;
};

static const void *map_file(const char *path, size_t *bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        machine_fail("%s: %s", path, strerror(errno));
    }
    *bytes = (size_t)status.st_size;
    if (*bytes < sizeof(struct trace_plan)) {
        machine_fail("%s: %zu bytes are too few for a plan", path, *bytes);
    }
    const void *file = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file == MAP_FAILED) {
        machine_fail("%s: %s", path, strerror(errno));
    }
    close(fd);
    return file;
}

static void check_header(const char *path, const struct trace_plan *header, size_t bytes) {
    if (memcmp(header->magic, TRACE_PLAN_MAGIC, sizeof header->magic) != 0) {
        machine_fail("%s: not a plan of hakobench replay", path);
    }
    if (header->byte_order != TRACE_BYTE_ORDER || header->version != TRACE_VERSION) {
        machine_fail("%s: byte order %#" PRIx32 ", version %" PRIu32 "; readable: %#x, %d", path, header->byte_order,
                     header->version, TRACE_BYTE_ORDER, TRACE_VERSION);
    }
    if (header->thread_count == 0 || header->thread_count > THREADS_MAX || header->event_count == 0) {
        machine_fail("%s: %" PRIu32 " threads, %" PRIu64 " events; allowed: 1 to %d threads, 1 event or more", path,
                     header->thread_count, header->event_count, THREADS_MAX);
    }
    uint64_t event_bytes = bytes - sizeof *header;
    if (event_bytes % sizeof(struct trace_plan_event) != 0 ||
        event_bytes / sizeof(struct trace_plan_event) != header->event_count || header->event_count > UINT32_MAX) {
        machine_fail("%s: the header says %" PRIu64 " events, %" PRIu64 " bytes follow", path, header->event_count,
                     event_bytes);
    }
}

static void fail_event(const struct loader *loader, uint64_t index, const char *why) {
    machine_fail("%s: event %" PRIu64 ": %s (thread %u, block %" PRIu32 ")", loader->path, index, why,
                 (unsigned)loader->events[index].thread, loader->events[index].block);
}

/* Checks that need only the event itself. */
static void check_event(struct loader *loader, uint64_t index) {
    const struct trace_plan_event *event = &loader->events[index];
    unsigned function = event->function_kind & TRACE_FUNCTION_MASK;
    unsigned kind = event->function_kind >> 4;
    if (event->thread > loader->threads_seen || event->thread >= loader->header->thread_count) {
        fail_event(loader, index, "threads are not numbered in the order of their first events");
    }
    if (event->thread == loader->threads_seen) {
        loader->threads_seen++;
    }
    if (function == TRACE_NONE || function >= TRACE_FUNCTION_COUNT || kind >= TRACE_KIND_COUNT) {
        fail_event(loader, index, "no such function or kind");
    }
    bool is_free = function == TRACE_FREE;
    bool is_realloc = function == TRACE_REALLOC || function == TRACE_REALLOCARRAY;
    bool fits = kind == TRACE_ALLOCATE  ? !is_free
                : kind == TRACE_RESIZE  ? is_realloc
                : kind == TRACE_RELEASE ? is_free || is_realloc
                                        : is_free;
    if (!fits) {
        fail_event(loader, index, "the function does not do that");
    }
    if (event->align_log2 > ALIGN_LOG2_MAX || event->size > PLAN_SIZE_MAX) {
        fail_event(loader, index, "size or alignment is too large");
    }
    if (kind != TRACE_NULL && event->block >= loader->header->block_count) {
        fail_event(loader, index, "there is no such block");
    }
}

static uint32_t slot_take(struct loader *loader, struct thread_state *state) {
    uint32_t slot = state->free_slot;
    if (slot != NO_SLOT) {
        state->free_slot = loader->slots[slot].next_free;
        return slot;
    }
    if (state->fresh == state->fresh_end) {
        state->fresh = loader->slots_used;
        state->fresh_end = loader->slots_used += SLOTS_AT_ONCE;
    }
    return state->fresh++;
}

/* Does the checks that need earlier events; returns the slot of the event's block. */
static uint32_t block_step(struct loader *loader, uint64_t index, unsigned kind) {
    const struct trace_plan_event *event = &loader->events[index];
    struct thread_state *state = &loader->states[event->thread];
    struct block *block = &loader->blocks[event->block];
    if (kind == TRACE_ALLOCATE && block->state != BLOCK_UNKNOWN) {
        fail_event(loader, index, "the block was allocated before");
    }
    if (kind != TRACE_ALLOCATE && block->state != BLOCK_LIVE) {
        fail_event(loader, index,
                   block->state == BLOCK_RELEASED ? "the block was released before" : "the block was never allocated");
    }
    if (kind == TRACE_ALLOCATE) {
        *block = (struct block){.slot = slot_take(loader, state), .state = BLOCK_LIVE};
    }
    uint64_t size = kind == TRACE_RELEASE ? 0 : event->size;
    loader->live_bytes += size - block->size;
    block->size = size;
    if (loader->live_bytes > loader->peak_bytes) {
        loader->peak_bytes = loader->live_bytes;
    }
    if (kind == TRACE_RELEASE) {
        block->state = BLOCK_RELEASED;
        loader->slots[block->slot].next_free = state->free_slot;
        state->free_slot = block->slot;
    }
    return block->slot;
}

static void add_event(struct loader *loader, struct plan_thread *thread, uint64_t index) {
    const struct trace_plan_event *event = &loader->events[index];
    unsigned kind = event->function_kind >> 4;
    struct plan_event *added = &thread->events[thread->count];
    if (thread->count % PLAN_PACE_EVENTS == 0) {
        thread->places[thread->count / PLAN_PACE_EVENTS] = index;
    }
    if (thread->count++ == 0) {
        thread->first = index;
    }
    thread->last = index;
    /* The masks tell the compiler what check_event has already checked. */
    *added = (struct plan_event){.size = event->size & (PLAN_SIZE_MAX * 2 - 1),
                                 .align_log2 = event->align_log2 & 0x3fU,
                                 .function = event->function_kind & 0x0fU,
                                 .kind = kind & 0x0fU};
    if (kind != TRACE_NULL) {
        added->slot = block_step(loader, index, kind);
        added->turn = loader->slots[added->slot].turn++;
    }
}

struct plan plan_load(const char *path) {
    size_t bytes;
    const void *file = map_file(path, &bytes);
    const struct trace_plan *header = file;
    check_header(path, header, bytes);
    uint32_t threads = header->thread_count;
    uint64_t slots_max = (uint64_t)header->block_count + (uint64_t)threads * SLOTS_AT_ONCE;
    if (slots_max >= NO_SLOT || header->block_count > header->event_count) {
        machine_fail("%s: %" PRIu32 " blocks do not fit %" PRIu64 " events", path, header->block_count,
                     header->event_count);
    }
    struct loader loader = {.path = path, .header = header, .events = (const struct trace_plan_event *)(header + 1)};
    loader.blocks = machine_map((size_t)header->block_count + 1, sizeof *loader.blocks);
    loader.slots = machine_map(slots_max, sizeof *loader.slots);
    loader.states = machine_map(threads, sizeof *loader.states);
    struct plan plan = {
        .thread_count = threads, .event_count = header->event_count, .block_count = header->block_count};
    plan.threads = machine_map(threads, sizeof *plan.threads);
    for (uint64_t i = 0; i < plan.event_count; i++) {
        check_event(&loader, i);
        plan.threads[loader.events[i].thread].count++;
    }
    if (loader.threads_seen != threads) {
        machine_fail("%s: the header says %" PRIu32 " threads, %" PRIu32 " have events", path, threads,
                     loader.threads_seen);
    }
    for (uint32_t t = 0; t < threads; t++) {
        struct plan_thread *thread = &plan.threads[t];
        thread->events = machine_map(thread->count, sizeof *thread->events);
        thread->places = machine_map(thread->count / PLAN_PACE_EVENTS + 1, sizeof *thread->places);
        thread->count = 0;
        loader.states[t].free_slot = NO_SLOT;
    }
    for (uint64_t i = 0; i < plan.event_count; i++) {
        add_event(&loader, &plan.threads[loader.events[i].thread], i);
    }
    plan.ends = machine_map(threads, sizeof *plan.ends);
    for (uint64_t i = 0, ended = 0; i < plan.event_count; i++) {
        uint32_t thread = loader.events[i].thread;
        if (plan.threads[thread].last == i) {
            plan.ends[ended++] = thread;
        }
    }
    plan.slot_count = loader.slots_used;
    plan.peak_bytes = loader.peak_bytes;
    plan.bytes = plan.event_count * sizeof(struct plan_event);
    munmap(loader.blocks, ((size_t)header->block_count + 1) * sizeof *loader.blocks);
    munmap(loader.slots, slots_max * sizeof *loader.slots);
    munmap(loader.states, threads * sizeof *loader.states);
    munmap((void *)(uintptr_t)file, bytes);
    return plan;
}
