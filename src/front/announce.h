/*
 * announce.h - what the library does before the program makes certain system calls. The functions of the C library that
 * make these calls are replaced (override_*.c).
 */
#ifndef HZ_FRONT_ANNOUNCE_H
#define HZ_FRONT_ANNOUNCE_H

#include "base/os/compiler.h"

/* Before a call that restricts the process's system calls, or allows the next call to do so. The library's threads end,
   and from now on the library makes plain calls only (hz_os_confine). */
void hz_announce_filter(void);

/* The same if the numbers are those of such a call: prctl with PR_SET_SECCOMP or PR_SET_NO_NEW_PRIVS, or seccomp with
   an operation that installs a filter. */
void hz_announce_if_filter(long number, long first);

/* unshare and setns. The kernel refuses some of them to a process with several threads, with EINVAL. Then the keeper
   ends, the call is made again, and the keeper starts anew. The reporter ends for good; reports at exit are still made.
   Returns -1 with errno, as the C library's functions do. */
int hz_announce_unshare(int flags);
int hz_announce_setns(int fd, int kind);

/* The result of a system call as the C library's functions give it: -1 with errno if it is an error. */
int hz_announce_answer(long result);

#endif
