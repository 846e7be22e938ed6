/*
 * os_stop.h - stops all other threads of the process for a moment, as a debugger does, and shows their registers.
 *
 * A helper process that shares our memory traces the threads (ptrace), runs a function while they are stopped, and lets
 * them go. The calling thread waits for it in the kernel, so its signal handlers do not run meanwhile. A stopped thread
 * may be anywhere, also inside malloc and with any lock held: what runs meanwhile takes no lock, allocates nothing from
 * the heap and calls only functions that do neither. The helper has the caller's thread-local variables.
 *
 * A thread that waits in the kernel goes on waiting. A few calls end with EINTR, as when a debugger attaches: signal(7)
 * lists them.
 */
#ifndef HZ_BASE_OS_OS_STOP_H
#define HZ_BASE_OS_OS_STOP_H

#include "base/os/compiler.h"

enum { HZ_STOPPED_WORDS = 128 };

struct hz_stopped {
    uint32_t id;         /* the kernel's number of the thread */
    int signal;          /* that the thread was about to get; 0: none. Less: it has not stopped (again) yet */
    bool is_in_call;     /* it is in a system call, or about to leave one */
    uintptr_t code;      /* where it is */
    uintptr_t stack;     /* its stack pointer */
    uintptr_t local;     /* its thread pointer, see hz_os_thread_pointer */
    uint32_t word_count; /* of its registers, those for floating point and vectors too */
    uintptr_t words[HZ_STOPPED_WORDS];
};

/* The other threads, and the memory that the helper uses itself. */
struct hz_stopped_world {
    const struct hz_stopped *threads;
    uint32_t count;
    const void *memory;
    size_t memory_bytes;
    size_t table_bytes; /* of `threads` */
};

struct hz_stopped_work {
    /* Whether the thread is where it may stay. One that is not may go on for a moment, and is asked about again; not
       for ever, so that `run` may still find one. */
    bool (*may_stay)(void *context, const struct hz_stopped *thread);
    void (*run)(void *context, const struct hz_stopped_world *world);
    void *context;
};

/* Runs the work in the helper process while all threads but the caller are stopped. Returns 0, or, if it did not run,
   an errno value: EPERM if the kernel does not let us trace (a debugger does so already, a security module, a
   container), EBUSY if a thread did not stop, ENOMEM, EMFILE, and others. ECHILD: the helper was killed. Any thread
   that may make any system call. */
int hz_os_stopped_run(const struct hz_stopped_work *work);

/* The calling thread's thread pointer: thread-local variables of a library that is loaded at the start lie at the same
   distance from it in each thread. */
uintptr_t hz_os_thread_pointer(void);

/* Where the C library describes the thread: near its thread pointer, between its stack and its thread-local variables
   on some processors, behind both on others. At least. */
void hz_os_thread_descriptor(uintptr_t local, uintptr_t *begin, uintptr_t *end);

/* Stores the registers that the caller's caller may use without saving them first (callee-saved). Returns their number,
   at most HZ_KEPT_REGISTERS. */
enum { HZ_KEPT_REGISTERS = 16 };
uint32_t hz_os_kept_registers(uintptr_t *words);

/* Bytes below the stack pointer that a function may use without moving it. */
enum { HZ_RED_ZONE_BYTES = 128 };

#endif
