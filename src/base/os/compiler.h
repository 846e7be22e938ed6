/*
 * compiler.h - what differs between compilers, builds and machines, and nothing else.
 *
 * Owns the names of attributes, the build's switches as constants (so that dead code is still compiled and checked) and
 * the few numbers of the machine. Every file includes it; it includes nothing of ours. `#if` lives here.
 */
#ifndef HZ_BASE_OS_COMPILER_H
#define HZ_BASE_OS_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef HZ_CHECKS
#define HZ_CHECKS 0
#endif
#ifndef HZ_FENCES
#define HZ_FENCES 0
#endif
#ifndef HZ_STATS
#define HZ_STATS 0
#endif
#ifndef HZ_OS_FAULTY
#define HZ_OS_FAULTY 0
#endif
#ifndef HZ_SHARED
#define HZ_SHARED 0
#endif
#ifndef HZ_BUILD_NAME
#define HZ_BUILD_NAME "custom"
#endif

/* ThreadSanitizer cannot see into inline assembly, so its builds have none. gcc and clang announce it differently. */
#if defined(__SANITIZE_THREAD__)
#define HZ_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HZ_TSAN 1
#endif
#endif
#ifndef HZ_TSAN
#define HZ_TSAN 0
#endif

#if defined(__x86_64__) && !HZ_TSAN
#define HZ_ASM_X86_64 1
#else
#define HZ_ASM_X86_64 0
#endif

/* The build's switches, for use in plain `if`. */
enum {
    HZ_CONFIG_CHECKS = HZ_CHECKS, /* internal assertions and the live map */
    HZ_CONFIG_FENCES = HZ_FENCES, /* fences around blocks, and a quarantine (front/fence.h) */
    HZ_CONFIG_STATS = HZ_STATS,   /* counters on hot paths */
    HZ_IS_SHARED = HZ_SHARED,     /* the code is in a shared library */
};

/* Messages name a function as the program knows it. The archive that leaves malloc alone has no `free`, only hz_free.
 */
#ifdef HZ_ONLY_OUR_NAMES
#define HZ_CALLED(standard, ours) ours
#else
#define HZ_CALLED(standard, ours) standard
#endif

/* The file's name. gcc before 12 has only __FILE__, the path that the build passed to it. */
#ifdef __FILE_NAME__
#define HZ_FILE_NAME __FILE_NAME__
#else
#define HZ_FILE_NAME __FILE__
#endif

#define HZ_LIKELY(x)       __builtin_expect(!!(x), 1)
#define HZ_UNLIKELY(x)     __builtin_expect(!!(x), 0)
#define HZ_HIDE_VALUE(x)   __asm__("" : "+r"(x)) /* from here on the compiler does not know the variable's value */
#define HZ_INLINE          static inline __attribute__((always_inline))
#define HZ_NOINLINE        __attribute__((noinline))
#define HZ_COLD            __attribute__((cold, noinline))
#define HZ_NORETURN        __attribute__((noreturn))
#define HZ_HIDDEN          __attribute__((visibility("hidden")))
#define HZ_EXPORT          __attribute__((visibility("default")))
#define HZ_WEAK            __attribute__((weak))
#define HZ_UNUSED          __attribute__((unused))
#define HZ_ALIGNED(n)      __attribute__((aligned(n)))
#define HZ_HOT             __attribute__((hot, aligned(64)))
#define HZ_NO_ASAN         __attribute__((no_sanitize("address"))) /* may read what AddressSanitizer guards */
#define HZ_PREFETCH(p)     __builtin_prefetch(p)
#define HZ_STRINGIFY_(x)   #x
#define HZ_STRINGIFY(x)    HZ_STRINGIFY_(x)
#define HZ_ARRAY_LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* The function that the linkers chose for an exported name. Without the barrier, a compiler that sees our definition
   (with LTO, anywhere in the library) would call ours directly. */
#define HZ_LINKED(function)                                                                                            \
    __extension__({                                                                                                    \
        __typeof__(&(function)) linked = &(function);                                                                  \
        __asm__("" : "+r"(linked));                                                                                    \
        linked;                                                                                                        \
    })

