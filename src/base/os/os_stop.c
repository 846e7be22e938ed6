/*
 * os_stop.c - see os_stop.h.
 *
 * The helper is a child that shares memory, but neither files nor signal handlers, so what it opens is not seen by the
 * program. All signals are blocked in it. It sends no signal when it ends. If it is killed, the kernel lets the threads
 * go on.
 */
#define _GNU_SOURCE
#include "base/os/os_stop.h"

#include "base/os/os.h"
#include "base/os/syscall.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER     0x59616d61 /* Yama; in the headers since Linux 3.4 */
#define PR_SET_PTRACER_ANY (-1L)
#endif

enum {
    HELPER_STACK_BYTES = 256 << 10, /* address space, of which the marking uses a few KiB */
    FOLDER_NAMES_BYTES = 16 << 10,  /* read at once from a folder */
    STOPPED_MOST = 32768,           /* threads; the most that a kernel has by default */
    WAIT_NS = 100000,               /* from one look to the next whether a thread has stopped */
    WAITS_MOST = 20000,             /* two seconds */
    GO_NS = 20000,                  /* for which a thread goes on that may not stay */
    ROUNDS_MOST = 2000,     /* after so many, 40 ms and what stopping takes, a thread inside malloc stays there */
    NOT_STOPPED = -1,       /* instead of a signal */
    EVENT_SHIFT = 16,       /* of the event in the status of a stopped thread */
    EVENT_STOP = 128,       /* PTRACE_EVENT_STOP */
    REQUEST_SEIZE = 0x4206, /* PTRACE_SEIZE, PTRACE_INTERRUPT: macros in one C library, enumerators in the other */
    REQUEST_INTERRUPT = 0x4207,
    REQUEST_GETREGSET = 0x4204,
    REQUEST_CONT = 7,
    REQUEST_DETACH = 17,
};

struct stop {
    uint32_t process; /* that is stopped */
    uint32_t caller;  /* its thread that goes on waiting */
    const struct hz_stopped_work *work;
    struct hz_stopped_world world;
    struct hz_stopped *threads;
    uint32_t count;
    int error;
    bool is_done;
    _Alignas(uint64_t) char names[FOLDER_NAMES_BYTES]; /* directory entries */
};

static long thread_trace(int request, uint32_t thread, const void *address, const void *data) {
    return HZ_SYSCALL6(SYS_ptrace, request, thread, address, data, 0, 0);
}

/* ---- registers --------------------------------------------------------------------------------------- */

/* Adds a set of registers to the thread's words. Returns where they are; NULL if they are not known. */
static const uintptr_t *registers_add(struct hz_stopped *thread, unsigned kind) {
    uintptr_t *words = thread->words + thread->word_count;
    struct iovec room = {words, (HZ_STOPPED_WORDS - thread->word_count) * sizeof(uintptr_t)};
    if (hz_syscall_failed(thread_trace(REQUEST_GETREGSET, thread->id, (const void *)(uintptr_t)kind, &room)))
        return NULL;
    thread->word_count += (uint32_t)(room.iov_len / sizeof(uintptr_t));
    return words;
}

#if defined(__x86_64__)
static bool registers_get(struct hz_stopped *thread) {
    const uintptr_t *words = registers_add(thread, NT_PRSTATUS);
    if (words == NULL)
        return false;
    struct user_regs_struct registers;
    memcpy(&registers, words, sizeof(registers));
    thread->code = registers.rip;
    thread->stack = registers.rsp;
    thread->local = registers.fs_base;
    thread->is_in_call = (long)registers.orig_rax >= 0;
    (void)registers_add(thread, NT_FPREGSET);
    return true;
}
#elif defined(__aarch64__)
static bool registers_get(struct hz_stopped *thread) {
    enum { TLS = 0x401, SYSTEM_CALL = 0x404, STACK_POINTER = 31, PROGRAM_COUNTER = 32 };
    const uintptr_t *words = registers_add(thread, NT_PRSTATUS);
    if (words == NULL)
        return false;
    thread->code = words[PROGRAM_COUNTER];
    thread->stack = words[STACK_POINTER];
    const uintptr_t *local = registers_add(thread, TLS);
    thread->local = local != NULL ? local[0] : 0;
    int call = -1;
    struct iovec room = {&call, sizeof(call)};
    (void)thread_trace(REQUEST_GETREGSET, thread->id, (const void *)(uintptr_t)SYSTEM_CALL, &room); /* else -1 stays */
    thread->is_in_call = call >= 0;
    (void)registers_add(thread, NT_FPREGSET);
    return local != NULL;
}
#elif defined(__riscv)
static bool registers_get(struct hz_stopped *thread) {
    enum { PROGRAM_COUNTER = 0, STACK_POINTER = 2, THREAD_POINTER = 4, ECALL = 0x73, CALL_BYTES = 4 };
    const uintptr_t *words = registers_add(thread, NT_PRSTATUS);
    if (words == NULL)
        return false;
    thread->code = words[PROGRAM_COUNTER];
    thread->stack = words[STACK_POINTER];
    thread->local = words[THREAD_POINTER];
    uint32_t before = 0;
    struct iovec here = {&before, sizeof(before)};
    struct iovec there = {(void *)(thread->code - CALL_BYTES), sizeof(before)}; /* NOLINT(performance-no-int-to-ptr) */
    (void)HZ_SYSCALL6(SYS_process_vm_readv, hz_os_process_id(), &here, 1, &there, 1, 0); /* else 0 stays */
    thread->is_in_call = before == ECALL;
    (void)registers_add(thread, NT_FPREGSET);
    return true;
}
#else
static bool registers_get(struct hz_stopped *thread) {
    (void)registers_add(thread, NT_PRSTATUS);
    return false;
}
#endif

