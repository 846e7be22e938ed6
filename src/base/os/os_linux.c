/*
 * os_linux.c - os.h for Linux: mmap, mprotect, madvise, mremap, futex, clocks, CPUs. Knows nothing of the rest of the
 * library. Its calls go straight to the kernel (syscall.h), or to the kernel's functions in the process (vdso.h).
 *
 * Sandboxes look at the arguments of calls, too, and know those that the C library's malloc uses ("plain" below). Where
 * other arguments serve better, a refusal makes this file try the plain ones, and a confined process uses no others
 * (hz_os_confine). docs/failure.md lists every call with all arguments; a test compares it with what programs call.
 *
 * In the faulty build the eleven functions that an OS can refuse, and the two that say how long something took, are
 * named hz_os_linux_*, and os_faulty.c calls them.
 */
#define _GNU_SOURCE
#include "base/os/os.h"

#include "base/os/atomic.h"
#include "base/os/os_faulty.h"
#include "base/os/random.h"
#include "base/os/syscall.h"
#include "base/os/vdso.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#ifdef __GLIBC__
#include <execinfo.h>
#endif

#if HZ_OS_FAULTY
#define IMPL(name) hz_os_linux_##name
#else
#define IMPL(name) hz_os_##name
#endif

/* Constants of Linux. glibc's headers have them only since 2.25 and 2.27. */
enum { WITHOUT_WAITING = 1 }; /* GRND_NONBLOCK */
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static _Atomic(bool) is_confined;     /* hint */
static _Atomic(uint32_t) usage_state; /* hint; from 0 to USAGE_KNOWN, from any to USAGE_ENDED */

enum { USAGE_KNOWN = 1, USAGE_ENDED };

/* A word of what the kernel has told the process at its start; 0: it has not told it. Reads memory only. */
static unsigned long auxiliary(unsigned long type) {
    int saved = errno; /* ENOENT if there is none */
    unsigned long value = getauxval(type);
    errno = saved;
    return value;
}

/* Page tags and list words have no room for higher addresses. A kernel gives them to programs that ask, but some
   kernels for riscv64 give them to all. */
static bool is_too_high(const void *address, size_t bytes) {
    return (uintptr_t)address + bytes > (uintptr_t)1 << HZ_ADDRESS_BITS;
}

/* ---- memory ---------------------------------------------------------------------------------------- */

