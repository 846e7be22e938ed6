/*
 * reporter.c - see reporter.h.
 *
 * All that is static here is written by hz_reporter_start, in a process with one thread, and in a fork's child by the
 * fork handler, in such a process too. Afterwards only what is atomic changes.
 */
#include "front/reports/reporter.h"

#include "base/os/atomic.h"
#include "base/os/hooks.h"
#include "base/os/os.h"
#include "base/os/syscall.h"
#include "base/process/listener.h"
#include "base/process/process.h"
#include "base/process/worker.h"
#include "base/profile/profile.h"
#include "base/profile/profile_write.h"
#include "front/reports/answer.h"
#include "front/reports/leaks.h"
#include "front/reports/request.h"
#include "heap/back/keeper.h"
#include "heap/back/limit.h"
#include "heap/report/leaks.h"
#include "heap/threads/park.h"
#include "heap/threads/sample.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

enum {
    ASKED_STATS = 1 << HZ_REQUEST_STATS,
    ASKED_PROFILE = 1 << HZ_REQUEST_PROFILE,
    ASKED_LEAKS = 1 << HZ_REQUEST_LEAKS,
    ASKED_TERM = 1 << HZ_REQUESTS,
    ASKED_END = 2 << HZ_REQUESTS,
};

enum { STDERR = 2, STDERR_COPY_MIN = 200 }; /* a number that a program does not expect to get */

enum {
    TERM_AGAIN_MS = 500,   /* a SIGTERM that comes later than that after the first one does not wait for the report */
    TERM_WAIT_MS = 5000,   /* for the report of a SIGTERM */
    THREAD_LOOK_MS = 1000, /* from one look whether the reporter still exists to the next */
};

/* What a variable asks for. */
struct subject {
    const char *variable;
    const char *owner_variable; /* names the process that was asked first, and its words */
    struct hz_request wish;
    bool has_refused;                     /* a word was not allowed, which children need not say again */
    char owner_text[2 * HZ_REQUEST_ROOM]; /* the environment points to it; "": nothing for children to know */
    uint64_t due_ms;               /* reporter: when the next report is due, if there is one every so many seconds */
    _Atomic(bool) has_complained;  /* hint */
    _Atomic(bool) has_lost_signal; /* hint */
    _Atomic(bool) has_handler;     /* hint: it was installed, and a thread that comes back leaves it to the program */
};

static struct subject subjects[HZ_REQUESTS] = {
    [HZ_REQUEST_STATS] = {.variable = "HAKOZUNA_STATS", .owner_variable = "HAKOZUNA_STATS_OWNER"},
    [HZ_REQUEST_PROFILE] = {.variable = "HAKOZUNA_PROFILE", .owner_variable = "HAKOZUNA_PROFILE_OWNER"},
    [HZ_REQUEST_LEAKS] = {.variable = "HAKOZUNA_LEAKS", .owner_variable = "HAKOZUNA_LEAKS_OWNER"},
};
static char runtime_folder[HZ_REQUEST_ROOM]; /* $XDG_RUNTIME_DIR; "": none, or too long for a socket */
static int stderr_copy = -1;         /* stderr as it was at the start, for programs that close theirs before they end */
static bool had_stderr;              /* there was one at the start */
static struct stat stderr_was;       /* what it was, so that another file with its number is noticed */
static pthread_key_t first_thread;   /* its destructor runs when the process's first thread ends, and others go on */
static pthread_t reporter_thread;    /* the reporter */
static _Atomic(uint32_t) has_thread; /* cas: 1 while the reporter runs and no thread is ending it */
static bool is_first_key;            /* first_thread was made */
static _Atomic(uint32_t) reporting;  /* hint: the process that reports; 0: none */
static _Atomic(uint32_t) reporter_asked; /* hint: bits ASKED_*, on which the reporter sleeps */
static _Atomic(uint32_t) has_finished;   /* hint: the reporter writes no more */
static _Atomic(uint32_t) is_term_over;   /* hint: nothing is left to wait for before SIGTERM ends the process */
static _Atomic(uint64_t) term_since_ms;  /* cas: when the first SIGTERM came; 0: not yet */

/* ---- writing --------------------------------------------------------------------------------------- */

/* The kernel's struct is the C library's, on the 64-bit processors that we know. */
static bool file_status(int file, struct stat *status) {
    return HZ_SYSCALL(SYS_fstat, file, status, 0) == 0;
}

