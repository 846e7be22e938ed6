/*
 * worker.h - starts the threads of a workload together, pins them, and times them.
 *
 * A workload's per-thread struct begins with `struct worker` and is an element of an array from machine_map. The
 * alignment of `struct worker` gives each element its own cache lines: two threads' counters on one line once hid a
 * factor of two. The measured time runs from the first thread leaving the start line to the last one finishing.
 */
#ifndef WORKLOADS_WORKER_H
#define WORKLOADS_WORKER_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "machine.h"

enum { WORKER_COUNT_MAX = 1024 };

struct start_line;

struct worker {
    _Alignas(MACHINE_LINE_BYTES) unsigned index;
    struct start_line *start_line; /* opaque, so that this header needs no feature macros */
    uint64_t start_ns, finish_ns;  /* owner: the thread; read by others after the thread was joined */
};

/* Waits for all workers, then starts the clock; each worker calls it once, when its tables are ready. */
void worker_start(struct worker *self);
void worker_finish(struct worker *self);

/* Starts `count` threads that run body(element i), thread i bound to cpu i mod n, and joins them. `bytes_each` is
   the size of an element. */
void workers_run(void *elements, size_t bytes_each, unsigned count, void *(*body)(void *element));

/* Seconds from the first start to the last finish. All workers must have finished. */
double workers_seconds(const void *elements, size_t bytes_each, unsigned count);

/* Calls pthread_create; ends the program when it fails. */
pthread_t worker_thread_start(void *(*body)(void *), void *argument);

/* Prints "malloc_from=", "seconds=", the RSS lines, "identity=ok", and as the last line "<figure>=<value>". */
void workers_print_result(double seconds, const char *figure, double value);

#endif /* WORKLOADS_WORKER_H */
