/*
 * worker.c - see worker.h.
 */
#include "base/process/worker.h"

#include "base/os/os.h"
#include "base/process/startup.h"
#include "base/process/symbols.h"

enum { STACK_BYTES = 128 << 10 }; /* beside what the C library takes of it */

/* What glibc takes of a stack: thread-local data are a part of it, and pthread_attr_setstacksize counts none of them. 0
   when unknown. */
static size_t stack_overhead(const pthread_attr_t *attributes) {
    typedef size_t minimum_function(const pthread_attr_t *);
    minimum_function *minimum = (minimum_function *)hz_symbols_next(HZ_SYMBOL_PTHREAD_GET_MINSTACK);
    return minimum != NULL ? minimum(attributes) : 0;
}

static int start_unsignalled(pthread_t *thread, void *(*run)(void *)) {
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0)
        return error;
    size_t overhead = stack_overhead(&attributes);
    if (overhead > 0) /* otherwise the default is large enough */
        error = pthread_attr_setstacksize(&attributes, hz_round_up(overhead + STACK_BYTES, hz_os_page_bytes()));
    if (error == 0)
        error = pthread_create(thread, &attributes, run, NULL);
    (void)pthread_attr_destroy(&attributes);
    return error;
}

int hz_worker_start(pthread_t *thread, void *(*run)(void *)) {
    uint64_t saved = hz_os_signals_block(); /* the new thread inherits it */
    int error = start_unsignalled(thread, run);
    hz_os_signals_restore(saved);
    return error;
}

void hz_worker_begin(const char *name) {
    const struct hz_startup *startup = hz_startup_get();
    hz_os_thread_ordinary(startup->nice, startup->has_cpus ? startup->cpus : NULL, HZ_CPU_WORDS);
    hz_os_name_thread(name);
}
