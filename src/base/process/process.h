/*
 * process.h - what a report says about the process: its name, how long it has run, how much memory it has.
 *
 * The figures come from /proc. A confined process (hz_os_confine) does not read it, and neither does one without /proc;
 * the figures are unknown then. Allocates nothing, takes no lock. Any thread.
 */
#ifndef HZ_BASE_PROCESS_PROCESS_H
#define HZ_BASE_PROCESS_PROCESS_H

#include "base/os/compiler.h"

struct hz_process {
    const char *program;  /* the name it was started by, without directories; constant */
    uint32_t id;          /* 0 in a confined process */
    bool is_known;        /* the figures below are */
    uint64_t start_ticks; /* when it was started, since the system's start */
    uint64_t uptime_ms;
    size_t threads;
    size_t rss_bytes;
};

void hz_process_get(struct hz_process *process);

/* Bytes of private resident memory: heap, stacks, what the program has mapped for itself; no files, no shared memory.
   `statm` is /proc/self/statm, or a file of the same form; SIZE_MAX if it cannot be read. A thread that may read files
   (surroundings.h). */
size_t hz_process_private_bytes(const char *statm);

enum { HZ_THREAD_NAME_ROOM = 17 };

/* The name of a thread of this process, "" when it is unknown. */
void hz_process_thread_name(uint32_t thread_id, char name[HZ_THREAD_NAME_ROOM]);

#endif