static bool is_terminal(int file) {
    char settings[256]; /* the kernel's struct termios, which is smaller */
    return HZ_SYSCALL(SYS_ioctl, file, TCGETS, settings) == 0;
}

static bool is_as_stderr_was(int file) {
    struct stat now;
    return had_stderr && file_status(file, &now) && now.st_dev == stderr_was.st_dev && now.st_ino == stderr_was.st_ino;
}

/* Whether number 2 is still where a program writes its messages. A program that has closed stderr may have opened any
   other file with its number: data that it also reads, for example. */
static bool is_for_messages(void) {
    long flags = HZ_SYSCALL(SYS_fcntl, STDERR, F_GETFL, 0);
    return flags >= 0 && (is_as_stderr_was(STDERR) || (flags & O_ACCMODE) == O_WRONLY || is_terminal(STDERR));
}

/* stderr, unless the program has closed it: then the copy, unless that is another file by now. -1 if there is none. */
static int stderr_open(void) {
    if (hz_os_is_confined() || is_for_messages())
        return STDERR;
    return stderr_copy >= 0 && is_as_stderr_was(stderr_copy) ? stderr_copy : -1;
}

__attribute__((format(printf, 1, 2))) static void reporter_say(const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length > 0) /* diagnostics: a closed stderr cannot be reported */
        (void)hz_os_write(stderr_open(), text, hz_min((size_t)length, sizeof(text) - 1));
}

/* Once for each variable in a process. */
static void complain(struct subject *subject, const char *what, int error) {
    if (!hz_load_rlx(&subject->has_complained)) /* relaxed, both: hint */
        reporter_say("hakozuna: %s: cannot write %s: error %d\n", subject->variable, what, error);
    hz_store_rlx(&subject->has_complained, true);
}

/* Looks for leaks. What was found, or that nothing could be looked for, is in the report. */
static int leaks_print(int file) {
    struct hz_leaks leaks;
    int error = hz_leaks_report(file, &leaks);
    hz_leaks_status_set((error != 0 && error != EIO) || leaks.direct_blocks != 0); /* EIO: only the text is lost */
    return error == EIO ? error : 0;
}

static int report_print(const struct subject *subject, int file) {
    if (subject->wish.of == HZ_REQUEST_LEAKS)
        return leaks_print(file);
    if (subject->wish.of == HZ_REQUEST_PROFILE)
        return hz_profile_write(file);
    return hz_stats_print(file, subject->wish.format) == 0 ? 0 : errno;
}

/* Opening a FIFO that nobody reads fails, instead of waiting for a reader. -errno if it fails. */
static int report_open(const char *path) {
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK;
    long file = HZ_SYSCALL6(SYS_openat, AT_FDCWD, path, flags, S_IRUSR | S_IWUSR, 0, 0);
    if (file >= 0)
        (void)HZ_SYSCALL(SYS_fcntl, file, F_SETFL, O_APPEND); /* cannot fail: takes O_NONBLOCK back */
    return (int)file;
}

/* Adds a report to the file. What a full disk has cut off is taken back, so that each report in the file is whole. */
static void report_to_file(struct subject *subject, const char *path) {
    struct stat before;
    int file = report_open(path);
    if (file < 0) {
        complain(subject, path, -file);
        return;
    }
    bool is_file = file_status(file, &before) && S_ISREG(before.st_mode);
    int error = report_print(subject, file);
    if (error != 0) {
        complain(subject, path, error);
        long cut = is_file ? HZ_SYSCALL(SYS_ftruncate, file, before.st_size, 0) : 0;
        if (cut != 0)
            complain(subject, path, (int)-cut);
    }
    (void)HZ_SYSCALL(SYS_close, file, 0, 0); /* what matters was written by write(2) */
}

static void report_to(struct subject *subject) {
    const char *pattern = subject->wish.file;
    char path[HZ_REQUEST_ROOM];
    struct hz_process self;
    hz_process_get(&self);
    if (hz_request_path(pattern, self.program, self.id, path, sizeof(path)))
        report_to_file(subject, path);
    else
        complain(subject, pattern, ENAMETOOLONG);
}