/* Returns the address, or -errno. */
static long call_mmap(const void *address, size_t bytes, int protection, int flags) {
    return HZ_SYSCALL6(SYS_mmap, address, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static bool call_munmap(const void *address, size_t bytes) {
    return HZ_SYSCALL(SYS_munmap, address, bytes, 0) == 0;
}

/* Returns 0 or an errno value. */
static int call_madvise(const void *address, size_t bytes, int advice) {
    return (int)-HZ_SYSCALL(SYS_madvise, address, bytes, advice);
}

static void *pointer_to(long address) {
    return (void *)address; /* NOLINT(performance-no-int-to-ptr) */
}

static bool confined(void) {
    return hz_load_rlx(&is_confined); /* relaxed: hint. A thread that restricts itself sees its own store */
}

/* Whether a filter may have refused the call: the kernel itself has other reasons for plain arguments. */
static bool is_filters(long error) {
    return error == -EPERM || error == -EACCES || error == -EINVAL || error == -ENOSYS;
}

/* At `wish`, or elsewhere. `flags` are given up if they are refused. */
static void *map(void *wish, size_t bytes, int protection, int flags) {
    long address = flags == 0 || confined() ? -EPERM : call_mmap(wish, bytes, protection, flags);
    if (is_filters(address))
        address = call_mmap(wish, bytes, protection, 0);
    if (hz_syscall_failed(address))
        return NULL;
    if (is_too_high(pointer_to(address), bytes)) {
        (void)call_munmap(pointer_to(address), bytes); /* if refused, address space is lost, but no memory */
        return NULL;
    }
    return pointer_to(address);
}

/* The same at an address where nothing is mapped; false: something is, or the kernel refuses. Kernels before 4.17 do
   not know the flag and treat the address as a wish. Without the flag newer ones may map elsewhere though there is
   room. */
static bool map_at(void *address, size_t bytes, int protection) {
    void *mapped = map(address, bytes, protection, MAP_FIXED_NOREPLACE);
    if (mapped != NULL && mapped != address)
        (void)call_munmap(mapped, bytes);
    return mapped == address;
}

static bool unmap(void *address, size_t bytes) {
    return bytes == 0 || call_munmap(address, bytes);
}

static long call_mprotect(const void *address, size_t bytes, int protection) {
    return HZ_SYSCALL(SYS_mprotect, address, bytes, protection);
}

/* Maps over the reserved space, for a sandbox that forbids mprotect. mprotect is the first choice, because older
   kernels remove the old mapping before they check the overcommit limit. If that happens, this reserves the space
   again. */
static bool commit_by_mapping(void *address, size_t bytes) {
    long mapped = call_mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_FIXED);
    if (mapped == -ENOMEM)
        (void)map_at(address, bytes, PROT_NONE); /* fails unless that happened */
    return mapped == (long)address;
}

static bool commit(void *address, size_t bytes) {
    long result = call_mprotect(address, bytes, PROT_READ | PROT_WRITE);
    return result == 0 || (is_filters(result) && commit_by_mapping(address, bytes));
}

/* Maps more, and cuts off both ends. What is to be writable is only reserved at first, so that the kernel's account of
   memory never sees more than `bytes`, which may be all that it allows. */
static void *map_wide(size_t bytes, size_t alignment, int protection) {
    bool is_writable = (protection & PROT_WRITE) != 0;
    size_t room = bytes + alignment - hz_os_page_bytes();
    char *wide = map(NULL, room, is_writable ? PROT_NONE : protection, 0);
    if (wide == NULL)
        return NULL;
    char *start = (char *)hz_round_up((uintptr_t)wide, alignment);
    size_t before = (size_t)(start - wide);
    unmap(wide, before);
    unmap(start + bytes, room - before - bytes);
    if (!is_writable || commit(start, bytes))
        return start;
    unmap(start, bytes);
    return NULL;
}

/* The kernel maps new memory below what it mapped before, as a rule. So the exact size comes first, and then the next
   aligned address below it. */
static void *map_aligned(size_t bytes, size_t alignment, int protection, int flags) {
    if (bytes == 0 || bytes > PTRDIFF_MAX - alignment || alignment > (uintptr_t)1 << (HZ_ADDRESS_BITS - 1))
        return NULL;
    long wish = 0;
    for (unsigned tries = 0; tries < 2; tries++) {
        char *mapped = map(pointer_to(wish), bytes, protection, flags);
        if (mapped == NULL || ((uintptr_t)mapped & (alignment - 1)) == 0)
            return mapped;
        wish = (long)((uintptr_t)mapped & ~(alignment - 1));
        unmap(mapped, bytes);
    }
    return map_wide(bytes, alignment, protection);
}

void *IMPL(reserve)(size_t bytes, size_t alignment) {
    return map_aligned(bytes, alignment, PROT_NONE, 0);
}

bool IMPL(commit)(void *address, size_t bytes) {
    return commit(address, bytes);
}

void *IMPL(map)(size_t bytes, size_t alignment, bool lazy) {
    return map_aligned(bytes, alignment, PROT_READ | PROT_WRITE, lazy ? MAP_NORESERVE : 0);
}

/* A hint. */
static void advise(const void *address, size_t bytes, int advice) {
    if (!confined())
        (void)call_madvise(address, bytes, advice);
}

void *IMPL(map_zero)(size_t bytes, size_t alignment) {
    void *address = map_aligned(bytes, alignment, PROT_READ, 0);
    if (address != NULL)
        hz_os_hide(address, bytes);
    return address;
}

void hz_os_hide(void *address, size_t bytes) {
    advise(address, bytes, MADV_DONTDUMP); /* if refused, core files are larger */
}

void hz_os_show(void *address, size_t bytes) {
    advise(address, bytes, MADV_DODUMP);
}

void hz_os_sparse(void *address, size_t bytes) {
    advise(address, bytes, MADV_NOHUGEPAGE); /* a kernel without huge pages refuses, which does no harm */
}

void hz_os_huge(void *address, size_t bytes) {
    advise(address, bytes, MADV_HUGEPAGE); /* a kernel without huge pages refuses, which does no harm */
}

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* the headers of Linux 4.14 have it */
#endif

void hz_os_wipe_in_child(void *address, size_t bytes) {
    advise(address, bytes, MADV_WIPEONFORK); /* an older kernel refuses; the child has what was there */
}

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* the headers of Linux 6.1 have it */
#endif

int IMPL(collapse)(void *address, size_t bytes) {
    return confined() ? EPERM : call_madvise(address, bytes, MADV_COLLAPSE);
}

bool IMPL(purge)(void *address, size_t bytes) {
    return call_madvise(address, bytes, MADV_DONTNEED) == 0;
}

bool IMPL(unmap)(void *address, size_t bytes) {
    return unmap(address, bytes);
}

void hz_os_unmap_within(const void *start, const void *behind) {
    uintptr_t os_page = hz_os_page_bytes();
    uintptr_t first = hz_round_up((uintptr_t)start, os_page);
    uintptr_t after = (uintptr_t)behind & ~(os_page - 1);
    if (first < after)
        (void)hz_os_unmap((void *)first, after - first); /* as the header says */
}

/* A new mapping gives the memory back and takes the protection in one step. */
bool IMPL(close)(void *address, size_t bytes) {
    long mapped = confined() ? -EPERM : call_mmap(address, bytes, PROT_NONE, MAP_FIXED);
    if (is_filters(mapped))
        return call_madvise(address, bytes, MADV_DONTNEED) == 0 && call_mprotect(address, bytes, PROT_NONE) == 0;
    return mapped == (long)address;
}

bool hz_os_protect(void *address, size_t bytes, bool is_writable, bool is_executable) {
    return call_mprotect(address, bytes,
                         PROT_READ | (is_writable ? PROT_WRITE : 0) | (is_executable ? PROT_EXEC : 0)) == 0;
}

bool IMPL(fill)(void *address, size_t bytes) {
    return map_at(address, bytes, PROT_READ | PROT_WRITE);
}

/* The kernel refuses an address beyond the user address space (ENOMEM) before it looks whether something is there.
   Kernels before 4.17, and qemu-user, map elsewhere instead: below, unless the address is taken. */
bool hz_os_has_address(uintptr_t address) {
    size_t bytes = hz_os_page_bytes();
    const void *wanted = pointer_to((long)address);
    long mapped = confined() ? -EPERM : call_mmap(wanted, bytes, PROT_NONE, MAP_FIXED_NOREPLACE);
    if (hz_syscall_failed(mapped))
        return mapped != -ENOMEM;
    unsigned char is_resident;
    bool has = (uintptr_t)mapped >= address ||
               HZ_SYSCALL(SYS_mincore, wanted, 1, &is_resident) == 0; /* fails if nothing is there */
    (void)call_munmap(pointer_to(mapped), bytes);                     /* if refused, a page of address space is lost */
    return has;
}

static long call_mremap(const void *address, size_t old_bytes, size_t new_bytes, int flags, const void *target) {
    return HZ_SYSCALL6(SYS_mremap, address, old_bytes, new_bytes, flags, target, 0);
}

/* Why the range cannot be moved, found without a change; 0: it can. The kernel moves only a range that is one mapping
   and not sealed (mseal); before 6.12 it unmaps the target before it checks. Growing a range is refused for the same
   reasons, otherwise with another error, or it is undone here. */
static long move_refusal(const void *address, size_t bytes) {
    size_t page_bytes = hz_os_page_bytes();
    if (confined())
        return -EPERM;
    long grown = call_mremap(address, bytes, bytes + page_bytes, 0, NULL);
    if (!hz_syscall_failed(grown))
        (void)call_munmap((const char *)address + bytes, page_bytes); /* if refused, a page of address space is lost */
    return grown == -EFAULT || is_filters(grown) ? grown : 0;
}

/* The most that can be done where a sandbox forbids moves. */
static bool empty_in_place(void *address, size_t bytes) {
    return call_madvise(address, bytes, MADV_DONTNEED) == 0 &&
           call_mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0;
}

/* Not mapped over the old mapping: older kernels remove that before they refuse the new one, for example with
   vm.overcommit_memory=2. A move asks the kernel for no more memory. If it is refused after the old mapping is gone,
   the memory is mapped here after all, since the place is free then. */
bool IMPL(renew)(void *address, size_t bytes) {
    const int protection = PROT_READ | PROT_WRITE;
    if (confined())
        return empty_in_place(address, bytes);
    void *fresh = map(NULL, bytes, protection, 0);
    if (fresh == NULL)
        return false;
    long moved = call_mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, address);
    if (moved == (long)address)
        return true;
    (void)call_munmap(fresh, bytes); /* if refused, address space is lost, but no memory */
    return is_filters(moved) ? empty_in_place(address, bytes) : map_at(address, bytes, protection);
}

