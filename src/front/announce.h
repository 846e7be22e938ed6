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

/* The same, if it is such a call that can succeed: prctl with PR_SET_SECCOMP or PR_SET_NO_NEW_PRIVS, or seccomp with an
   operation that installs a filter. Programs probe the kernel by calls that must fail. */
void hz_announce_if_filter(long number, long first, long second, long third);

/* Whether the call changes namespaces, root or rights of the calling thread only: unshare, setns, capset and the like.
   The library's threads would keep what the program gives up, and a few such calls are refused while there are other
   threads. */
bool hz_announce_is_of_thread(long number, long first, long second);

/* Makes such a call (not prctl). If the program has no other thread, the library's own end before it and start again
   after it, with the calling thread's new rights. capset and the calls that set ids are looked at afterwards: if they
   gave up nothing for good, nothing happens. Returns as the C library's functions do: -1 with errno. Any thread,
   outside malloc and free. */
long hz_announce_of_thread(long number, long first, long second, long third);

/* Around a call of prctl that is such a call. */
struct hz_announced {
    bool reporter;
    bool keeper;
    uint64_t signals; /* that the thread had blocked */
};
struct hz_announced hz_announce_begin(void);
void hz_announce_end(struct hz_announced ended);

/* The result of a system call as the C library's functions give it: -1 with errno if it is an error. */
long hz_announce_answer(long result);

#endif