/* A profile that nobody has asked for yet (the word wait) has nothing to report. */
static bool is_begun(const struct subject *subject) {
    return subject->wish.of != HZ_REQUEST_PROFILE || hz_profile_rate() != 0;
}

static void report_write(struct subject *subject) {
    int saved = errno;
    if (!is_begun(subject))
        return;
    if (subject->wish.file[0] == '\0') {
        int file = stderr_open();
        int error = file >= 0 ? report_print(subject, file) : 0;
        if (error != 0)
            complain(subject, "stderr", error);
    } else if (hz_os_is_confined()) {
        complain(subject, "files, since the program has restricted its system calls", EPERM);
    } else {
        report_to(subject);
    }
    errno = saved;
}

/* What the process's end asks for. */
static void reports_at_end(void) {
    for (unsigned i = 0; i < HZ_REQUESTS; i++)
        if (subjects[i].wish.at_exit)
            report_write(&subjects[i]);
    const struct subject *of_profile = &subjects[HZ_REQUEST_PROFILE];
    if (of_profile->wish.leaks && is_begun(of_profile) && stderr_open() >= 0)
        hz_profile_write_leaks(stderr_open());
}

/* Whether something is asked for that goes to stderr. Complaints about a file do not count. */
static bool wants_stderr(void) {
    bool is_wanted = false;
    for (unsigned i = 0; i < HZ_REQUESTS; i++) {
        const struct hz_request *wish = &subjects[i].wish;
        is_wanted |= wish->leaks;
        is_wanted |= wish->file[0] == '\0' && (wish->at_exit || hz_request_is_meanwhile(wish));
    }
    return is_wanted;
}

static bool is_at_end(const struct subject *subject) {
    return subject->wish.at_exit || subject->wish.leaks;
}

static bool is_asked_at_end(void) {
    bool is_asked = false;
    for (unsigned i = 0; i < HZ_REQUESTS; i++)
        is_asked |= is_at_end(&subjects[i]);
    return is_asked;
}

static bool is_asked_meanwhile(void) {
    bool is_asked = false;
    for (unsigned i = 0; i < HZ_REQUESTS; i++)
        is_asked |= hz_request_is_meanwhile(&subjects[i].wish);
    return is_asked;
}

/* ---- asked at the socket ------------------------------------------------------------------------------ */

/* Starts the listener if a variable asks for it. The process has one thread. False when nothing listens. */
static bool listener_begin(bool is_said) {
    struct hz_listener_refusal refusal;
    for (unsigned i = 0; i < HZ_REQUESTS; i++) {
        if (!subjects[i].wish.listens || hz_os_is_confined())
            continue;
        if (hz_listener_start(runtime_folder, &hz_answer_duties, &refusal))
            return true;
        if (is_said)
            reporter_say("hakozuna: %s: cannot listen in '%s': %s: error %d\n", subjects[i].variable, refusal.folder,
                         refusal.what, refusal.error);
        return false;
    }
    return false;
}

/* ---- signals --------------------------------------------------------------------------------------- */

static void ask(uint32_t what) {
    (void)hz_or_rlx(&reporter_asked, what); /* relaxed: no data is behind it */
    hz_os_wake(&reporter_asked, 1);
}

/* The allocator calls it, perhaps with a lock held. */
static void ask_for_profile(void) {
    ask(1U << HZ_REQUEST_PROFILE);
}

/* Ends the process as the signal does that has no handler. Returns only in the first process of a container, which
   such a signal does not end. */
static void end_by_term(void) {
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t term;
    sigset_t saved;
    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    (void)sigaction(SIGTERM, &action, NULL); /* cannot fail for this signal */
    /* all other threads may block it, in our handler or by themselves */
    bool is_unblocked = pthread_sigmask(SIG_UNBLOCK, &term, &saved) == 0;
    (void)HZ_SYSCALL(SYS_kill, hz_os_process_id(), SIGTERM, 0);
    if (is_unblocked)
        (void)pthread_sigmask(SIG_SETMASK, &saved, NULL); /* cannot fail with a mask that was in force */
}

static uint64_t ms_since(uint64_t start_ms) {
    uint64_t now = hz_os_now_ms();
    return now > start_ms ? now - start_ms : 0;
}

/* The first SIGTERM waits for the reports, so that the program's code behind the interrupted point does not run. Not
   for ever: a pipe can be full, and the program may hold a lock that a report needs. A second one soon after the first
   waits too, since timeout(1) sends two. A thread in a slow path of the heap or inside the profile, which holds such
   locks, goes on until the reporter ends the process: then false. */