uintptr_t hz_os_thread_pointer(void) {
#if defined(__x86_64__)
    uintptr_t pointer;
    __asm__("mov %%fs:0, %0" : "=r"(pointer));
    return pointer;
#else
    return (uintptr_t)__builtin_thread_pointer();
#endif
}

void hz_os_thread_descriptor(uintptr_t local, uintptr_t *begin, uintptr_t *end) {
    const size_t most_bytes = 4096;
#if defined(__x86_64__)
    *begin = local;
    *end = local + most_bytes;
#else
    *begin = local - most_bytes;
    *end = local + 2 * sizeof(void *);
#endif
}

HZ_NOINLINE uint32_t hz_os_kept_registers(uintptr_t *words) {
#if defined(__x86_64__)
    enum { KEPT = 6 };
    __asm__ volatile("mov %%rbx, 0(%0); mov %%rbp, 8(%0); mov %%r12, 16(%0); mov %%r13, 24(%0); mov %%r14, 32(%0); "
                     "mov %%r15, 40(%0)"
                     :
                     : "r"(words)
                     : "memory");
#elif defined(__aarch64__)
    enum { KEPT = 12 };
    __asm__ volatile("stp x19, x20, [%0]; stp x21, x22, [%0, 16]; stp x23, x24, [%0, 32]; stp x25, x26, [%0, 48]; "
                     "stp x27, x28, [%0, 64]; stp x29, x30, [%0, 80]"
                     :
                     : "r"(words)
                     : "memory");
#elif defined(__riscv)
    enum { KEPT = 12 };
    __asm__ volatile("sd s0, 0(%0); sd s1, 8(%0); sd s2, 16(%0); sd s3, 24(%0); sd s4, 32(%0); sd s5, 40(%0); "
                     "sd s6, 48(%0); sd s7, 56(%0); sd s8, 64(%0); sd s9, 72(%0); sd s10, 80(%0); sd s11, 88(%0)"
                     :
                     : "r"(words)
                     : "memory");
#else
    enum { KEPT = 0 };
    (void)words;
#endif
    return KEPT;
}

/* ---- stopping ---------------------------------------------------------------------------------------- */

/* The letter of a thread's state in /proc; 'X' when there is no such thread. */
static char thread_state_of(const struct stop *stop, uint32_t thread) {
    char path[64];
    char text[256];
    if (snprintf(path, sizeof(path), "/proc/%u/task/%u/stat", stop->process, thread) < 0)
        return 'X';
    hz_os_read_file(path, text, sizeof(text));
    const char *name_end = strrchr(text, ')');
    return name_end != NULL && name_end[1] == ' ' ? name_end[2] : 'X';
}

static bool is_thread_dead(const struct stop *stop, uint32_t thread) {
    char state = thread_state_of(stop, thread);
    return state == 'Z' || state == 'X';
}

