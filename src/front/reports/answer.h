/*
 * answer.h - what a process answers to whoever asks it at its socket (base/process/listener.h): statistics, or the heap
 * profile, which it can begin and end for that.
 */
#ifndef HZ_FRONT_ANSWER_H
#define HZ_FRONT_ANSWER_H

#include "base/process/listener.h"

/* Requests are lines:
     text, verbose, json   statistics
     profile               the profile as it is
     profile start         begins sampling for good, in a process that waits; then the profile
     profile for=SECONDS   the same for so long, 1 to 86400; of several the longest counts
     profile stop          ends it, whoever has begun it; then the profile
   The answer is a line "ok", the report, and a line "end"; or a line "no: " and why not. After "profile start", "for"
   and "stop" a line stands before the profile: "began", "runs" or "ended", and the number of threads that could not be
   reached. */
extern HZ_HIDDEN const struct hz_listener_duties hz_answer_duties;

/* When the library is loaded: whether the heap profile waits until somebody asks. */
void hz_answer_use(bool waits);
bool hz_answer_is_waiting(void);

#endif