static bool term_await_report(void) {
    uint64_t since = 0;
    (void)hz_cas_strong_acq_rlx(&term_since_ms, &since, hz_os_now_ms() | 1); /* cas; not 0 */
    if (since != 0 && ms_since(since) >= TERM_AGAIN_MS)
        return true;
    ask(ASKED_TERM);
    if (hz_thread_is_busy() || hz_profile_is_inside())
        return false;
    since = hz_load_rlx(&term_since_ms); /* relaxed, all: hint */
    for (uint64_t passed; hz_load_rlx(&is_term_over) == 0 && (passed = ms_since(since)) < TERM_WAIT_MS;)
        hz_os_wait_ms(&is_term_over, 0, (uint32_t)(TERM_WAIT_MS - passed));
    return true;
}

static void ask_by_signal(int number) {
    uint32_t asked = 0;
    for (unsigned i = 0; i < HZ_REQUESTS; i++)
        asked |= subjects[i].wish.signal == number ? 1U << i : 0;
    ask(asked);
}

/* Whether the reporter's threads are this process's: not in a child that vfork or clone has made, for which no handler
   of fork was called. Its number can be its parent's, in another namespace of processes. */
static bool is_reporting_here(void) {
    uint32_t by = hz_load_rlx(&reporting); /* relaxed: hint */
    if (by == 0)
        return false;
    hz_hooks_enter(); /* a child of clone(2) learns that it is one */
    hz_hooks_leave();
    return !hz_hooks_is_cloned() && hz_os_process_id() == by;
}

/* A child has its parent's handler, but perhaps no reporter: it ends, or ignores the signal. */
static void on_signal(int number) {
    int saved = errno;
    bool has_reporter = is_reporting_here();
    if (number != SIGTERM) {
        if (has_reporter)
            ask_by_signal(number);
    } else if (!has_reporter || hz_load_rlx(&has_finished) != 0 || term_await_report()) { /* relaxed: hint */
        end_by_term();
    }
    errno = saved;
}

static bool has_handler(int number, void (*handler)(int)) {
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == handler;
}

/* While a SIGTERM waits, a second one must come through. */
static void handler_set(const struct subject *subject, int number) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK};
    (void)sigemptyset(&action.sa_mask);
    if (number == SIGTERM)
        action.sa_flags |= SA_NODEFER;
    if (sigaction(number, &action, NULL) != 0)
        reporter_say("hakozuna: %s: no handler for signal %d: error %d\n", subject->variable, number, errno);
}

/* Without a reporter, SIGTERM has its effect at once. */
static void term_handler_remove(void) {
    const struct sigaction action = {.sa_handler = SIG_DFL};
    if (has_handler(SIGTERM, on_signal))
        (void)sigaction(SIGTERM, &action, NULL); /* cannot fail for this signal */
}

/* A handler that the program has installed since then is in force. It is said once, when there is a report. */
static void handler_look(struct subject *subject) {
    int number = subject->wish.signal;
    if (number == 0 || hz_load_rlx(&subject->has_lost_signal) || has_handler(number, on_signal)) /* relaxed: hint */
        return;
    reporter_say("hakozuna: %s: the program uses signal %d itself, so it no longer makes reports\n", subject->variable,
                 number);
    hz_store_rlx(&subject->has_lost_signal, true); /* relaxed: hint */
}

/* ---- the thread ------------------------------------------------------------------------------------ */

enum { MS = 1000 };

static void due_set(struct subject *subject, uint64_t now) {
    subject->due_ms = subject->wish.every_s != 0 ? now + (uint64_t)subject->wish.every_s * MS : UINT64_MAX;
}

/* Sleeps until something is asked, or until it is time for the next report. Returns what is asked. */
static uint32_t reporter_wait(void) {
    for (;;) {
        uint32_t seen = hz_and_rlx(&reporter_asked, 0U); /* relaxed: no data is behind it */
        uint64_t now = hz_os_now_ms();
        uint64_t due_ms = UINT64_MAX;
        for (unsigned i = 0; i < HZ_REQUESTS; i++) {
            if (seen == 0 && now >= subjects[i].due_ms)
                seen = 1U << i;
            due_ms = hz_min(due_ms, subjects[i].due_ms);
        }
        if (seen != 0)
            return seen;
        if (due_ms == UINT64_MAX)
            hz_os_wait(&reporter_asked, 0);
        else
            hz_os_wait_ms(&reporter_asked, 0, (uint32_t)hz_min(due_ms - now, UINT32_MAX));
    }
}