/* Waits until the traced thread has stopped. 0; ESRCH if it has ended; EBUSY. */
static int stop_await(struct hz_stopped *thread) {
    const struct timespec moment = {0, WAIT_NS};
    for (int waits = 0; waits < WAITS_MOST; waits++) {
        int status = 0;
        long found = HZ_SYSCALL6(SYS_wait4, thread->id, &status, __WALL | WNOHANG, NULL, 0, 0);
        if (hz_syscall_failed(found) && found != -EINTR)
            return ESRCH;
        if (found > 0 && !WIFSTOPPED(status))
            return ESRCH;
        if (found > 0) { /* for a stop of our own, or before a signal: then it gets that when it goes on */
            thread->signal = status >> EVENT_SHIFT == EVENT_STOP ? 0 : WSTOPSIG(status);
            return 0;
        }
        (void)HZ_SYSCALL(SYS_nanosleep, &moment, NULL, 0);
    }
    return EBUSY;
}

/* Stops one thread and adds it. A thread that has ended is no error. */
static int thread_stop(struct stop *stop, uint32_t id) {
    if (stop->count == STOPPED_MOST)
        return EAGAIN;
    struct hz_stopped *thread = &stop->threads[stop->count];
    long refused = thread_trace(REQUEST_SEIZE, id, NULL, NULL);
    if (hz_syscall_failed(refused))
        return is_thread_dead(stop, id) ? 0 : (int)-refused;
    thread->id = id;
    thread->signal = NOT_STOPPED;
    stop->count++;                                         /* from here on it is to be let go */
    (void)thread_trace(REQUEST_INTERRUPT, id, NULL, NULL); /* fails if it has ended; the wait says so */
    int error = stop_await(thread);
    if (error == 0)
        error = registers_get(thread) ? 0 : ENOSYS;
    if (error != 0 && is_thread_dead(stop, id)) {
        stop->count--;
        error = 0;
    }
    return error;
}

static bool is_thread_stopped(const struct stop *stop, uint32_t id) {
    for (uint32_t i = stop->count; i-- > 0;)
        if (stop->threads[i].id == id)
            return true;
    return false;
}

static uint32_t folder_number_in(const char *name) {
    uint32_t number = 0;
    for (; *name >= '0' && *name <= '9'; name++)
        number = 10 * number + (uint32_t)(*name - '0');
    return number;
}

