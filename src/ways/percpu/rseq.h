/*
 * rseq.h - two restartable sequences: a pop from and a push into a stack of the CPU that the thread runs on.
 *
 * A restartable sequence (rseq(2), Linux 4.18) is a critical section that ends with one store, the commit. If the
 * kernel preempts the thread, moves it to another CPU or delivers a signal to it before the commit, it resumes the
 * thread at the abort address, from where the section starts anew. So whoever commits has been alone on its CPU since
 * the start, and no atomic operation is needed.
 *
 * glibc registers each thread (2.35 and later); the area has a word that names the section under way (`rseq_cs`), and
 * the number of the CPU, or of the process's virtual CPU (mm_cid, Linux 6.3), which is as exclusive and has no gaps.
 * A thread that is not registered must never come to a section: its mm_cid is 0, the number of a virtual CPU. Its
 * cpu_id is above HZ_CPUS, which hz_rseq_area looks at.
 *
 * Linux 6.19 and later on arm64 do not restart a section when the thread is preempted and goes on on the same CPU
 * (reported on the kernel's list on 2026-04-22). There the bins of CPUs stay off (hz_rseq_is_usable).
 *
 * Nobody clears `rseq_cs` after a commit: the kernel does it when it finds the thread elsewhere. The library is never
 * unloaded (-z nodelete), so the description of the section stays readable.
 *
 * Where there is no assembly for the machine, and under ThreadSanitizer, which cannot see into it, HZ_RSEQ_IS_BUILT is
 * 0, and no thread ever comes here.
 */
#ifndef HZ_WAYS_PERCPU_RSEQ_H
#define HZ_WAYS_PERCPU_RSEQ_H

#include "base/os/atomic.h"
#include "base/process/cpus.h"

/* What a section needs of a stack, and where. */
enum {
    HZ_RSEQ_TOP = 0,   /* byte offset, in the slab, of the first slot above the newest block */
    HZ_RSEQ_LIMIT = 4, /* the top from which on a push gives up */
};

/* glibc's area, as the kernel defines it. */
enum {
    HZ_RSEQ_CPU_ID_AT = 4,
    HZ_RSEQ_CS_AT = 8,
    HZ_RSEQ_MM_CID_AT = 24,
    HZ_RSEQ_MM_CID_BYTES = 28, /* of an area that has mm_cid */
};

/* Whether glibc registers threads, and the kernel restarts sections as it should. The same for all threads. */
bool hz_rseq_is_usable(void);

/* Whether a kernel of this release, as uname(2) names it, restarts sections on arm64. False if it cannot be read. */
bool hz_rseq_is_sound_on_arm64(const char *release);

/* glibc's area of the calling thread; NULL when the kernel does not know it, or has given it a CPU's number that is too
   large. */
uint32_t *hz_rseq_area(void);

/* Bytes of an area that the kernel writes and glibc knows. The same for all threads, registered or not. */
size_t hz_rseq_area_bytes(void);

/* Where in an area of so many bytes the number is that all threads use. If one thread used mm_cid and another one
   cpu_id, both could be in one slab at once. */
HZ_INLINE size_t hz_rseq_number_at(size_t area_bytes) {
    return area_bytes >= HZ_RSEQ_MM_CID_BYTES ? HZ_RSEQ_MM_CID_AT : HZ_RSEQ_CPU_ID_AT;
}

/* hz_rseq_fence restarts the sections of all running threads of the process, which also pass a full memory barrier,
   before the call returns. Call hz_rseq_fence_prepare once in each process before. False when the kernel cannot
   (Linux 5.10), or the process is confined. */
bool hz_rseq_fence_prepare(void);
bool hz_rseq_fence(void);

/* Both sections:
     1. announce themselves, by storing the address of their description into rseq_cs;
     2. find the slab of the CPU; there may be none: slabs[cpu] is NULL;
     3. pop: the newest block is in the slot below the top. NULL: the stack is empty.
        push: give up if the top is not below the limit, or the newest block is this one. Store it into the slot.
     4. store the new top. That is the commit.
   Label 1 is the section's start, 2 its end, 3 its description, 4 the abort address, 5 the way back. */
#if HZ_ASM_X86_64

enum { HZ_RSEQ_IS_BUILT = 1, HZ_RSEQ_IS_ARM64 = 0 };