static void reports_write(uint32_t seen) {
    for (unsigned i = 0; i < HZ_REQUESTS; i++) {
        struct subject *subject = &subjects[i];
        if ((seen & 1U << i) == 0)
            continue;
        report_write(subject);
        handler_look(subject);
        if (hz_os_now_ms() >= subject->due_ms)
            due_set(subject, hz_os_now_ms());
    }
}

/* The SIGTERM that waits, if there is one, goes on. */
static void term_over(void) {
    hz_store_rlx(&is_term_over, 1); /* relaxed: no data is behind it */
    hz_os_wake(&is_term_over, INT_MAX);
}

static void term_do(void) {
    reports_at_end();
    end_by_term();
    term_over();
}

/* A signal that is sent to this thread interrupts no call of the program. The program's threads do not block it: they
   may want it, and the programs that they start would have it blocked, too. */
static void signals_unblock(void) {
    sigset_t named;
    (void)sigemptyset(&named);
    for (unsigned i = 0; i < HZ_REQUESTS; i++)
        if (subjects[i].wish.signal != 0)
            (void)sigaddset(&named, subjects[i].wish.signal);
    (void)pthread_sigmask(SIG_UNBLOCK, &named, NULL); /* cannot fail */
}

static void *reporter_main(void *unused) {
    uint32_t seen;
    (void)unused;
    hz_worker_begin("hakozuna-stats");
    signals_unblock();
    for (unsigned i = 0; i < HZ_REQUESTS; i++)
        if (subjects[i].due_ms == 0) /* not if this thread goes on where another one has ended */
            due_set(&subjects[i], hz_os_now_ms());
    while (((seen = reporter_wait()) & ASKED_END) == 0) {
        reports_write(seen);
        if (seen & ASKED_TERM)
            term_do();
    }
    seen |= hz_and_rlx(&reporter_asked, 0U); /* relaxed: no data is behind it */
    reports_write(seen);                     /* asked before the end */
    if (seen & ASKED_TERM)                   /* SIGTERM came first, or while the program ends by exit */
        term_do();
    term_over();
    hz_store_rlx(&has_finished, 1); /* relaxed: no data is behind it */
    hz_os_wake(&has_finished, 1);
    return NULL;
}

bool hz_reporter_is(void *(*start)(void *)) {
    return start == reporter_main || hz_listener_is(start);
}

/* A program that was started with SIGTERM ignored, or under a filter of system calls, gets a report only when it ends
   by itself. A fork's child has its parent's handler already. */
static bool wants_term(void) {
    return is_asked_at_end() && hz_os_is_unfiltered() &&
           (has_handler(SIGTERM, SIG_DFL) || has_handler(SIGTERM, on_signal));
}

/* Starts the thread, if the requests need it. The process has one thread. False when there is none. */
static bool reporter_thread_start(bool on_term, bool is_said) {
    if (!is_asked_meanwhile() && !on_term)
        return false;
    bool has_started = hz_worker_start(&reporter_thread, reporter_main) == 0;
    hz_store_rlx(&has_thread, has_started); /* relaxed: one thread */
    for (unsigned i = 0; i < HZ_REQUESTS; i++)
        if (!has_started && is_said && hz_request_is_any(&subjects[i].wish))
            reporter_say("hakozuna: %s: no thread could be started, so there is at most a report at exit\n",
                         subjects[i].variable);
    return has_started;
}

