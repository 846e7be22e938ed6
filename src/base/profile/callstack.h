/*
 * callstack.h - call stacks: the return addresses of the calling thread, and the files and offsets where they lie.
 *
 * Taking a call stack allocates nothing, except that the first call makes the C library load its unwinder. So call
 * hz_callstack_prime first. Any thread, holding no lock.
 */
#ifndef HZ_BASE_PROFILE_CALLSTACK_H
#define HZ_BASE_PROFILE_CALLSTACK_H

#include "base/os/compiler.h"

enum { HZ_CALLSTACK_DEPTH = 20 };

struct hz_callstack {
    uint32_t thread_id;                  /* the kernel's number; 0: no call stack was taken */
    uint32_t depth;                      /* addresses in use */
    void *addresses[HZ_CALLSTACK_DEPTH]; /* the innermost first; the outermost ones may be missing */
};

/* Loads the unwinder. Can allocate. */
void hz_callstack_prime(void);

/* Whether an address is in the unwinder's code. The unwinder can allocate while it holds a lock of its own that taking
   a call stack needs too (it sorts tables of __register_frame, which programs with generated code call), so no call
   stack may be taken of an allocation that it makes. */
bool hz_callstack_is_unwinder(const void *address);

/* The calling thread's call stack. */
void hz_callstack_take(struct hz_callstack *stack);

/* Writes "<title> <thread id>:" and a line "    <file>+0x<offset> (<function>)" for each call, in the form that
   addr2line takes. Leaves out the library's own innermost calls, unless the library is linked into the program. Takes
   the dynamic linker's lock; a thread that was interrupted in the dynamic linker may already hold that lock. */
void hz_callstack_write(int fd, const char *title, const struct hz_callstack *stack);

/* Writes only such a line for each address. Otherwise as hz_callstack_write. */
void hz_callstack_write_lines(int fd, const void *const *addresses, uint32_t count);

#endif