#define HZ_RSEQ_BEGIN                                                                                                  \
    ".pushsection __rseq_cs, \"aw\"\n\t"                                                                               \
    ".balign 32\n"                                                                                                     \
    "3:\n\t"                                                                                                           \
    ".long 0, 0\n\t" /* version, flags */                                                                              \
    ".quad 1f, 2f - 1f, 4f\n\t"                                                                                        \
    ".popsection\n"                                                                                                    \
    "5:\n\t"                                                                                                           \
    "leaq 3b(%%rip), %[slab]\n\t"                                                                                      \
    "movq %[slab], %[cs]\n"                                                                                            \
    "1:\n\t"                                                                                                           \
    "movl %[cpu], %k[top]\n\t"                                                                                         \
    "xorl %k[result], %k[result]\n\t"                                                                                  \
    "cmpl %[cpus], %k[top]\n\t"                                                                                        \
    "jae 2f\n\t"                                                                                                       \
    "movq (%[slabs], %[top], 8), %[slab]\n\t"                                                                          \
    "testq %[slab], %[slab]\n\t"                                                                                       \
    "jz 2f\n\t"                                                                                                        \
    "movl (%[slab], %[at]), %k[top]\n\t"

/* Four bytes that glibc has told the kernel lie before each abort address, as an instruction that traps. */
#define HZ_RSEQ_END                                                                                                    \
    "2:\n\t"                                                                                                           \
    ".pushsection .text.rseq_abort, \"ax\"\n\t"                                                                        \
    ".byte 0x0f, 0xb9, 0x3d\n\t"                                                                                       \
    ".long 0x53053053\n"                                                                                               \
    "4:\n\t"                                                                                                           \
    "jmp 5b\n\t"                                                                                                       \
    ".popsection"

/* The newest block of the stack at `at` in the CPU's slab; NULL when there is none. */
HZ_INLINE void *hz_rseq_pop(uint64_t *cs, const uint32_t *cpu, void *slabs, size_t at) {
    void *result;
    size_t top;
    char *slab;
    __asm__ volatile(HZ_RSEQ_BEGIN "movq -8(%[slab], %[top]), %[result]\n\t"
                                   "testq %[result], %[result]\n\t"
                                   "jz 2f\n\t"
                                   "subl $8, %k[top]\n\t"
                                   "movl %k[top], (%[slab], %[at])\n" HZ_RSEQ_END
                     : [result] "=&r"(result), [top] "=&r"(top), [slab] "=&r"(slab), [cs] "=m"(*cs)
                     : [cpu] "m"(*cpu), [cpus] "i"(HZ_CPUS), [slabs] "r"(slabs), [at] "r"(at)
                     : "memory", "cc");
    return result;
}

/* False if nothing was pushed. */
HZ_INLINE bool hz_rseq_push(uint64_t *cs, const uint32_t *cpu, void *slabs, size_t at, void *block) {
    size_t result;
    size_t top;
    char *slab;
    __asm__ volatile(HZ_RSEQ_BEGIN "cmpl 4(%[slab], %[at]), %k[top]\n\t"
                                   "jae 2f\n\t"
                                   "cmpq %[block], -8(%[slab], %[top])\n\t"
                                   "je 2f\n\t"
                                   "movq %[block], (%[slab], %[top])\n\t"
                                   "addl $8, %k[top]\n\t"
                                   "movl $1, %k[result]\n\t"
                                   "movl %k[top], (%[slab], %[at])\n" HZ_RSEQ_END
                     : [result] "=&r"(result), [top] "=&r"(top), [slab] "=&r"(slab), [cs] "=m"(*cs)
                     : [cpu] "m"(*cpu), [cpus] "i"(HZ_CPUS), [slabs] "r"(slabs), [at] "r"(at), [block] "r"(block)
                     : "memory", "cc");
    return result != 0;
}

#elif defined(__aarch64__) && !HZ_TSAN

enum { HZ_RSEQ_IS_BUILT = 1, HZ_RSEQ_IS_ARM64 = 1 };