/* Starts the thread and installs the handlers, if the requests need them. The process has one thread. */
static void reporter_begin(bool is_said) {
    bool on_term = wants_term();
    hz_store_rlx(&has_finished, 0); /* relaxed, all: one thread */
    hz_store_rlx(&is_term_over, 0);
    hz_store_rlx(&term_since_ms, 0);
    hz_store_rlx(&reporting, hz_os_process_id());
    bool has_reporter = reporter_thread_start(on_term, is_said);
    bool has_listener = listener_begin(is_said);
    if (is_first_key && (has_reporter || has_listener))    /* a destructor of the key is not called without a value */
        (void)pthread_setspecific(first_thread, subjects); /* without memory the process does not end by pthread_exit */
    if (!has_reporter) {
        term_handler_remove();
        return;
    }
    for (unsigned i = 0; i < HZ_REQUESTS; i++) {
        if (on_term && is_at_end(&subjects[i]))
            handler_set(&subjects[i], SIGTERM);
        if (subjects[i].wish.signal != 0 && !hz_load_rlx(&subjects[i].has_handler)) { /* relaxed, both: one thread */
            handler_set(&subjects[i], subjects[i].wish.signal);
            hz_store_rlx(&subjects[i].has_handler, true);
        }
    }
}

/* Whether the caller is the one thread that ends the reporter. */
static bool is_mine_to_end(void) {
    return hz_and_rlx(&has_thread, 0U) == 1; /* cas */
}

/* The process's first thread ends, and others go on. Our threads must not keep the process alive when they end. */
static void first_thread_ends(void *value) {
    (void)value;
    if (!is_reporting_here())
        return;
    /* waits, since the process's last thread runs what is to be done at exit, and the listener has other files. In a
     * root without /proc and its folder it stays */
    (void)hz_listener_end(true);
    if (!is_mine_to_end())
        return;
    (void)pthread_detach(reporter_thread);
    ask(ASKED_END);
    term_handler_remove();
}

/* Nothing is asked any more. */
static void wish_drop(struct subject *subject) {
    subject->wish = (struct hz_request){.of = subject->wish.of};
}

/* The child may go on as a daemon, and whoever reads the parent's stderr from a pipe waits until all have closed it. */
static void stderr_copy_close(void) {
    if (stderr_copy >= 0 && !hz_os_is_confined() && is_as_stderr_was(stderr_copy))
        (void)HZ_SYSCALL(SYS_close, stderr_copy, 0, 0); /* nothing was written to it that is not there */
    stderr_copy = -1;
}

/* A fork's child has no reporter, and reports nothing unless it was asked. */
static void reporter_after_fork(void) {
    bool is_any = false;
    hz_listener_forget();
    hz_leaks_status_set(false);
    hz_store_rlx(&has_thread, 0); /* relaxed, both: one thread */
    hz_store_rlx(&reporting, 0);
    hz_store_rlx(&reporter_asked, 0);
    for (unsigned i = 0; i < HZ_REQUESTS; i++) {
        subjects[i].due_ms = 0;
        if (!subjects[i].wish.in_children)
            wish_drop(&subjects[i]);
        is_any |= hz_request_is_any(&subjects[i].wish);
    }
    if (hz_answer_is_waiting() && hz_profile_is_on()) /* whoever has asked the parent did not mean the child */
        (void)hz_sample_end();
    if (!wants_stderr())
        stderr_copy_close();
    if (is_any)
        reporter_begin(true);
}

/* ---- called from outside --------------------------------------------------------------------------- */

static void word_refuse_of(enum hz_request_of of, const char *word, size_t length, const char *allowed) {
    subjects[of].has_refused = true;
    reporter_say("hakozuna: %s: '%.*s': allowed are %s\n", subjects[of].variable, (int)hz_min(length, 80), word,
                 allowed);
}

static void word_refuse_stats(const char *word, size_t length, const char *allowed) {
    word_refuse_of(HZ_REQUEST_STATS, word, length, allowed);
}

static void word_refuse_profile(const char *word, size_t length, const char *allowed) {
    word_refuse_of(HZ_REQUEST_PROFILE, word, length, allowed);
}

static void word_refuse_leaks(const char *word, size_t length, const char *allowed) {
    word_refuse_of(HZ_REQUEST_LEAKS, word, length, allowed);
}

static void word_ignore(const char *word, size_t length, const char *allowed) {
    (void)word;
    (void)length;
    (void)allowed;
}

/* Whether the process is the one that the words ask: nobody is named as the owner of these words, or the process is. A
   program that executes another stays the process that was asked. */
static bool is_owner_of(const char *words, const char *owner, const char *number) {
    size_t length = owner != NULL ? strspn(owner, "0123456789") : 0;
    bool is_known = length > 0 && owner[length] == ':' && strcmp(owner + length + 1, words) == 0;
    return !is_known || (strlen(number) == length && memcmp(owner, number, length) == 0);
}

