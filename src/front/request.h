/*
 * request.h - what HAKOZUNA_STATS asks for: words with commas between them, such as "json,signal=USR2,file=/tmp/%e.%p".
 * reporter.c does it. Pure functions, which allocate nothing.
 */
#ifndef HZ_FRONT_REQUEST_H
#define HZ_FRONT_REQUEST_H

#include "hakozuna/hakozuna.h"

#include "base/compiler.h"

#define HZ_REQUEST_WORDS                                                                                               \
    "text, verbose, json, exit, signal=NAME, every=SECONDS, file=PATTERN with %p and %e, children; 0 (off), 1 "        \
    "(text,exit)"

enum { HZ_REQUEST_ROOM = 512 };

struct hz_request {
    enum hz_stats_format format;
    bool at_exit;               /* and before SIGTERM ends the process */
    bool in_children;           /* in processes that the program starts, too */
    int signal;                 /* 0: none */
    uint32_t every_s;           /* 0: never */
    char file[HZ_REQUEST_ROOM]; /* a pattern, "": stderr */
};

/* Reads the words. Calls `refuse` for each word that is not allowed, and goes on without it. A request that says only
   how to report means at exit. */
void hz_request_read(const char *words, struct hz_request *request,
                     void (*refuse)(const char *word, size_t length, const char *allowed));

/* Whether there is anything to do. */
bool hz_request_is_any(const struct hz_request *request);

/* Puts the names of program and process into a file's pattern. False when the path does not fit. */
bool hz_request_path(const char *pattern, const char *program, uint32_t id, char *path, size_t room);

#endif
