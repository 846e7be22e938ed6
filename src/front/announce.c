/*
 * announce.c - see announce.h.
 */
#define _GNU_SOURCE
#include "front/announce.h"

#include "base/os/os.h"
#include "base/os/syscall.h"
#include "base/process/process.h"
#include "front/reports/reporter.h"
#include "heap/back/keeper.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

void hz_announce_filter(void) {
    (void)hz_reporter_confine();
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

/* Whether it can be the second thread that is in the way; EUSERS: for namespaces of time. The kernel also says EINVAL
   where it knows no such flag. */
static bool is_of_threads(long result) {
    return result == -EINVAL || result == -EUSERS;
}

/* Whether the program has no thread beside the calling one: otherwise the call is refused without ours, too. */
static bool is_alone_with_ours(void) {
    struct hz_process self;
    hz_process_get(&self);
    return !self.is_known || self.threads <= 1 + hz_reporter_threads() + (size_t)hz_keeper_runs();
}

/* The kernel refuses the call if there is a second thread, and counts a joined thread for a moment longer. Nothing
   tells when that moment is over, so the call is repeated. */
static long call_without_ours(long number, long first, long second) {
    enum { TRIES = 100, PAUSE_MS = 1 };
    const uint32_t never_changes = 0;
    long result = -EINVAL;
    for (unsigned i = 0; i < TRIES && is_of_threads(result); i++) {
        if (i > 0)
            hz_os_wait_ms(&never_changes, 0, PAUSE_MS);
        result = HZ_SYSCALL(number, first, second, 0);
    }
    return result;
}

static int call_alone(long number, long first, long second) {
    long result = HZ_SYSCALL(number, first, second, 0);
    if (is_of_threads(result) && is_alone_with_ours()) {
        bool has_ended = hz_reporter_confine();
        bool is_suspended = hz_keeper_suspend();
        if (has_ended || is_suspended)
            result = call_without_ours(number, first, second);
        if (is_suspended)
            hz_keeper_resume(true);
        if (has_ended && hz_syscall_failed(result)) /* our threads were not what was in the way */
            hz_reporter_start_again();
    }
    return hz_announce_answer(result);
}

int hz_announce_unshare(int flags) {
    return call_alone(SYS_unshare, flags, 0);
}

int hz_announce_setns(int fd, int kind) {
    return call_alone(SYS_setns, fd, kind);
}
