/*
 * override_syscall.c - syscall, by which programs make the calls that have no function of their own: seccomp above all,
 * for which no prctl is needed if the process is root's or may get no new privileges anyway. In the shared libraries
 * only, like override_thread.c.
 */
#define _GNU_SOURCE
#include "base/os/compiler.h"
#include "base/os/syscall.h"
#include "base/process/symbols.h"
#include "front/altering.h"
#include "front/announce.h"

typedef long syscall_function(HZ_SYSCALL_PARAMETERS);

/* Not declared as the C library does, with an ellipsis: on all processors that are known, integers are passed in the
   same places. Under another name here, since headers declare it with one. */
HZ_EXPORT syscall_function override_syscall __asm__("syscall");

/* prctl needs five arguments; hz_announce_of_thread passes three. */
static long call_of_thread(long number, long first, long second, long third, long fourth, long fifth) {
    if (number != SYS_prctl)
        return hz_announce_of_thread(number, first, second, third);
    struct hz_announced ended = hz_announce_begin();
    long result = hz_announce_answer(HZ_SYSCALL6(number, first, second, third, fourth, fifth, 0));
    hz_announce_end(ended);
    return result;
}

/* The last call is a jump, so a call that returns twice, or on another stack, works as in the C library. */
long override_syscall(HZ_SYSCALL_PARAMETERS) {
    hz_announce_if_filter(number, first, second, third);
    if (HZ_UNLIKELY(hz_announce_is_of_thread(number, first, second)))
        return call_of_thread(number, first, second, third, fourth, fifth);
    hz_altering_note(number, first, second, third, fourth, fifth);
    syscall_function *next = (syscall_function *)hz_symbols_next(HZ_SYMBOL_SYSCALL);
    return next(HZ_SYSCALL_ARGUMENTS);
}
