/*
 * request.h - what HAKOZUNA_STATS, HAKOZUNA_PROFILE and HAKOZUNA_LEAKS ask for: words with commas between them, such
 * as "json,signal=USR2,file=/tmp/%e.%p". reporter.c does it. Pure functions, which allocate nothing.
 */
#ifndef HZ_FRONT_REQUEST_H
#define HZ_FRONT_REQUEST_H

#include "hakozuna/hakozuna.h"

#include "base/os/compiler.h"

#define HZ_REQUEST_WORDS                                                                                               \
    "text, verbose, json, exit, listen, signal=NAME, every=SECONDS, file=PATTERN with %p and %e, children; 0 (off), "  \
    "1 "                                                                                                               \
    "(text,exit)"

#define HZ_REQUEST_PROFILE_WORDS                                                                                       \
    "rate=BYTES, unwind=tables or frame-pointer, exit, leak, peak, limit, listen, wait, signal=NAME, every=SECONDS, "  \
    "file=PATTERN with "                                                                                               \
    "%p and "                                                                                                          \
    "%e, children; 0 (off), 1 (exit)"

#define HZ_REQUEST_LEAKS_WORDS                                                                                         \
    "exit, status=NUMBER, signal=NAME, every=SECONDS, file=PATTERN with %p and %e, children; 0 (off), 1 (exit)"

enum {
    HZ_REQUEST_ROOM = 512,
    HZ_REQUEST_RATE = 512 << 10, /* bytes */
};

/* What is asked for, each by a variable of its own. */
enum hz_request_of { HZ_REQUEST_STATS, HZ_REQUEST_PROFILE, HZ_REQUEST_LEAKS, HZ_REQUESTS };

struct hz_request {
    enum hz_request_of of;
    enum hz_stats_format format; /* of statistics */
    uint64_t rate;               /* of a profile; bytes */
    bool by_frames;              /* of a profile: call stacks by frame pointers */
    bool leaks;                  /* of a profile: at exit, a list of leaks */
    int status;                  /* of leaks: with which the process ends if there are some; 0: its own */
    bool at_peak;                /* of a profile: live memory is a tenth above the last peak */
    bool at_limit;               /* of a profile: the heap stays above the soft limit */
    bool at_exit;                /* and before SIGTERM ends the process */
    bool listens;                /* whoever asks at a socket (listener.h) */
    bool waits;                  /* of a profile: sampling begins when somebody asks */
    bool in_children;            /* in processes that the program starts, too */
    int signal;                  /* 0: none */
    uint32_t every_s;            /* 0: never */
    char file[HZ_REQUEST_ROOM];  /* a pattern; "": stderr, only for statistics */
};

/* Reads the words. Calls `refuse` for each word that is not allowed, and goes on without it. A request that says only
   how to report means at exit. */
void hz_request_read(enum hz_request_of of, const char *words, struct hz_request *request,
                     void (*refuse)(const char *word, size_t length, const char *allowed));

/* Whether there is anything that the reporter's thread does while the program runs. */
bool hz_request_is_meanwhile(const struct hz_request *request);

/* Whether there is anything to do. */
bool hz_request_is_any(const struct hz_request *request);

/* Puts the names of program and process into a file's pattern. False when the path does not fit. */
bool hz_request_path(const char *pattern, const char *program, uint32_t id, char *path, size_t room);

#endif
