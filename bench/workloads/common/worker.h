/*
 * worker.h - starting the threads of a workload together, pinned, and timing them.
 *
 * A workload's per-thread struct begins with `struct worker` and lives in an array from workers_map, in which
 * each element has cache lines of its own: two threads' counters on one line once hid a factor of two.
 * The measured time is that from the first thread leaving the start line to the last one passing the finish line.
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
    struct start_line *start_line; /* opaque: this header does without feature macros */
    uint64_t start_ns, finish_ns;  /* owner: the thread; read by others after it was joined */
};

/* Waits for all workers; called once by each, when its tables are ready. */
void worker_start(struct worker *self);
void worker_finish(struct worker *self);

/* Starts `count` threads that run body(element i), thread i bound to cpu i mod n, and joins them. `bytes_each` is
   the size of an element. */
void workers_run(void *elements, size_t bytes_each, unsigned count, void *(*body)(void *element));

/* From the first start to the last finish, in seconds. All of them have finished. */
double workers_seconds(const void *elements, size_t bytes_each, unsigned count);

/* pthread_create that ends the program when it fails. */
pthread_t worker_thread_start(void *(*body)(void *), void *argument);

/* "seconds=", the RSS lines, "identity=ok", and as the last line "<figure>=<value>". */
void workers_print_result(double seconds, const char *figure, double value);

#endif /* WORKLOADS_WORKER_H */