static void *move_onto(const void *address, size_t old_bytes, size_t new_bytes, void *target) {
    bool is_refused = move_refusal(address, old_bytes) != 0;
    if (!is_refused) {
        long moved = call_mremap(address, old_bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target);
        if (!hz_syscall_failed(moved))
            return pointer_to(moved);
    }
    /* The kernel may have unmapped the target, and another thread may have mapped something there: the range is ours
     * only if it can be mapped again. If the target is still mapped, its address space is lost, but no memory. */
    if (is_refused || map_at(target, new_bytes, PROT_NONE))
        (void)call_munmap(target, new_bytes);
    return NULL;
}

void *IMPL(remap)(void *address, size_t old_bytes, size_t new_bytes, void *target) {
    if (target != NULL)
        return move_onto(address, old_bytes, new_bytes, target);
    if (new_bytes < old_bytes)
        return call_munmap((char *)address + new_bytes, old_bytes - new_bytes) ? address : NULL;
    return !confined() && call_mremap(address, old_bytes, new_bytes, 0, NULL) == (long)address ? address : NULL;
}

size_t hz_os_resident_bytes(const void *address, size_t bytes) {
    enum { PAGES_AT_ONCE = 1024 }; /* a byte each, on a stack that may be small */
    unsigned char is_resident[PAGES_AT_ONCE];
    size_t page_bytes = hz_os_page_bytes();
    size_t pages = 0;
    for (size_t at = 0; at < bytes && hz_os_is_unfiltered(); at += PAGES_AT_ONCE * page_bytes) {
        size_t length = hz_min(bytes - at, PAGES_AT_ONCE * page_bytes);
        if (HZ_SYSCALL(SYS_mincore, (uintptr_t)address + at, length, is_resident) != 0)
            continue; /* unmapped meanwhile */
        for (size_t page = 0; page < (length + page_bytes - 1) / page_bytes; page++)
            pages += is_resident[page] & 1;
    }
    return pages * page_bytes;
}

