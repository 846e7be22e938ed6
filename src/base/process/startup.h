/*
 * startup.h - what the process was like when the library was loaded: whether a filter restricts its system calls,
 * whether it has one thread, on which CPUs it may run, and how nice it is.
 *
 * All but the nice value come from one file, /proc/thread-self/status. The nice value and the process's number come
 * from system calls, which are made only if there is no filter. To open the file is safe: the dynamic linker has opened
 * files just before, so a filter allows it. No dynamic linker runs in a static program, so there nothing is read or
 * known.
 */
#ifndef HZ_BASE_PROCESS_STARTUP_H
#define HZ_BASE_PROCESS_STARTUP_H

#include "base/os/compiler.h"
#include "base/process/cpus.h"

struct hz_startup {
    bool is_known;       /* the file was read */
    bool is_filtered;    /* known: a seccomp filter is in force */
    bool has_cpus;       /* known: cpus */
    bool has_one_thread; /* known: the process has one */
    int nice;            /* known only without a filter */
    uint32_t process;    /* the kernel's number of the process; 0 with a filter, or when nothing is known */
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
