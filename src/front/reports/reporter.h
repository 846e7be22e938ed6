/*
 * reporter.h - writes statistics, heap profiles and leaks of a process that runs, as HAKOZUNA_STATS, HAKOZUNA_PROFILE
 * and HAKOZUNA_LEAKS ask (request.h): when the process ends, when it gets a signal, every so many seconds, when
 * somebody asks at a socket. In the products only.
 *
 * A signal's handler only sets a bit and wakes a thread, the reporter, which does the work. That of SIGTERM then waits
 * for the end, unless it has interrupted the heap or the profile. So a signal may come at any time, also inside malloc.
 * The reporter has no thread block: it allocates nothing. Whoever asks at a socket is answered by another thread, the
 * listener (base/process/listener.h).
 */
#ifndef HZ_FRONT_REPORTER_H
#define HZ_FRONT_REPORTER_H

#include "base/os/compiler.h"

/* A variable, and what HAKOZUNA_STATS_OWNER or its like says of it: "number:words" of the process that
   was asked first, NULL in that process. */
struct hz_reporter_words {
    const char *words; /* NULL: nothing is asked */
    const char *owner;
};

/* When the library is loaded, by the process's first thread: reads what the variables ask, one for each
   enum hz_request_of. Allocates nothing. */
void hz_reporter_read(const struct hz_reporter_words *asked);

/* The rate in bytes of the heap profile that is asked for; 0: none. */
uint64_t hz_reporter_profile_rate(void);

/* Whether it is to begin only when somebody asks. */
bool hz_reporter_profile_waits(void);

/* Whether its call stacks are to come by frame pointers. */
bool hz_reporter_profile_by_frames(void);

/* Then does what is asked. Without a profile (hz_profile_rate), none is written. */
void hz_reporter_start(void);

/* When the process ends. */
void hz_reporter_exit(void);

/* The program is about to restrict its system calls. Ends reporter and listener, and waits for their end. From then on
   there is at most a report at exit, on stderr. Returns whether a thread has ended. Any thread, outside malloc and
   free; before hz_keeper_confine. */
bool hz_reporter_confine(void);

/* How many of its threads there are: reporter and listener. A hint. */
size_t hz_reporter_threads(void);

/* After hz_reporter_confine, if the program has not restricted its system calls: they start again, and go on as if they
   had not ended. If they cannot, nothing is said. The process has no other thread but
   the keeper. */
void hz_reporter_start_again(void);

/* Nothing listens any more when threads start again, nor in fork's children: in another user namespace nobody can tell
   who asks. */
void hz_reporter_stay_silent(void);

/* Whether a thread with this function is the reporter or the listener. */
bool hz_reporter_is(void *(*start)(void *));

#endif