bool hz_os_resident_map(const void *address, size_t bytes, uint64_t *bits) {
    enum { PAGES_MAX = 1024 };
    unsigned char is_resident[PAGES_MAX];
    size_t pages = bytes / hz_os_page_bytes();
    if (pages > PAGES_MAX || !hz_os_is_unfiltered() || HZ_SYSCALL(SYS_mincore, address, bytes, is_resident) != 0)
        return false;
    for (size_t page = 0; page < pages; page++) {
        bits[page / 64] = page % 64 == 0 ? 0 : bits[page / 64];
        bits[page / 64] |= (uint64_t)(is_resident[page] & 1) << (page % 64);
    }
    return true;
}

size_t hz_os_page_bytes(void) {
    static _Atomic(size_t) page_bytes; /* const after the first call; relaxed: all threads store the same */
    size_t known = hz_load_rlx(&page_bytes);
    if (HZ_LIKELY(known != 0))
        return known;
    known = (size_t)auxiliary(AT_PAGESZ); /* reads memory only, but takes some 50 instructions */
    hz_store_rlx(&page_bytes, known);
    return known;
}

enum { VDSO_NONE = 1 };

static HZ_NOINLINE uintptr_t vdso_find(_Atomic(uintptr_t) *known, const char *name, const char *name_on_arm64) {
    const void *image = (const void *)auxiliary(AT_SYSINFO_EHDR); /* NOLINT(performance-no-int-to-ptr) */
    uintptr_t function = hz_vdso_find(image, name);
    if (function == 0)
        function = hz_vdso_find(image, name_on_arm64);
    hz_store_rlx(known, function != 0 ? function : VDSO_NONE); /* relaxed: all threads store the same */
    return function;
}

/* A function of the vDSO, found at the first call; 0: there is none. `known` is const after that. */
HZ_INLINE uintptr_t vdso_function(_Atomic(uintptr_t) *known, const char *name, const char *name_on_arm64) {
    uintptr_t function = hz_load_rlx(known); /* relaxed: as in vdso_find. The code behind it is always there */
    if (HZ_LIKELY(function > VDSO_NONE))
        return function;
    return function == VDSO_NONE ? 0 : vdso_find(known, name, name_on_arm64);
}

