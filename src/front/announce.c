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
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <string.h>
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

enum { NEW_TIME = 0x80 }; /* CLONE_NEWTIME, in the headers since Linux 5.6 */

/* Only the thread's future children enter these. After CLONE_NEWPID the kernel refuses every new thread. */
#define FUTURE_CHILDRENS ((long)(CLONE_NEWPID | NEW_TIME))

/* Calls after which nobody can tell whether the thread has given something up for good. */
static bool is_for_good(long number, long first, long second) {
    switch (number) {
    case SYS_unshare:
        return (first & ~FUTURE_CHILDRENS) != 0;
    case SYS_setns:
        return second == 0 || (second & ~FUTURE_CHILDRENS) != 0;
    case SYS_landlock_restrict_self:
        return true;
    case SYS_prctl:
        return first == PR_CAPBSET_DROP || first == PR_SET_SECUREBITS ||
               (first == PR_CAP_AMBIENT && second != PR_CAP_AMBIENT_IS_SET);
    default:
        return false;
    }
}

/* Calls that servers also make for each request, and then undo. They are raw system calls but for capset: the C
   library's setuid and the like change all threads. */
static bool can_be_undone(long number) {
    switch (number) {
    case SYS_capset:
    case SYS_setuid:
    case SYS_setgid:
    case SYS_setreuid:
    case SYS_setregid:
    case SYS_setresuid:
    case SYS_setresgid:
        return true;
    default:
        return false;
    }
}

bool hz_announce_is_of_thread(long number, long first, long second) {
    return is_for_good(number, first, second) || can_be_undone(number);
}

/* What a thread can get back by itself as long as it has it. */
struct rights {
    struct __user_cap_data_struct capabilities[_LINUX_CAPABILITY_U32S_3];
    uint32_t ids[2][3]; /* of the user and the group: real, effective, saved */
};

static void rights_get(struct rights *rights) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    memset(rights, 0, sizeof(*rights)); /* none of the calls fails for valid addresses */
    (void)HZ_SYSCALL(SYS_capget, &header, rights->capabilities, 0);
    (void)HZ_SYSCALL(SYS_getresuid, &rights->ids[0][0], &rights->ids[0][1], &rights->ids[0][2]);
    (void)HZ_SYSCALL(SYS_getresgid, &rights->ids[1][0], &rights->ids[1][1], &rights->ids[1][2]);
}

static bool has_id(const uint32_t *ids, uint32_t id) {
    return ids[0] == id || ids[1] == id || ids[2] == id;
}

/* root gets any id back. */
static bool are_given_up(const struct rights *before) {
    struct rights now;
    bool is_lost = false;
    rights_get(&now);
    for (unsigned kind = 0; kind < HZ_ARRAY_LENGTH(now.ids) && !has_id(now.ids[0], 0); kind++)
        for (unsigned i = 0; i < HZ_ARRAY_LENGTH(now.ids[kind]); i++)
            is_lost |= !has_id(now.ids[kind], before->ids[kind][i]);
    for (unsigned i = 0; i < HZ_ARRAY_LENGTH(now.capabilities); i++)
        is_lost |= (before->capabilities[i].permitted & ~now.capabilities[i].permitted) != 0;
    return is_lost;
}

static bool has_ours(void) {
    return hz_reporter_threads() != 0 || hz_keeper_runs();
}

/* Whether no other thread of the program is attached, and so probably none exists. */
static bool is_probably_alone(void) {
    return hz_registry_used() <= 1 + (size_t)hz_keeper_runs();
}

static bool is_alone_with_ours(void) {
    struct hz_process self;
    if (!is_probably_alone() || !hz_keeper_is_of_this_process())
        return false;
    hz_process_get(&self);
    return !self.is_known || self.threads <= 1 + hz_reporter_threads() + (size_t)hz_keeper_runs();
}

/* Signals wait, so that a handler finds the threads that it wakes. */
struct hz_announced hz_announce_begin(void) {
    struct hz_announced ended = {.reporter = false};
    if (!has_ours() || !is_alone_with_ours())
        return ended;
    ended.signals = hz_os_signals_defer();
    ended.reporter = hz_reporter_confine();
    ended.keeper = hz_keeper_suspend();
    if (!ended.reporter && !ended.keeper)
        hz_os_signals_restore(ended.signals);
    return ended;
}

void hz_announce_end(struct hz_announced ended) {
    int saved = errno;
    if (ended.keeper)
        hz_keeper_resume(true);
    if (ended.reporter)
        hz_reporter_start_again();
    if (ended.reporter || ended.keeper)
        hz_os_signals_restore(ended.signals);
    errno = saved;
}

/* Whether it can be a second thread that is in the way; EUSERS: for namespaces of time. The kernel also says EINVAL
   where it knows no such flag. */
static bool is_of_threads(long number, long result) {
    return (number == SYS_unshare || number == SYS_setns) && (result == -EINVAL || result == -EUSERS);
}

/* setns with 0 enters a namespace of whatever kind. */
static void note_users(long number, long first, long second, long result) {
    bool is_other = (number == SYS_unshare && (first & CLONE_NEWUSER) != 0) ||
                    (number == SYS_setns && (second == 0 || (second & CLONE_NEWUSER) != 0));
    if (is_other && result == 0 && hz_keeper_is_of_this_process())
        hz_reporter_stay_silent();
}

/* The kernel counts a joined thread for a moment longer, the program's or ours. Nothing tells when that moment is over,
   so the call is repeated. */
static long call_for_good(long number, long first, long second, long third) {
    enum { TRIES = 100, PAUSE_MS = 1 };
    const uint32_t never_changes = 0;
    struct hz_announced ended = {.reporter = false};
    if (is_for_good(number, first, second))
        ended = hz_announce_begin();
    long result = HZ_SYSCALL(number, first, second, third);
    for (unsigned i = 1; i < TRIES && is_of_threads(number, result); i++) {
        bool has_ended = ended.keeper || ended.reporter;
        if (!has_ended && !(has_ours() && is_probably_alone()))
            break;
        hz_os_wait_ms(&never_changes, 0, PAUSE_MS);
        if (!has_ended)
            ended = hz_announce_begin();
        result = HZ_SYSCALL(number, first, second, third);
    }
    note_users(number, first, second, result);
    hz_announce_end(ended);
    return result;
}

long hz_announce_of_thread(long number, long first, long second, long third) {
    struct rights before;
    bool is_looked_at = can_be_undone(number) && has_ours() && is_probably_alone();
    bool may_ask = is_looked_at && hz_os_is_unfiltered(); /* a filter could kill for the questions */
    if (!can_be_undone(number))
        return hz_announce_answer(call_for_good(number, first, second, third));
    if (may_ask)
        rights_get(&before);
    long result = HZ_SYSCALL(number, first, second, third);
    if (is_looked_at && result == 0 && (!may_ask || are_given_up(&before)))
        hz_announce_end(hz_announce_begin());
    return hz_announce_answer(result);
}
