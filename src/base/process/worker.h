/*
 * worker.h - starts the library's own threads: the heap's keeper, and the reporter of HAKOZUNA_STATS and
 * HAKOZUNA_PROFILE.
 */
#ifndef HZ_BASE_PROCESS_WORKER_H
#define HZ_BASE_PROCESS_WORKER_H

#include "base/os/compiler.h"

#include <pthread.h>

/* At the beginning of such a thread: names it, and gives it the CPUs and the priority that the process had when the
   library was loaded, as far as a filter of system calls lets the library ask for that. */
void hz_worker_begin(const char *name);

/* Starts a thread that blocks all signals and has a small stack. It has the priority and the CPUs of the calling
   thread: to ask for others here would fail where the caller may not have them (hz_os_thread_ordinary). *thread is its
   handle, for the caller. Returns 0 or an errno value. Any thread; not from a signal handler. */
int hz_worker_start(pthread_t *thread, void *(*run)(void *));

#endif