/* glibc's restartable sequences (rseq(2), 2.35 and later): the kernel keeps the number of each thread's CPU in memory,
   so reading it is one load. Weak: other C libraries and older ones do not have them. */
extern const ptrdiff_t __rseq_offset __attribute__((weak, visibility("default")));
extern const unsigned __rseq_size __attribute__((weak, visibility("default")));

/* The number is negative in a thread that the kernel does not know. */
static int32_t cpu_of_rseq(void) {
    enum { CPU_ID_AT = 4 };
    char *thread = hz_thread_pointer();
    if (thread == NULL || &__rseq_offset == NULL || &__rseq_size == NULL || __rseq_size == 0)
        return -1;
    return *(volatile int32_t *)(void *)(thread + __rseq_offset + CPU_ID_AT);
}

uint32_t hz_os_cpu(void) {
    typedef long getcpu_function(unsigned *cpu, unsigned *node, void *unused);
    static _Atomic(uintptr_t) known; /* vdso_function */
    int32_t by_rseq = cpu_of_rseq();
    if (HZ_LIKELY(by_rseq >= 0))
        return (uint32_t)by_rseq;
    uintptr_t function = vdso_function(&known, "__vdso_getcpu", "__kernel_getcpu");
    unsigned cpu = 0;
    long result = function != 0 ? ((getcpu_function *)function)(&cpu, NULL, NULL) : HZ_SYSCALL(SYS_getcpu, &cpu, 0, 0);
    return result == 0 ? cpu : 0;
}

/* The hard limit or the soft one; SIZE_MAX: none, or not known. */
static size_t limit_get(int resource, bool is_hard) {
    struct rlimit limit; /* as the kernel has it: 64 bits each */
    if (confined() || HZ_SYSCALL6(SYS_prlimit64, 0, resource, NULL, &limit, 0, 0) != 0)
        return SIZE_MAX;
    rlim_t value = is_hard ? limit.rlim_max : limit.rlim_cur;
    return value == RLIM_INFINITY ? SIZE_MAX : (size_t)value;
}

size_t hz_os_data_limit(void) {
    return limit_get(RLIMIT_DATA, true);
}

bool hz_os_is_confined(void) {
    return confined();
}

uint32_t hz_os_process_id(void) {
    return (uint32_t)HZ_SYSCALL(SYS_getpid, 0, 0, 0);
}

bool hz_os_thread_is_itself(void) {
    return (uint32_t)HZ_SYSCALL(SYS_gettid, 0, 0, 0) == hz_os_thread_id();
}

void hz_os_confine(void) {
    hz_store_rlx(&is_confined, true); /* relaxed: hint. A thread that restricts itself sees its own store */
}

size_t hz_os_address_space_limit(void) {
    return limit_get(RLIMIT_AS, false);
}

size_t hz_os_address_space_reach(void) {
    enum { MOST = 32 };
    size_t soft = hz_os_address_space_limit();
    return soft > SIZE_MAX / MOST ? soft : hz_min(limit_get(RLIMIT_AS, true), MOST * soft);
}

size_t hz_os_affinity(uint32_t thread_id, uint64_t *mask, size_t words) {
    memset(mask, 0, words * sizeof(*mask));
    if (confined())
        return 0;
    /* returns the bytes that it has written, or -errno */
    if (HZ_SYSCALL(SYS_sched_getaffinity, thread_id, words * sizeof(*mask), mask) <= 0)
        return 0;
    size_t cpus = 0;
    for (size_t i = 0; i < words; i++)
        cpus += (size_t)__builtin_popcountll(mask[i]);
    return cpus;
}

/* ---- time ------------------------------------------------------------------------------------------ */

static bool clock_get(clockid_t clock, struct timespec *now) {
    typedef int clock_function(clockid_t, struct timespec *);
    static _Atomic(uintptr_t) known; /* vdso_function */
    uintptr_t function = vdso_function(&known, "__vdso_clock_gettime", "__kernel_clock_gettime");
    if (HZ_LIKELY(function != 0))
        return ((clock_function *)function)(clock, now) == 0;
    return HZ_SYSCALL(SYS_clock_gettime, clock, now, 0) == 0;
}

