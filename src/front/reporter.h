/*
 * reporter.h - writes statistics of a process that runs, as HAKOZUNA_STATS asks (request.h): when the process ends,
 * when it gets a signal, every so many seconds. In the products only.
 *
 * A signal's handler only sets a bit and wakes a thread, the reporter, which does the work. So a signal may come at any
 * time, also inside malloc. The reporter has no thread block: it allocates nothing.
 */
#ifndef HZ_FRONT_REPORTER_H
#define HZ_FRONT_REPORTER_H

#include "base/compiler.h"

/* When the library is loaded, by the process's first thread: does what the words ask. `owner`: the number, as text, of
   the process that was asked first (HAKOZUNA_STATS_OWNER); NULL in that process. */
void hz_reporter_start(const char *words, const char *owner);

/* When the process ends. */
void hz_reporter_exit(void);

/* The program is about to restrict its system calls. Ends the reporter, and waits for its end. From then on there is at
   most a report at exit, on stderr. Any thread, outside malloc and free; before hz_keeper_confine. */
void hz_reporter_confine(void);

/* Whether a thread with this function is the reporter. */
bool hz_reporter_is(void *(*start)(void *));

#endif
