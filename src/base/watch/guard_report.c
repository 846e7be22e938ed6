/*
 * guard_report.c - see guard_report.h. The handler of SIGSEGV may have interrupted any code of the program, so it uses
 * only the stack, write(2), and snprintf with formats for which glibc neither allocates nor locks. Two things are not
 * safe in every case: dladdr, which names the files, takes the dynamic linker's lock, and the unwinder trusts the
 * tables of the interrupted code. So the call stack of the access is written last.
 */
#define _GNU_SOURCE
#include "base/watch/guard_report.h"

#include "base/os/os.h"
#include "base/os/syscall.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sigaction former;    /* const after publish: the action before ours */
static _Atomic(uint32_t) reported; /* cas; 0: no report yet, 1: one is being written, 2: done */

/* ---- the text ---------------------------------------------------------------------------------------- */

static void say(const char *text, int length, size_t room) {
    if (length > 0)
        (void)hz_os_write(STDERR_FILENO, text, hz_min((size_t)length, room - 1)); /* a closed stderr is ignored */
}

static void say_block(const void *address, const struct hz_guard_slot *slot) {
    char text[200];
    const char *at = address;
    const char *behind = slot->start + slot->size;
    const char *where = at < slot->start ? "before" : at < behind ? "inside" : "behind";
    size_t bytes = (size_t)(at < slot->start ? slot->start - at : at < behind ? at - slot->start : at - behind);
    const char *state = slot->state == HZ_GUARD_LIVE ? "live" : "freed";
    say(text,
        snprintf(text, sizeof(text), "  %zu bytes %s a %s block of %zu bytes at 0x%zx\n", bytes, where, state,
                 slot->size, (size_t)(uintptr_t)slot->start),
        sizeof(text));
}

static void report(const char *text, const void *address, const struct hz_guard_slot *slot) {
    char line[160];
    say(line, snprintf(line, sizeof(line), "hakozuna: %.100s 0x%zx\n", text, (size_t)(uintptr_t)address), sizeof(line));
    if (slot != NULL) {
        say_block(address, slot);
        if (slot->state == HZ_GUARD_FREED)
            hz_callstack_write(STDERR_FILENO, "freed by thread", &slot->freed);
        hz_callstack_write(STDERR_FILENO, "allocated by thread", &slot->allocated);
    }
    struct hz_callstack now;
    hz_callstack_take(&now);
    hz_callstack_write(STDERR_FILENO, "found in thread", &now);
}

/* True for the one thread that is to report. Other threads wait until it is done. */
static bool report_begin(void) {
    uint32_t none = 0;
    if (hz_cas_strong_acq_rlx(&reported, &none, 1)) /* cas: picks one thread, and publishes nothing */
        return true;
    while (hz_load_rlx(&reported) == 1) /* relaxed: hint */
        hz_os_wait(&reported, 1);
    return false;
}

void hz_guard_report_after_fork(void) {
    uint32_t writing = 1;
    (void)hz_cas_strong_acq_rlx(&reported, &writing, 0); /* cas: the thread that writes is not in the child */
}

static void report_end(void) {
    hz_store_rlx(&reported, 2); /* relaxed: hint */
    hz_os_wake(&reported, INT32_MAX);
}

void hz_guard_fail(const char *text, const void *address, const struct hz_guard_slot *slot) {
    if (report_begin()) {
        report(text, address, slot);
        report_end();
    }
    abort();
}

/* ---- the signal -------------------------------------------------------------------------------------- */

static void signal_self(int number) {
    long process = HZ_SYSCALL(SYS_getpid, 0, 0, 0);
    (void)HZ_SYSCALL(SYS_tgkill, process, HZ_SYSCALL(SYS_gettid, 0, 0, 0), number); /* fails for bad arguments only */
}

/* Restores the action before ours. */
static void former_restore(void) {
    (void)sigaction(SIGSEGV, &former, NULL); /* fails for bad arguments only */
}

/* A signal that is not ours: does what would have happened without us. */
static void former_call(int number, siginfo_t *info, void *context) {
    bool is_sent = info->si_code <= 0; /* by kill, for example: it does not recur by itself */
    if ((former.sa_flags & SA_SIGINFO) == 0 && former.sa_handler == SIG_IGN && is_sent)
        return;
    if ((former.sa_flags & SA_SIGINFO) == 0 && (former.sa_handler == SIG_DFL || former.sa_handler == SIG_IGN)) {
        former_restore();
        if (is_sent)
            signal_self(number); /* stays pending until this handler returns */
        return;
    }
    (void)pthread_sigmask(SIG_BLOCK, &former.sa_mask, NULL); /* fails for bad arguments only; ends with this handler */
    if ((former.sa_flags & SA_SIGINFO) != 0)
        former.sa_sigaction(number, info, context);
    else
        former.sa_handler(number);
}

static const char *text_of(const void *address, const struct hz_guard_slot *slot) {
    if (slot->state == HZ_GUARD_FREED)
        return HZ_TEXT_GUARD_FREED;
    return (const char *)address < slot->start ? HZ_TEXT_GUARD_BEFORE : HZ_TEXT_GUARD_BEHIND;
}

/* After a report the access faults again, now under the former action. */
static void on_fault(int number, siginfo_t *info, void *context) {
    int saved = errno;
    bool is_access = info->si_code == SEGV_ACCERR || info->si_code == SEGV_MAPERR;
    if (!is_access || !hz_guard_has(info->si_addr)) {
        former_call(number, info, context);
    } else {
        if (report_begin()) {
            struct hz_guard_slot slot;
            bool found = hz_guard_find(info->si_addr, &slot);
            report(found ? text_of(info->si_addr, &slot) : HZ_TEXT_GUARD_NONE, info->si_addr, found ? &slot : NULL);
            former_restore();
            report_end();
        }
        former_restore();
    }
    errno = saved;
}

bool hz_guard_report_install(void) {
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    (void)sigemptyset(&action.sa_mask);
    /* the former action must be known before ours can run */
    return sigaction(SIGSEGV, NULL, &former) == 0 && sigaction(SIGSEGV, &action, NULL) == 0;
}
