/*
 * startup.h - what the process was like when the library was loaded: whether a filter restricts its system calls, on
 * which CPUs it may run, and how nice it is.
 *
 * All of it comes from one file, /proc/thread-self/status. The dynamic linker has opened files just before, so a filter
 * that was there then allows that. In a static program nothing has, so nothing is read, and nothing is known.
 */
#ifndef HZ_BASE_STARTUP_H
#define HZ_BASE_STARTUP_H

#include "base/compiler.h"
#include "base/cpus.h"

struct hz_startup {
    bool is_known;    /* the file was read */
    bool is_filtered; /* known: a seccomp filter is in force */
    bool has_cpus;    /* known: cpus */
    int nice;         /* known, and no filter is in force */
    uint32_t process; /* the same; the kernel's number of the process */
    uint64_t cpus[HZ_CPU_WORDS];
};

/* Looks, once in a process, and tells the OS layer if any call may be made (hz_os_unfiltered). Before a second thread
   attaches. */
void hz_startup_look(void);

/* What was seen. All zeros before. Any thread. */
const struct hz_startup *hz_startup_get(void);

/* The same look at another file, for tests: `status` is in the form of /proc/self/status. */
void hz_startup_look_at(const char *status, struct hz_startup *seen);

#endif
