/*
 * worker.c - see worker.h.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <stdio.h>
#include <string.h>

struct start_line {
    pthread_barrier_t barrier;
};

struct launch {
    void *(*body)(void *);
    struct worker *worker;
};

void worker_start(struct worker *self) {
    pthread_barrier_wait(&self->start_line->barrier);
    self->start_ns = machine_now_ns();
}

void worker_finish(struct worker *self) {
    self->finish_ns = machine_now_ns();
}

static void *launch_pinned(void *argument) {
    struct launch *launch = argument;
    machine_pin(launch->worker->index);
    return launch->body(launch->worker);
}

pthread_t worker_thread_start(void *(*body)(void *), void *argument) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, body, argument);
    if (error != 0) {
        machine_fail("cannot start a thread: %s", strerror(error));
    }
    return thread;
}

void workers_run(void *elements, size_t bytes_each, unsigned count, void *(*body)(void *element)) {
    struct start_line start_line;
    pthread_t *threads = machine_map(count, sizeof *threads);
    struct launch *launches = machine_map(count, sizeof *launches);
    pthread_barrier_init(&start_line.barrier, NULL, count);
    for (unsigned i = 0; i < count; i++) {
        struct worker *worker = (struct worker *)(void *)((unsigned char *)elements + bytes_each * i);
        worker->index = i;
        worker->start_line = &start_line;
        launches[i] = (struct launch){.body = body, .worker = worker};
        threads[i] = worker_thread_start(launch_pinned, &launches[i]);
    }
    for (unsigned i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&start_line.barrier);
    machine_unmap(threads, count, sizeof *threads);
    machine_unmap(launches, count, sizeof *launches);
}

double workers_seconds(const void *elements, size_t bytes_each, unsigned count) {
    uint64_t first_ns = UINT64_MAX;
    uint64_t last_ns = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct worker *worker =
            (const struct worker *)(const void *)((const unsigned char *)elements + bytes_each * i);
        first_ns = worker->start_ns < first_ns ? worker->start_ns : first_ns;
        last_ns = worker->finish_ns > last_ns ? worker->finish_ns : last_ns;
    }
    return (double)(last_ns - first_ns) / 1e9;
}

void workers_print_result(double seconds, const char *figure, double value) {
    machine_print_malloc_source();
    if (strcmp(figure, "seconds") != 0) {
        printf("seconds=%.6f\n", seconds);
    }
    machine_print_rss();
    printf("identity=ok\n");
    printf(strcmp(figure, "seconds") == 0 ? "%s=%.6f\n" : "%s=%.0f\n", figure, value);
}