/* Children that have the same words stay silent. If the words are too long, they report too. */
static void owner_text_make(struct subject *subject, const char *words, const char *number) {
    int length =
        snprintf(subject->owner_text, sizeof(subject->owner_text), "%s=%s:%s", subject->owner_variable, number, words);
    if (length < 0 || (size_t)length >= sizeof(subject->owner_text))
        subject->owner_text[0] = '\0';
}

static void words_read(enum hz_request_of of, const struct hz_reporter_words *asked) {
    static void (*const refuse[HZ_REQUESTS])(const char *word, size_t length, const char *allowed) = {
        word_refuse_stats, word_refuse_profile, word_refuse_leaks};
    struct subject *subject = &subjects[of];
    char number[16];
    if (asked->words == NULL || snprintf(number, sizeof(number), "%u", hz_os_process_id()) < 0) /* cannot fail */
        return;
    bool is_owner = is_owner_of(asked->words, asked->owner, number);
    hz_request_read(of, asked->words, &subject->wish, is_owner ? refuse[of] : word_ignore);
    bool is_any = hz_request_is_any(&subject->wish);
    if (is_owner && (is_any || subject->has_refused))
        owner_text_make(subject, asked->words, number);
    if (!is_any || (!is_owner && !subject->wish.in_children))
        wish_drop(subject);
}

void hz_reporter_read(const struct hz_reporter_words *asked) {
    for (unsigned of = 0; of < HZ_REQUESTS; of++)
        if (asked[of].words != NULL && !had_stderr)
            had_stderr = file_status(STDERR, &stderr_was);
    for (unsigned of = 0; of < HZ_REQUESTS; of++)
        words_read((enum hz_request_of)of, &asked[of]);
}

uint64_t hz_reporter_profile_rate(void) {
    const struct hz_request *wish = &subjects[HZ_REQUEST_PROFILE].wish;
    return hz_request_is_any(wish) ? wish->rate : 0;
}

bool hz_reporter_profile_waits(void) {
    return subjects[HZ_REQUEST_PROFILE].wish.waits;
}

bool hz_reporter_profile_by_frames(void) {
    return subjects[HZ_REQUEST_PROFILE].wish.by_frames;
}

static void owner_text_give(struct subject *subject) {
    if (subject->owner_text[0] == '\0')
        return;
    (void)putenv(subject->owner_text); /* without memory the children report too */
    hz_leaks_keep(subject->owner_variable);
}

void hz_reporter_start(void) {
    bool is_any = false;
    bool has_profile = hz_profile_prepared_rate() != 0;
    if (!has_profile)
        wish_drop(&subjects[HZ_REQUEST_PROFILE]);
    hz_answer_use(subjects[HZ_REQUEST_PROFILE].wish.waits);
    if (hz_request_is_any(&subjects[HZ_REQUEST_LEAKS].wish)) {
        hz_leaks_note_threads();
        hz_leaks_status_begin(subjects[HZ_REQUEST_LEAKS].wish.status);
    }
    if (subjects[HZ_REQUEST_PROFILE].wish.at_peak)
        hz_profile_watch_peak(ask_for_profile);
    if (subjects[HZ_REQUEST_PROFILE].wish.at_limit)
        hz_heap_limit_watch(ask_for_profile);
    for (unsigned i = 0; i < HZ_REQUESTS; i++) {
        is_any |= hz_request_is_any(&subjects[i].wish);
        owner_text_give(&subjects[i]);
    }
    if (!is_any)
        return;
    const char *runtime = hz_os_getenv("XDG_RUNTIME_DIR");
    if (runtime != NULL && strlen(runtime) < sizeof(runtime_folder))
        memcpy(runtime_folder, runtime, strlen(runtime) + 1);
    if (had_stderr && wants_stderr())
        stderr_copy = (int)HZ_SYSCALL(SYS_fcntl, STDERR, F_DUPFD_CLOEXEC, STDERR_COPY_MIN);
    hz_keeper_read_alone(); /* later our own thread hides that the program has one */
    is_first_key = pthread_key_create(&first_thread, first_thread_ends) == 0;
    if (pthread_atfork(NULL, NULL, reporter_after_fork) != 0)
        for (unsigned i = 0; i < HZ_REQUESTS; i++)
            subjects[i].wish.in_children = false;
    reporter_begin(true);
}

