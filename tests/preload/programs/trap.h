/*
 * trap.h - makes the processor end each instruction of a thread with a SIGTRAP. x86-64 only. Changes the context that
 * the signal's handler gets; the change takes effect when the handler returns.
 */
#ifndef HZ_TESTS_PRELOAD_PROGRAMS_TRAP_H
#define HZ_TESTS_PRELOAD_PROGRAMS_TRAP_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#if defined(__x86_64__)
enum { TRAP_POSSIBLE = 1, TRAP_FLAG = 0x100 };

static inline void trap_set(void *context, bool on) {
    greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
    *flags = on ? *flags | TRAP_FLAG : *flags & ~(greg_t)TRAP_FLAG;
}

static inline uintptr_t trap_place(void *context) {
    return (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}
#else
enum { TRAP_POSSIBLE = 0 };

static inline void trap_set(void *context, bool on) {
    (void)context;
    (void)on;
}

static inline uintptr_t trap_place(void *context) {
    (void)context;
    return 0;
}
#endif

#endif