uint64_t hz_os_uptime_ms(void) {
    struct timespec now;
    if (!clock_get(CLOCK_BOOTTIME, &now))
        return 0;
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t hz_os_now_ms(void) {
    struct timespec now;
    if (!clock_get(CLOCK_MONOTONIC_COARSE, &now))
        return 0;
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t IMPL(now_us)(void) {
    struct timespec now;
    if (!clock_get(CLOCK_MONOTONIC, &now))
        return 0;
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t hz_os_date_ns(void) {
    struct timespec now;
    if (!clock_get(CLOCK_REALTIME, &now))
        return 0;
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* getrusage has CPU times too, but only as of the last timer tick. */
bool IMPL(usage_get)(struct hz_os_usage *usage) {
    struct timespec cpu;
    struct rusage counts;
    if (hz_load_rlx(&usage_state) != USAGE_KNOWN || confined()) /* relaxed: hint */
        return false;
    bool known = clock_get(CLOCK_THREAD_CPUTIME_ID, &cpu) && HZ_SYSCALL(SYS_getrusage, RUSAGE_THREAD, &counts, 0) == 0;
    if (known)
        *usage = (struct hz_os_usage){.cpu_us = (uint64_t)cpu.tv_sec * 1000000 + (uint64_t)cpu.tv_nsec / 1000,
                                      .sleeps = (uint64_t)counts.ru_nvcsw};
    return known;
}

void hz_os_usage_begin(void) {
    uint32_t none = 0;
    (void)hz_cas_strong_acq_rlx(&usage_state, &none, USAGE_KNOWN); /* cas. Publishes nothing */
}

void hz_os_usage_end(void) {
    hz_store_rlx(&usage_state, USAGE_ENDED); /* relaxed: hint. A thread that restricts itself sees its own store */
}

/* ---- threads and the process ----------------------------------------------------------------------- */

/* The C library makes the number of a thread's clock from the thread's id, which it has in memory: ~id << 3, and three
   bits for the kind of clock, as the kernel defines it. */
uint32_t hz_os_thread_id(void) {
    enum { KIND_BITS = 3 };
    clockid_t clock;
    if (pthread_getcpuclockid(pthread_self(), &clock) != 0)
        return 0;
    return (uint32_t) ~(clock >> KIND_BITS);
}

extern char __libc_single_threaded __attribute__((weak)); /* glibc 2.32 and later: no second thread ever started */

static _Atomic(bool) single_thread_noted; /* hint */

bool hz_os_is_single_threaded(void) {
    if (&__libc_single_threaded == NULL)
        return hz_load_rlx(&single_thread_noted); /* relaxed: hint */
    return __libc_single_threaded != 0;
}

bool hz_os_has_threads(void) {
    return &__libc_single_threaded != NULL && __libc_single_threaded == 0;
}

void hz_os_note_single_thread(void) {
    hz_store_rlx(&single_thread_noted, true); /* relaxed: hint */
}

void hz_os_note_threads(void) {
    hz_store_rlx(&single_thread_noted, false); /* relaxed: hint. A thread's start publishes it */
}

bool hz_os_is_first_thread(void) {
    if (hz_os_is_single_threaded())
        return true;
    return HZ_SYSCALL(SYS_gettid, 0, 0, 0) == HZ_SYSCALL(SYS_getpid, 0, 0, 0);
}

/* A file to read; negative: it cannot be opened. */
static long input_open(const char *path) {
    if (confined())
        return -EPERM;
    return HZ_SYSCALL6(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
}

static long input_read(long file, char *text, size_t room) {
    return HZ_SYSCALL(SYS_read, file, text, room);
}

static void input_close(long file) {
    (void)HZ_SYSCALL(SYS_close, file, 0, 0); /* it was only read */
}

void hz_os_read_file(const char *path, char *text, size_t room) {
    long got = -1;
    long file = input_open(path);
    if (file >= 0) {
        got = input_read(file, text, room - 1);
        input_close(file);
    }
    text[got > 0 ? got : 0] = '\0';
}

/* The value of a digit of a hexadecimal number; 16 or more: it is none. */
static unsigned hex_value(char digit) {
    if (digit >= '0' && digit <= '9')
        return (unsigned)(digit - '0');
    return digit >= 'a' && digit <= 'f' ? (unsigned)(digit - 'a') + 10 : 16;
}

/* A line for each mapping, in rising order: "begin-end " and more. */
bool hz_os_mapping_of(uintptr_t address, struct hz_os_mapping *mapping) {
    char text[512];
    long got;
    bool is_found = false;
    unsigned field = 0; /* in its line: begin, end, the rest */
    uintptr_t values[2] = {0, 0};
    long file = input_open("/proc/self/maps");
    *mapping = (struct hz_os_mapping){.below_end = 0};
    while (file >= 0 && !is_found && (got = input_read(file, text, sizeof(text))) > 0)
        for (long i = 0; i < got && !is_found; i++) {
            if (text[i] == '\n') {
                mapping->below_end = values[1];
                values[0] = values[1] = 0;
                field = 0;
            } else if (field < 2 && hex_value(text[i]) < 16) {
                values[field] = values[field] << 4 | hex_value(text[i]);
            } else if (field < 2) {
                field++;
                is_found = field == 2 && address - values[0] < values[1] - values[0];
            }
        }
    if (file >= 0)
        input_close(file);
    mapping->begin = values[0];
    mapping->end = values[1];
    return is_found;
}

size_t hz_os_stack_limit(void) {
    return limit_get(RLIMIT_STACK, false);
}

/* If the kernel refuses: derived from the time, and from the stack's address, which the kernel chose at random. */
void hz_os_random(void *memory, size_t bytes) {
    if (!confined() && HZ_SYSCALL(SYS_getrandom, memory, bytes, WITHOUT_WAITING) == (long)bytes)
        return;
    struct timespec now = {0};
    (void)clock_get(CLOCK_MONOTONIC, &now); /* if it fails, the address remains */
    uint64_t random = (uintptr_t)&now ^ (uint64_t)now.tv_nsec << 32;
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)memory)[i] = (unsigned char)(hz_random_next(&random) >> 56);
}

void hz_os_wait(const void *word, uint32_t expected) {
    (void)HZ_SYSCALL6(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

void hz_os_wait_ms(const void *word, uint32_t expected, uint32_t most_ms) {
    struct timespec time = {.tv_sec = most_ms / 1000, .tv_nsec = (long)(most_ms % 1000) * 1000000};
    (void)HZ_SYSCALL6(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &time, NULL, 0);
}

void hz_os_wake(const void *word, int count) {
    (void)HZ_SYSCALL(SYS_futex, word, FUTEX_WAKE_PRIVATE, count);
}

void hz_os_wait_shared(const void *word, uint32_t expected) {
    (void)HZ_SYSCALL6(SYS_futex, word, FUTEX_WAIT, expected, NULL, NULL, 0);
}

void hz_os_wake_shared(const void *word) {
    (void)HZ_SYSCALL(SYS_futex, word, FUTEX_WAKE, 1);
}

/* A thread with a table of files of its own writes where the process does. */
static int write_borrowed(int fd, const char *text, size_t length) {
    int borrowed = hz_os_file_borrow(fd);
    if (borrowed < 0)
        return EBADF;
    int error = hz_os_write(borrowed, text, length);
    (void)HZ_SYSCALL(SYS_close, borrowed, 0, 0);
    return error;
}

int hz_os_write(int fd, const char *text, size_t length) {
    while (length > 0) {
        long written = HZ_SYSCALL(SYS_write, fd, text, length);
        if (written >= 0) {
            text += written;
            length -= (size_t)written;
        } else if (written != -EINTR) {
            return written == -EBADF ? write_borrowed(fd, text, length) : (int)-written;
        }
    }
    return 0;
}

uint64_t hz_os_seed(void) {
    static _Atomic(uint64_t) seed; /* const after the first call; relaxed: every thread would store the same */
    uint64_t value = hz_load_rlx(&seed);
    if (value != 0)
        return value;
    const void *bytes = (const void *)auxiliary(AT_RANDOM); /* 16 random bytes that the kernel gives to each program */
    if (bytes != NULL)
        memcpy(&value, bytes, sizeof(value));
    value |= 1;
    hz_store_rlx(&seed, value);
    return value;
}

uint32_t hz_os_backtrace(void **addresses, int room) {
#ifdef __GLIBC__
    int saved = errno;
    int depth = backtrace(addresses, room);
    errno = saved;
    return depth > 0 ? (uint32_t)depth : 0;
#else
    (void)addresses;
    (void)room;
    return 0;
#endif
}

const char *hz_os_getenv(const char *name) {
    return secure_getenv(name);
}
