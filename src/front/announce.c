/*
 * announce.c - see announce.h.
 */
#define _GNU_SOURCE
#include "front/announce.h"

#include "base/lists/registry.h"
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

/* libseccomp probes the kernel by calls that must fail: without a filter, or the strict mode with a flag. */
static bool is_filter(long number, long first, long second, long third) {
    if (number == SYS_prctl && first == PR_SET_SECCOMP)
        return second == SECCOMP_MODE_STRICT || (second == SECCOMP_MODE_FILTER && third != 0);
    if (number == SYS_prctl)
        return first == PR_SET_NO_NEW_PRIVS && second == 1;
    if (number != SYS_seccomp)
        return false;
    return (first == SECCOMP_SET_MODE_STRICT && second == 0) || (first == SECCOMP_SET_MODE_FILTER && third != 0);
}

void hz_announce_if_filter(long number, long first, long second, long third) {
    if (HZ_UNLIKELY(is_filter(number, first, second, third)))
        hz_announce_filter();
}

long hz_announce_answer(long result) {
    if (!hz_syscall_failed(result))
        return result;
    errno = (int)-result;
    return -1;
}

/* ---- calls that change one thread ------------------------------------------------------------------ */

/* Without calls that a thread can undo, since servers make them for each request: setfsuid, setfsgid, and those that
 * pass -1. These are raw system calls: the C library's setuid and the like change all threads. */
bool hz_announce_is_of_thread(long number, long first, long second, long third) {
    switch (number) {
    case SYS_unshare:
    case SYS_setns:
    case SYS_capset:
    case SYS_setuid:
    case SYS_setgid:
    case SYS_landlock_restrict_self:
        return true;
    case SYS_setreuid:
    case SYS_setregid:
        return (int)first != -1 && (int)second != -1;
    case SYS_setresuid:
    case SYS_setresgid:
        return (int)first != -1 && (int)second != -1 && (int)third != -1;
    case SYS_prctl:
        return first == PR_CAPBSET_DROP || first == PR_SET_SECUREBITS ||
               (first == PR_CAP_AMBIENT && second != PR_CAP_AMBIENT_IS_SET);
    default:
        return false;
    }
}

/* Whether the program has no thread beside the calling one. */
static bool is_alone_with_ours(void) {
    struct hz_process self;
    if (hz_registry_used() > 1 + (size_t)hz_keeper_runs())
        return false;
    hz_process_get(&self);
    return !self.is_known || self.threads <= 1 + hz_reporter_threads() + (size_t)hz_keeper_runs();
}

/* Whether it can be a second thread that is in the way; EUSERS: for namespaces of time. The kernel also says EINVAL
   where it knows no such flag. */
static bool is_of_threads(long number, long result) {
    return (number == SYS_unshare || number == SYS_setns) && (result == -EINVAL || result == -EUSERS);
}

struct hz_announced hz_announce_begin(void) {
    struct hz_announced ended = {false, false};
    if ((hz_reporter_threads() != 0 || hz_keeper_runs()) && is_alone_with_ours()) {
        ended.reporter = hz_reporter_confine();
        ended.keeper = hz_keeper_suspend();
    }
    return ended;
}

void hz_announce_end(struct hz_announced ended) {
    int saved = errno;
    if (ended.keeper)
        hz_keeper_resume(true);
    if (ended.reporter)
        hz_reporter_start_again();
    errno = saved;
}

/* The kernel counts a joined thread for a moment longer. Nothing tells when that moment is over, so the call is
   repeated. */
long hz_announce_of_thread(long number, long first, long second, long third) {
    enum { TRIES = 100, PAUSE_MS = 1 };
    const uint32_t never_changes = 0;
    struct hz_announced ended = hz_announce_begin();
    long result = HZ_SYSCALL(number, first, second, third);
    for (unsigned i = 1; i < TRIES && (ended.keeper || ended.reporter) && is_of_threads(number, result); i++) {
        hz_os_wait_ms(&never_changes, 0, PAUSE_MS);
        result = HZ_SYSCALL(number, first, second, third);
    }
    hz_announce_end(ended);
    return hz_announce_answer(result);
}