struct thread_entry { /* the kernel's struct linux_dirent64 */
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

/* Stops the threads that one look at the folder shows. Returns an error. */
static int folder_stop(struct stop *stop, int folder) {
    for (;;) {
        long bytes = HZ_SYSCALL(SYS_getdents64, folder, stop->names, FOLDER_NAMES_BYTES);
        if (bytes <= 0)
            return (int)-bytes;
        for (long at = 0; at < bytes;) {
            const struct thread_entry *entry = (const struct thread_entry *)(const void *)(stop->names + at);
            uint32_t id = folder_number_in(entry->name);
            int error = 0;
            if (id != 0 && id != stop->caller && !is_thread_stopped(stop, id))
                error = thread_stop(stop, id);
            if (error != 0)
                return error;
            at += entry->length;
        }
    }
}

/* Looks until a look shows no thread that is not stopped. Then none can start another. */
static int threads_stop(struct stop *stop) {
    char path[64];
    if (snprintf(path, sizeof(path), "/proc/%u/task", stop->process) < 0)
        return EINVAL;
    for (;;) {
        uint32_t before = stop->count;
        long folder = HZ_SYSCALL6(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0, 0);
        if (hz_syscall_failed(folder))
            return (int)-folder;
        int error = folder_stop(stop, (int)folder);
        (void)HZ_SYSCALL(SYS_close, folder, 0, 0); /* it was only read */
        if (error != 0 || stop->count == before)
            return error;
    }
}

/* A thread that has not stopped yet goes on by itself when the helper ends, with the signal that it was about to get.
 */
static void threads_release(struct stop *stop) {
    while (stop->count > 0) {
        const struct hz_stopped *thread = &stop->threads[--stop->count];
        if (thread->signal == NOT_STOPPED)
            continue;
        (void)thread_trace(REQUEST_DETACH, thread->id, NULL, (const void *)(uintptr_t)(unsigned)thread->signal);
    }
}

/* Stops a thread again that was let go. One that has ended is taken out: the last one gets its place. */
static int thread_stop_again(struct stop *stop, uint32_t index) {
    struct hz_stopped *thread = &stop->threads[index];
    thread->word_count = 0;
    (void)thread_trace(REQUEST_INTERRUPT, thread->id, NULL, NULL); /* fails if it has ended; the wait says so */
    int error = stop_await(thread);
    if (error == 0)
        error = registers_get(thread) ? 0 : ENOSYS;
    if (error == 0 || !is_thread_dead(stop, thread->id))
        return error;
    *thread = stop->threads[--stop->count];
    return 0;
}

/* Lets those go on for a moment that may not stay where they are. All at once: one may wait for another. Returns their
   number, and moves them to the end. */
static uint32_t threads_let_go(struct stop *stop) {
    uint32_t going = 0;
    for (uint32_t i = stop->count; i-- > 0;) {
        struct hz_stopped *thread = &stop->threads[i];
        if (stop->work->may_stay(stop->work->context, thread))
            continue;
        (void)thread_trace(REQUEST_CONT, thread->id, NULL, (const void *)(uintptr_t)(unsigned)thread->signal);
        thread->signal = NOT_STOPPED;
        struct hz_stopped *place = &stop->threads[stop->count - ++going];
        struct hz_stopped other = *place;
        *place = *thread;
        *thread = other;
    }
    return going;
}

/* Stops all threads, each where it may stay if possible. */
static int threads_stop_well(struct stop *stop) {
    const struct timespec moment = {0, GO_NS};
    int error = threads_stop(stop);
    for (int rounds = 0; error == 0 && rounds < ROUNDS_MOST; rounds++) {
        uint32_t going = threads_let_go(stop);
        if (going == 0)
            break;
        (void)HZ_SYSCALL(SYS_nanosleep, &moment, NULL, 0);
        for (uint32_t i = stop->count, first = stop->count - going; i-- > first && error == 0;)
            error = thread_stop_again(stop, i);
        if (error == 0)
            error = threads_stop(stop); /* such a thread can have started another one */
    }
    return error;
}

static int helper_main(void *argument) {
    struct stop *stop = argument;
    /* if the process is killed meanwhile, nothing of it may live on in this one */
    (void)HZ_SYSCALL6(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0);
    if (HZ_SYSCALL(SYS_getppid, 0, 0, 0) != (long)stop->process)
        return 1;
    stop->error = threads_stop_well(stop);
    if (stop->error == 0) {
        stop->world.count = stop->count;
        stop->work->run(stop->work->context, &stop->world);
        stop->is_done = true;
    }
    threads_release(stop);
    return 0;
}

/* Starts the helper and waits for its end. */
static int helper_run(struct stop *stop, char *stack_end) {
    stop->count = 0;
    stop->error = 0;
    int child = clone(helper_main, stack_end, CLONE_VM | CLONE_VFORK | CLONE_UNTRACED, stop);
    if (child < 0)
        return errno;
    (void)HZ_SYSCALL6(SYS_wait4, child, NULL, __WALL, NULL, 0, 0); /* fails if a program's wait has found it */
    if (stop->error != 0)
        return stop->error;
    return stop->is_done ? 0 : ECHILD;
}

int hz_os_stopped_run(const struct hz_stopped_work *work) {
    size_t table_bytes = hz_round_up(STOPPED_MOST * sizeof(struct hz_stopped), hz_os_page_bytes());
    size_t bytes = HELPER_STACK_BYTES + hz_round_up(sizeof(struct stop), HZ_OS_PAGE_BYTES_MAX);
    char *memory = hz_os_map(bytes, hz_os_page_bytes(), false);
    void *table = memory != NULL ? hz_os_map(table_bytes, hz_os_page_bytes(), true) : NULL;
    int error = ENOMEM;
    if (table != NULL) {
        struct stop *stop = (struct stop *)(void *)(memory + HELPER_STACK_BYTES);
        int saved = errno;
        uint64_t mask = hz_os_signals_block();
        *stop = (struct stop){.process = hz_os_process_id(), .caller = hz_os_thread_id()};
        stop->work = work;
        stop->threads = table;
        stop->world = (struct hz_stopped_world){table, 0, memory, bytes, table_bytes};
        error = helper_run(stop, memory + HELPER_STACK_BYTES);
        /* Yama lets only ancestors trace. The program can name another process, and we cannot ask whom it has named */
        if (error == EPERM && HZ_SYSCALL6(SYS_prctl, PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0, 0) == 0) {
            error = helper_run(stop, memory + HELPER_STACK_BYTES);
            (void)HZ_SYSCALL6(SYS_prctl, PR_SET_PTRACER, 0, 0, 0, 0, 0); /* cannot fail after the other call */
        }
        hz_os_signals_restore(mask);
        errno = saved;
    }
    if (table != NULL)
        (void)hz_os_unmap(table, table_bytes); /* both: if refused, address space is lost */
    if (memory != NULL)
        (void)hz_os_unmap(memory, bytes);
    return error;
}
