/*
 * announce.c - see announce.h.
 */
#define _GNU_SOURCE
#include "front/announce.h"

#include "base/syscall.h"
#include "front/reporter.h"
#include "heap/keeper.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>

void hz_announce_filter(void) {
    hz_reporter_confine();
    hz_keeper_confine();
}

void hz_announce_if_filter(long number, long first) {
    bool is_prctl = number == SYS_prctl && (first == PR_SET_SECCOMP || first == PR_SET_NO_NEW_PRIVS);
    bool is_seccomp = number == SYS_seccomp && (first == SECCOMP_SET_MODE_STRICT || first == SECCOMP_SET_MODE_FILTER);
    if (is_prctl || is_seccomp)
        hz_announce_filter();
}

int hz_announce_answer(long result) {
    if (!hz_syscall_failed(result))
        return (int)result;
    errno = (int)-result;
    return -1;
}

static int call_alone(long number, long first, long second) {
    hz_reporter_confine();
    bool had_keeper = hz_keeper_suspend();
    long result = HZ_SYSCALL(number, first, second, 0);
    if (had_keeper)
        hz_keeper_resume(true);
    return hz_announce_answer(result);
}

int hz_announce_unshare(int flags) {
    const int alone = CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
    return (flags & alone) != 0 ? call_alone(SYS_unshare, flags, 0)
                                : hz_announce_answer(HZ_SYSCALL(SYS_unshare, flags, 0, 0));
}

int hz_announce_setns(int fd, int kind) {
    return call_alone(SYS_setns, fd, kind);
}
