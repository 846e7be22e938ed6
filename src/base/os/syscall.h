/*
 * syscall.h - system calls that go straight to the kernel, for the files that call it. Includes no file of ours but
 * compiler.h.
 *
 * Programs and preloaded tools replace functions of the C library (mmap, munmap, madvise, clock_gettime, syscall, ...)
 * with their own, which may allocate. So the library calls none of them, just as glibc's malloc does not. A result in
 * [-4095, -1] is an error, -errno; errno itself is never touched. No call is a cancellation point.
 *
 * Builds with internal assertions call the C library's syscall() instead, so that a test can stand in for the kernel
 * (tests/coarse). So do processors that are not here. ThreadSanitizer has to see which memory is new, so its builds
 * call mmap and munmap by name.
 */
#ifndef HZ_BASE_OS_SYSCALL_H
#define HZ_BASE_OS_SYSCALL_H

#include "base/os/compiler.h"

#include <sys/syscall.h>

#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446 /* on all processors; in the headers since Linux 5.13 */
#endif

enum { HZ_SYSCALL_ERROR_MAX = 4095 };

HZ_INLINE bool hz_syscall_failed(long result) {
    return (unsigned long)result >= -(unsigned long)HZ_SYSCALL_ERROR_MAX;
}

#if HZ_CHECKS || HZ_TSAN || !(defined(__x86_64__) || defined(__aarch64__) || (defined(__riscv) && __riscv_xlen == 64))

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

HZ_INLINE long hz_syscall6(long number, long a, long b, long c, long d, long e, long f) {
    int saved = errno;
    long result;
    if (HZ_TSAN && number == SYS_mmap)
        result = (long)mmap((void *)a, (size_t)b, (int)c, (int)d, (int)e, f); /* NOLINT(performance-no-int-to-ptr) */
    else if (HZ_TSAN && number == SYS_munmap)
        result = munmap((void *)a, (size_t)b); /* NOLINT(performance-no-int-to-ptr) */
    else
        result = syscall(number, a, b, c, d, e, f);
    if (result == -1)
        result = -errno;
    errno = saved;
    return result;
}

HZ_INLINE long hz_syscall3(long number, long a, long b, long c) {
    return hz_syscall6(number, a, b, c, 0, 0, 0);
}

#elif defined(__x86_64__)

HZ_INLINE long hz_syscall3(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "cc", "memory"); /* the kernel returns through rcx, and keeps the flags in r11 */
    return result;
}

HZ_INLINE long hz_syscall6(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long fourth __asm__("r10") = d;
    register long fifth __asm__("r8") = e;
    register long sixth __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "cc", "memory");
    return result;
}

#elif defined(__aarch64__)

HZ_INLINE long hz_syscall3(long number, long a, long b, long c) {
    register long call __asm__("x8") = number;
    register long result __asm__("x0") = a;
    register long second __asm__("x1") = b;
    register long third __asm__("x2") = c;
    __asm__ volatile("svc #0" : "+r"(result) : "r"(call), "r"(second), "r"(third) : "cc", "memory");
    return result;
}

HZ_INLINE long hz_syscall6(long number, long a, long b, long c, long d, long e, long f) {
    register long call __asm__("x8") = number;
    register long result __asm__("x0") = a;
    register long second __asm__("x1") = b;
    register long third __asm__("x2") = c;
    register long fourth __asm__("x3") = d;
    register long fifth __asm__("x4") = e;
    register long sixth __asm__("x5") = f;
    __asm__ volatile("svc #0"
                     : "+r"(result)
                     : "r"(call), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "cc", "memory");
    return result;
}

#else /* riscv64. The kernel may change the vector registers; "memory" and the list say so */

#if defined(__riscv_vector)
#define HZ_SYSCALL_VECTORS                                                                                             \
    , "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16",     \
        "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "vl", \
        "vtype"
#else
#define HZ_SYSCALL_VECTORS
#endif

HZ_INLINE long hz_syscall3(long number, long a, long b, long c) {
    register long call __asm__("a7") = number;
    register long result __asm__("a0") = a;
    register long second __asm__("a1") = b;
    register long third __asm__("a2") = c;
    __asm__ volatile("ecall" : "+r"(result) : "r"(call), "r"(second), "r"(third) : "memory" HZ_SYSCALL_VECTORS);
    return result;
}

HZ_INLINE long hz_syscall6(long number, long a, long b, long c, long d, long e, long f) {
    register long call __asm__("a7") = number;
    register long result __asm__("a0") = a;
    register long second __asm__("a1") = b;
    register long third __asm__("a2") = c;
    register long fourth __asm__("a3") = d;
    register long fifth __asm__("a4") = e;
    register long sixth __asm__("a5") = f;
    __asm__ volatile("ecall"
                     : "+r"(result)
                     : "r"(call), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "memory" HZ_SYSCALL_VECTORS);
    return result;
}

#endif

/* For calls of up to three arguments, and of four to six, of any scalar types. */
#define HZ_SYSCALL(number, a, b, c) hz_syscall3((number), (long)(a), (long)(b), (long)(c))
#define HZ_SYSCALL6(number, a, b, c, d, e, f)                                                                          \
    hz_syscall6((number), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* The parameters of the C library's syscall() that are in registers: a function that has these, and ends in a jump,
   passes on all. On x86-64 the last argument of a call with six is on the stack, where a jump leaves it. The function
   must not have it as a parameter: the compiler could write it back, and with fewer arguments the place is the
   caller's. */
#if defined(__x86_64__)
#define HZ_SYSCALL_PARAMETERS long number, long first, long second, long third, long fourth, long fifth
#define HZ_SYSCALL_ARGUMENTS  number, first, second, third, fourth, fifth
#else
#define HZ_SYSCALL_PARAMETERS long number, long first, long second, long third, long fourth, long fifth, long sixth
#define HZ_SYSCALL_ARGUMENTS  number, first, second, third, fourth, fifth, sixth
#endif

#endif
