/*
 * frames.h - call stacks by frame pointers, for programs that were compiled with them (-fno-omit-frame-pointer).
 *
 * The library itself has no frame pointers. So its own calls, which are few, are unwound by the tables for exceptions
 * (.eh_frame). From the program's innermost call on, the chain of frame pointers leads outwards, at two loads a call. A
 * chain counts only if it leads to the outermost calls of the thread, which an earlier unwinding by the tables has
 * found. Otherwise the tables give the whole call stack: for the thread's first one, if the chain is broken, and for
 * code on another stack, such as a coroutine or a handler on an alternate signal stack.
 *
 * A chain is followed only inside the thread's own stack. Two calls can be missing from it: the caller of a function
 * that has no frame pointer and leaves the register alone, and the call that a signal's handler interrupted.
 */
#ifndef HZ_BASE_PROFILE_FRAMES_H
#define HZ_BASE_PROFILE_FRAMES_H

#include "base/os/compiler.h"

/* Prepares hz_frames_take. The process's first thread calls it, after hz_callstack_prime. own_begin, own_end: the
   addresses of the library's code. Can allocate. False where frame pointers cannot be followed: on CPUs other than
   x86-64 and arm64, without the shared libgcc_s, and if the bounds of the stack are not known. */
bool hz_frames_start(uintptr_t own_begin, uintptr_t own_end);

/* Like hz_os_backtrace. At a thread's first call it reads /proc/self/maps. Takes no lock. */
uint32_t hz_frames_take(void **addresses, uint32_t room);

#endif
