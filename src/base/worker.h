/*
 * worker.h - starts the library's own threads: the heap's keeper, and the reporter of HAKOZUNA_STATS and
 * HAKOZUNA_PROFILE.
 */
#ifndef HZ_BASE_WORKER_H
#define HZ_BASE_WORKER_H

#include "base/compiler.h"

#include <pthread.h>

/* Starts a thread that blocks all signals, has a small stack, and has ordinary priority. *thread is its handle, for the
   caller. Returns 0 or an errno value. Any thread; not from a signal handler. */
int hz_worker_start(pthread_t *thread, void *(*run)(void *));

#endif
