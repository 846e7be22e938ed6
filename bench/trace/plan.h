/*
 * plan.h - the plan of a replay in memory: for each thread its events, with what they have to wait for.
 *
 * A block that is live has a slot. The events of a slot have turns 0, 1, 2, ... in the order of the recording, and
 * each waits for its turn: so a release follows the allocation, whichever threads they belong to. A slot is used
 * again only by the thread that released its last block, for which this adds nothing to wait for.
 *
 * No deadlock: order all events as they were recorded. The first of those that are not done yet is the next one of its
 * thread, and all earlier events of its slot are done; so it can go on. That the order of the plan is such an order
 * is what plan_load checks.
 */
#ifndef TRACE_PLAN_H
#define TRACE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_format.h"

#define PLAN_SIZE_MAX (UINT64_C(1) << 47) /* no allocator serves more: the address space of a process */

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
    uint64_t *places;     /* of every PLAN_PACE_EVENTS-th event among those of all threads */
    uint64_t first, last; /* place of the first and last event among those of all threads */
};

struct plan {
    struct plan_thread *threads; /* in the order of their first events */
    uint32_t *ends;              /* the threads in the order of their last events */
    uint32_t thread_count;
    uint32_t slot_count, block_count;
    uint64_t event_count;
    uint64_t bytes;      /* of the threads' events */
    uint64_t peak_bytes; /* live at a time in the recording, at most */
};

/* Ends the program with a message that names the file, and the event where there is one. */
struct plan plan_load(const char *path);

#endif /* TRACE_PLAN_H */
