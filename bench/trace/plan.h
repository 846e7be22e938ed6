/*
 * plan.h - the plan of a replay in memory: the events of each thread, and what each event has to wait for.
 *
 * A live block has a slot. The events of a slot have turns 0, 1, 2, ... in the order of the recording, and each waits
 * for its turn. So a release follows the allocation, whichever threads they belong to. A slot is reused only by the
 * thread that released its last block, so reuse adds no waiting.
 *
 * No deadlock: take the events in recorded order. The first event that is not done yet is the next one of its thread,
 * and all earlier events of its slot are done, so it can proceed. plan_load checks that the plan is in such an order.
 */
#ifndef TRACE_PLAN_H
#define TRACE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_format.h"

#define PLAN_SIZE_MAX (UINT64_C(1) << 47) /* the address space of a process; no allocator can serve more */

struct plan_event {
    uint64_t size : 48;
    uint64_t align_log2 : 6;
    uint64_t function : 6; /* enum trace_function */
    uint64_t kind : 4;     /* enum trace_kind */
    uint32_t slot, turn;
};

enum { PLAN_PACE_EVENTS = 256 };

struct plan_thread {
    struct plan_event *events;
    uint64_t count;
    uint64_t *places;     /* of every PLAN_PACE_EVENTS-th event: its index among the events of all threads */
    uint64_t first, last; /* indices of the first and last event among the events of all threads */
};

struct plan {
    struct plan_thread *threads; /* in the order of their first events */
    uint32_t *ends;              /* the threads in the order of their last events */
    uint32_t thread_count;
    uint32_t slot_count, block_count;
    uint64_t event_count;
    uint64_t bytes;      /* size of all threads' events */
    uint64_t peak_bytes; /* the most bytes that were live at a time in the recording */
};

/* Loads a plan. A bad plan ends the program with a message that names the file and, if possible, the event. */
struct plan plan_load(const char *path);

#endif /* TRACE_PLAN_H */
