/*
 * override_namespace.c - unshare and setns, which the kernel refuses to a process with several threads: for user
 * namespaces always, for others if threads share more than the program knows. The keeper must not be the second thread.
 * In the C library both are the system call and nothing else.
 */
#define _GNU_SOURCE
#include "base/compiler.h"
#include "base/syscall.h"
#include "front/reporter.h"
#include "heap/keeper.h"

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>

/* The reporter ends for good, since the program will go on as another process in all but its number. Reports at exit
   are still made. */
static int call_alone(long number, long a, long b) {
    hz_reporter_confine();
    bool had_keeper = hz_keeper_suspend();
    long result = HZ_SYSCALL(number, a, b, 0);
    if (had_keeper)
        hz_keeper_resume(true);
    if (!hz_syscall_failed(result))
        return (int)result;
    errno = (int)-result;
    return -1;
}

static int call(long number, long a, long b) {
    long result = HZ_SYSCALL(number, a, b, 0);
    if (!hz_syscall_failed(result))
        return (int)result;
    errno = (int)-result;
    return -1;
}

HZ_EXPORT int unshare(int flags) {
    const int alone = CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
    return (flags & alone) != 0 ? call_alone(SYS_unshare, flags, 0) : call(SYS_unshare, flags, 0);
}

HZ_EXPORT int setns(int fd, int kind) {
    return call_alone(SYS_setns, fd, kind);
}