/* A variable that stays though nothing uses it. A linker that removes sections needs to be told, too. */
#if defined(__has_attribute)
#if __has_attribute(retain)
#define HZ_KEPT __attribute__((used, retain))
#endif
#endif
#ifndef HZ_KEPT
#define HZ_KEPT __attribute__((used))
#endif

/* Initial-exec: one instruction reaches the variable. The library's thread-local variables take a few words together,
   so they fit into the static TLS that glibc reserves for dlopen. */
#define HZ_TLS __thread __attribute__((tls_model("initial-exec")))

#if defined(__x86_64__) || defined(__i386__)
#define HZ_CPU_RELAX() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define HZ_CPU_RELAX() __asm__ volatile("yield")
#else
#define HZ_CPU_RELAX() ((void)0)
#endif

/* The thread pointer: the C library keeps the calling thread's data there. NULL: not known on this processor. */
HZ_INLINE char *hz_thread_pointer(void) {
    char *pointer = NULL;
#if HZ_ASM_X86_64
    __asm__("movq %%fs:0, %0" : "=r"(pointer));
#elif defined(__aarch64__) && !HZ_TSAN
    __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
#elif defined(__riscv) && !HZ_TSAN
    __asm__("mv %0, tp" : "=r"(pointer));
#endif
    return pointer;
}

/* DWARF's number of the frame pointer: rbp, x29. It points to the caller's frame pointer, with the return address
   behind it. 0: not known to be so on this processor. */
#if defined(__x86_64__)
#define HZ_FRAME_REGISTER 6
#elif defined(__aarch64__)
#define HZ_FRAME_REGISTER 29
#else
#define HZ_FRAME_REGISTER 0
#endif

/* Fetches a cache line together with the right to write it, so the later write needs no second trip. Compilers emit
   x86-64's instruction only when told to. All but the very first processors accept it, at least as a no-op. */
#if HZ_ASM_X86_64
#define HZ_PREFETCH_WRITE(p) __asm__ volatile("prefetchw %0" ::"m"(*(const char *)(p)))
#else
#define HZ_PREFETCH_WRITE(p) __builtin_prefetch((p), 1)
#endif

/* User addresses have at most this many bits, unless a program asks the kernel for more by a hint. Elsewhere than on
   x86-64 the kernel's build or the processor can mean fewer. */
#if defined(__x86_64__)
#define HZ_ADDRESS_BITS      47
#define HZ_ADDRESS_BITS_VARY 0
#else
#define HZ_ADDRESS_BITS      48
#define HZ_ADDRESS_BITS_VARY 1
#endif

/* The largest page size that the system can have. x86-64 knows one only. */
#if defined(__x86_64__)
#define HZ_OS_PAGE_BYTES_MAX 4096
#else
#define HZ_OS_PAGE_BYTES_MAX 65536
#endif

/* Constructors with this priority run before the library's constructors without one. 0 to 100 are the compiler's. */
#define HZ_PRIORITY_EARLY 101

enum {
    HZ_CACHE_LINE_BYTES = 64,
    HZ_GRANULE_BYTES = 16, /* alignment of every block: alignof(max_align_t) on the machines that we know */
};

HZ_INLINE size_t hz_round_up(size_t value, size_t power_of_two) {
    return (value + power_of_two - 1) & ~(power_of_two - 1);
}

HZ_INLINE bool hz_is_power_of_two(size_t value) {
    return value != 0 && (value & (value - 1)) == 0;
}

/* Position of the highest set bit. `value` is not 0. Here the exclusive or is a subtraction from 63; from this form
   compilers for x86 make a single bsr. */
HZ_INLINE unsigned hz_log2(size_t value) {
    return (unsigned)(8 * sizeof(unsigned long) - 1) ^ (unsigned)__builtin_clzl(value);
}

HZ_INLINE size_t hz_min(size_t a, size_t b) {
    return a < b ? a : b;
}

HZ_INLINE size_t hz_max(size_t a, size_t b) {
    return a > b ? a : b;
}

#endif
