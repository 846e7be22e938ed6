/*
 * frames.h - call stacks by frame pointers, for programs that were compiled with them (-fno-omit-frame-pointer).
 *
 * The library itself has no frame pointers. So its own calls, which are few, are unwound by the tables for exceptions
 * (.eh_frame); from the program's first call on, the chain of frame pointers leads outwards, at two loads a call. A
 * chain counts only if it leads to the outermost calls of the thread, which an earlier unwinding by the tables has
 * found. Otherwise (the thread's first call stack; a broken chain; code on another stack, as of a coroutine or an
 * alternate signal stack) the whole call stack is taken by the tables.
 *
 * Nothing is read outside of the thread's own stack. What a chain cannot show: a function without a frame pointer
 * leaves out the call of its caller, if it leaves the register alone; and a signal's handler, the interrupted call.
 */
#ifndef HZ_BASE_FRAMES_H
#define HZ_BASE_FRAMES_H

#include "base/compiler.h"

/* From now on hz_frames_take may be called. By the process's first thread, after hz_callstack_prime. own: the addresses
   of the library's code. Can allocate. False where this is not possible: on other CPUs than x86-64 and arm64, without
   the shared libgcc_s, and if the bounds of the stack are not known. */
bool hz_frames_start(uintptr_t own_begin, uintptr_t own_end);

/* As hz_os_backtrace. At a thread's first call it reads /proc/self/maps. Takes no lock. */
uint32_t hz_frames_take(void **addresses, uint32_t room);

#endif