/* A report that nobody reads, or that is too long for a file, must not change how the process ends: the signals that
   tell of it are blocked, and taken when they come. */
static void reports_without_signals(void) {
    static const int numbers[] = {SIGPIPE, SIGXFSZ};
    enum { KERNEL_SET_BYTES = 8 }; /* of the C library's sigset_t, the kernel knows the beginning */
    const struct timespec at_once = {0};
    sigset_t raised;
    sigset_t saved;
    sigset_t before = {0};
    (void)sigemptyset(&raised);
    for (size_t i = 0; i < HZ_ARRAY_LENGTH(numbers); i++)
        (void)sigaddset(&raised, numbers[i]);
    (void)pthread_sigmask(SIG_BLOCK, &raised, &saved);                 /* cannot fail */
    (void)HZ_SYSCALL(SYS_rt_sigpending, &before, KERNEL_SET_BYTES, 0); /* cannot fail */
    reports_at_end();
    for (unsigned i = 0; i < HZ_REQUESTS; i++)
        handler_look(&subjects[i]);
    for (size_t i = 0; i < HZ_ARRAY_LENGTH(numbers); i++)
        if (sigismember(&before, numbers[i]))
            (void)sigdelset(&raised, numbers[i]);
    while (HZ_SYSCALL6(SYS_rt_sigtimedwait, &raised, NULL, &at_once, KERNEL_SET_BYTES, 0, 0) > 0) {
        /* the next one, if there is any */
    }
    (void)pthread_sigmask(SIG_SETMASK, &saved, NULL); /* cannot fail with a mask that was in force */
}

/* Ends the reporter and waits, since two reports at a time would mix. No join: a signal handler can call exit, inside
   malloc. False when there is no such thread: in a child that was made without the C library, and that has the number
   of its parent in a new namespace of processes. */
static bool reporter_end(void) {
    ask(ASKED_END);
    while (hz_load_rlx(&has_finished) == 0 && pthread_kill(reporter_thread, 0) == 0) /* relaxed: hint */
        hz_os_wait_ms(&has_finished, 0, THREAD_LOOK_MS);
    return hz_load_rlx(&has_finished) != 0; /* relaxed: hint */
}

void hz_reporter_exit(void) {
    if (hz_os_is_confined()) { /* the reporter has ended before */
        if (is_asked_at_end() && hz_load_rlx(&reporting) != 0 && !hz_hooks_is_cloned()) /* relaxed: hint */
            reports_at_end();
        return;
    }
    if (!is_reporting_here())
        return;
    hz_listener_exit();
    if (!is_asked_at_end())
        return;
    if (is_mine_to_end() && !reporter_end())
        return;
    term_handler_remove();
    reports_without_signals();
}

size_t hz_reporter_threads(void) {
    return (size_t)(hz_load_rlx(&has_thread) != 0) + hz_listener_runs(); /* relaxed: hint */
}

void hz_reporter_stay_silent(void) {
    for (unsigned i = 0; i < HZ_REQUESTS; i++)
        subjects[i].wish.listens = false;
}

void hz_reporter_start_again(void) {
    if (!is_reporting_here() || hz_load_rlx(&has_thread) != 0 || hz_listener_runs()) /* relaxed: hint */
        return;
    (void)hz_and_rlx(&reporter_asked, ~(uint32_t)ASKED_END); /* a signal that came meanwhile stays */
    hz_listener_renew();
    reporter_begin(false);
}

bool hz_reporter_confine(void) {
    int cancel_state;
    if (hz_os_is_confined() ||                                                             /* nothing is left */
        hz_load_rlx(&reporting) == 0 || !hz_os_thread_is_itself() || !is_reporting_here()) /* relaxed: hint */
        return false;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* cannot fail. pthread_join is such a point */
    bool has_ended = hz_listener_end(true);
    if (is_mine_to_end()) {
        has_ended = true;
        term_handler_remove();
        ask(ASKED_END);
        if (pthread_kill(reporter_thread, 0) == 0)     /* without MADV_WIPEONFORK it can be another process's */
            (void)pthread_join(reporter_thread, NULL); /* cannot fail: only this thread joins it */
    }
    (void)pthread_setcancelstate(cancel_state, NULL);
    return has_ended;
}