#define HZ_RSEQ_BEGIN                                                                                                  \
    ".pushsection __rseq_cs, \"aw\"\n\t"                                                                               \
    ".balign 32\n"                                                                                                     \
    "3:\n\t"                                                                                                           \
    ".word 0, 0\n\t" /* version, flags */                                                                              \
    ".xword 1f, 2f - 1f, 4f\n\t"                                                                                       \
    ".popsection\n"                                                                                                    \
    "5:\n\t"                                                                                                           \
    "adrp %[slab], 3b\n\t"                                                                                             \
    "add %[slab], %[slab], :lo12:3b\n\t"                                                                               \
    "str %[slab], %[cs]\n"                                                                                             \
    "1:\n\t"                                                                                                           \
    "ldr %w[top], %[cpu]\n\t"                                                                                          \
    "mov %[result], xzr\n\t"                                                                                           \
    "cmp %w[top], %[cpus]\n\t"                                                                                         \
    "b.hs 2f\n\t"                                                                                                      \
    "ldr %[slab], [%[slabs], %w[top], uxtw #3]\n\t"                                                                    \
    "cbz %[slab], 2f\n\t"                                                                                              \
    "add %[bin], %[slab], %[at]\n\t"                                                                                   \
    "ldr %w[top], [%[bin]]\n\t"                                                                                        \
    "add %[slab], %[slab], %w[top], uxtw\n\t"

/* As above. The abort address is within reach of the branch: it is in the same section. */
#define HZ_RSEQ_END                                                                                                    \
    "2:\n\t"                                                                                                           \
    "b 6f\n\t"                                                                                                         \
    ".inst 0xd428bc00\n"                                                                                               \
    "4:\n\t"                                                                                                           \
    "b 5b\n"                                                                                                           \
    "6:"

/* As above. */
HZ_INLINE void *hz_rseq_pop(uint64_t *cs, const uint32_t *cpu, void *slabs, size_t at) {
    void *result;
    size_t top;
    char *slab;
    char *bin;
    __asm__ volatile(HZ_RSEQ_BEGIN "ldr %[result], [%[slab], #-8]\n\t"
                                   "cbz %[result], 2f\n\t"
                                   "sub %w[top], %w[top], #8\n\t"
                                   "str %w[top], [%[bin]]\n" HZ_RSEQ_END
                     : [result] "=&r"(result), [top] "=&r"(top), [slab] "=&r"(slab), [bin] "=&r"(bin), [cs] "=Q"(*cs)
                     : [cpu] "Q"(*cpu), [cpus] "i"(HZ_CPUS), [slabs] "r"(slabs), [at] "r"(at)
                     : "memory", "cc");
    return result;
}

/* As above. The commit releases: statistics and inspections of other CPUs read the slots below the top. */
HZ_INLINE bool hz_rseq_push(uint64_t *cs, const uint32_t *cpu, void *slabs, size_t at, void *block) {
    size_t result;
    size_t top;
    char *slab;
    char *bin;
    __asm__ volatile(HZ_RSEQ_BEGIN "ldr %w[result], [%[bin], #4]\n\t"
                                   "cmp %w[top], %w[result]\n\t"
                                   "mov %[result], xzr\n\t"
                                   "b.hs 2f\n\t"
                                   "ldr %[result], [%[slab], #-8]\n\t"
                                   "cmp %[result], %[block]\n\t"
                                   "mov %[result], xzr\n\t"
                                   "b.eq 2f\n\t"
                                   "str %[block], [%[slab]]\n\t"
                                   "add %w[top], %w[top], #8\n\t"
                                   "mov %[result], #1\n\t"
                                   "stlr %w[top], [%[bin]]\n" HZ_RSEQ_END
                     : [result] "=&r"(result), [top] "=&r"(top), [slab] "=&r"(slab), [bin] "=&r"(bin), [cs] "=Q"(*cs)
                     : [cpu] "Q"(*cpu), [cpus] "i"(HZ_CPUS), [slabs] "r"(slabs), [at] "r"(at), [block] "r"(block)
                     : "memory", "cc");
    return result != 0;
}

#else

enum { HZ_RSEQ_IS_BUILT = 0, HZ_RSEQ_IS_ARM64 = 0 };

HZ_INLINE void *hz_rseq_pop(uint64_t *cs, const uint32_t *cpu, void *slabs, size_t at) {
    (void)cs, (void)cpu, (void)slabs, (void)at;
    return NULL;
}

HZ_INLINE bool hz_rseq_push(uint64_t *cs, const uint32_t *cpu, void *slabs, size_t at, void *block) {
    (void)cs, (void)cpu, (void)slabs, (void)at, (void)block;
    return false;
}

#endif

#endif
