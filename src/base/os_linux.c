/*
 * os_linux.c - os.h for Linux: mmap, mprotect, madvise, mremap, futex, CPUs. Knows nothing of the rest of the library.
 *
 * In the faulty build the ten functions that an OS can refuse, and the two that say how long something took, are named
 * hz_os_linux_*, and os_faulty.c calls them.
 */
#define _GNU_SOURCE
#include "base/os.h"

#include "base/atomic.h"
#include "base/os_faulty.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

/* Page tags and list words have no room for higher addresses. A kernel gives them to programs that ask, but some
   kernels for riscv64 give them to all. */
static bool is_too_high(const void *address, size_t bytes) {
    return (uintptr_t)address + bytes > (uintptr_t)1 << HZ_ADDRESS_BITS;
}

static void *map(size_t bytes, int protection, int flags) {
    int saved = errno;
    void *address = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (address != MAP_FAILED && is_too_high(address, bytes)) {
        (void)munmap(address, bytes); /* if refused, address space is lost, but no memory */
        address = MAP_FAILED;
    }
    errno = saved;
    return address == MAP_FAILED ? NULL : address;
}

static bool unmap(void *address, size_t bytes) {
    int saved = errno;
    bool done = bytes == 0 || munmap(address, bytes) == 0;
    errno = saved;
    return done;
}

/* Maps the exact size first, since its address is often aligned. Otherwise maps more, and cuts off both ends. */
static void *map_aligned(size_t bytes, size_t alignment, int protection, int flags) {
    if (bytes == 0 || bytes > PTRDIFF_MAX - alignment)
        return NULL;
    char *exact = map(bytes, protection, flags);
    if (exact == NULL || ((uintptr_t)exact & (alignment - 1)) == 0)
        return exact;
    unmap(exact, bytes);
    size_t room = bytes + alignment - hz_os_page_bytes();
    char *wide = map(room, protection, flags);
    if (wide == NULL)
        return NULL;
    char *start = (char *)hz_round_up((uintptr_t)wide, alignment);
    size_t before = (size_t)(start - wide);
    unmap(wide, before);
    unmap(start + bytes, room - before - bytes);
    return start;
}

void *IMPL(reserve)(size_t bytes, size_t alignment) {
    return map_aligned(bytes, alignment, PROT_NONE, MAP_NORESERVE);
}

/* Maps over the reserved space, for a sandbox that forbids mprotect. mprotect is the first choice, because older
   kernels remove the old mapping before they check the overcommit limit. If that happens, this reserves the space
   again. */
static bool commit_by_mapping(void *address, size_t bytes) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (mmap(address, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0) == address)
        return true;
    void *again = mmap(address, bytes, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0); /* fails unless that happened */
    if (again != MAP_FAILED && again != address)
        (void)munmap(again, bytes); /* kernels before 4.17 treat the address as a hint */
    return false;
}

bool IMPL(commit)(void *address, size_t bytes) {
    int saved = errno;
    bool done = mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0;
    if (!done && errno != ENOMEM)
        done = commit_by_mapping(address, bytes);
    errno = saved;
    return done;
}

void *IMPL(map)(size_t bytes, size_t alignment, bool lazy) {
    return map_aligned(bytes, alignment, PROT_READ | PROT_WRITE, lazy ? MAP_NORESERVE : 0);
}

void *IMPL(map_zero)(size_t bytes, size_t alignment) {
    void *address = map_aligned(bytes, alignment, PROT_READ, MAP_NORESERVE);
    if (address != NULL) {
        int saved = errno;
        (void)madvise(address, bytes, MADV_DONTDUMP); /* if refused, core files are larger */
        errno = saved;
    }
    return address;
}

void hz_os_sparse(void *address, size_t bytes) {
    int saved = errno;
    (void)madvise(address, bytes, MADV_NOHUGEPAGE); /* a kernel without huge pages refuses, which does no harm */
    errno = saved;
}

void hz_os_huge(void *address, size_t bytes) {
    int saved = errno;
    (void)madvise(address, bytes, MADV_HUGEPAGE); /* a kernel without huge pages refuses, which does no harm */
    errno = saved;
}

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* the headers of Linux 4.14 have it */
#endif

void hz_os_wipe_in_child(void *address, size_t bytes) {
    int saved = errno;
    (void)madvise(address, bytes, MADV_WIPEONFORK); /* an older kernel refuses, and the child has what was there */
    errno = saved;
}

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* the headers of Linux 6.1 have it */
#endif

int IMPL(collapse)(void *address, size_t bytes) {
    int saved = errno;
    int error = madvise(address, bytes, MADV_COLLAPSE) == 0 ? 0 : errno;
    errno = saved;
    return error;
}

bool IMPL(purge)(void *address, size_t bytes) {
    int saved = errno;
    bool done = madvise(address, bytes, MADV_DONTNEED) == 0;
    errno = saved;
    return done;
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

bool IMPL(close)(void *address, size_t bytes) {
    int saved = errno;
    void *mapped = mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    errno = saved;
    return mapped == address;
}

bool IMPL(fill)(void *address, size_t bytes) {
    int saved = errno;
    void *mapped = mmap(address, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped != MAP_FAILED && mapped != address)
        (void)munmap(mapped, bytes); /* kernels before 4.17 treat the address as a hint */
    errno = saved;
    return mapped == address;
}

/* The kernel refuses an address beyond the user address space (ENOMEM) before it looks whether something is there.
   Kernels before 4.17, and qemu-user, map elsewhere instead: below, unless the address is taken. */
bool hz_os_has_address(uintptr_t address) {
    int saved = errno;
    size_t bytes = hz_os_page_bytes();
    void *mapped = mmap((void *)address, bytes, PROT_NONE, /* NOLINT(performance-no-int-to-ptr) */
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    bool has = mapped == MAP_FAILED ? errno != ENOMEM : (uintptr_t)mapped >= address;
    unsigned char is_resident;
    if (!has && mapped != MAP_FAILED)                         /* fails if nothing is there */
        has = mincore((void *)address, 1, &is_resident) == 0; /* NOLINT(performance-no-int-to-ptr) */
    if (mapped != MAP_FAILED)
        (void)munmap(mapped, bytes); /* if refused, one page of address space is lost */
    errno = saved;
    return has;
}

void *IMPL(remap)(void *address, size_t old_bytes, size_t new_bytes, void *target) {
    int saved = errno;
    void *moved = target == NULL ? mremap(address, old_bytes, new_bytes, 0)
                                 : mremap(address, old_bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    errno = saved;
    return moved == MAP_FAILED ? NULL : moved;
}

size_t hz_os_resident_bytes(const void *address, size_t bytes) {
    enum { PAGES_AT_ONCE = 1024 }; /* a byte each, on a stack that may be small */
    unsigned char is_resident[PAGES_AT_ONCE];
    size_t page_bytes = hz_os_page_bytes();
    size_t pages = 0;
    int saved = errno;
    for (size_t at = 0; at < bytes && !hz_load_rlx(&is_confined);
         at += PAGES_AT_ONCE * page_bytes) { /* relaxed: hint */
        size_t length = hz_min(bytes - at, PAGES_AT_ONCE * page_bytes);
        if (mincore((char *)(uintptr_t)address + at, length, is_resident) != 0)
            continue; /* unmapped meanwhile */
        for (size_t page = 0; page < (length + page_bytes - 1) / page_bytes; page++)
            pages += is_resident[page] & 1;
    }
    errno = saved;
    return pages * page_bytes;
}

size_t hz_os_page_bytes(void) {
    static _Atomic(size_t) page_bytes; /* const after the first call; relaxed: all threads store the same */
    size_t known = hz_load_rlx(&page_bytes);
    if (HZ_LIKELY(known != 0))
        return known;
    /* sysconf reads the auxiliary vector: no allocation, no system call, but some 80 instructions */
    known = (size_t)sysconf(_SC_PAGESIZE);
    hz_store_rlx(&page_bytes, known);
    return known;
}

uint32_t hz_os_cpu(void) {
    int saved = errno;
    int cpu = sched_getcpu();
    errno = saved;
    return cpu >= 0 ? (uint32_t)cpu : 0;
}

size_t hz_os_data_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_max == RLIM_INFINITY)
        return SIZE_MAX;
    return (size_t)limit.rlim_max;
}

bool hz_os_is_confined(void) {
    return hz_load_rlx(&is_confined); /* relaxed: hint */
}

uint32_t hz_os_process_id(void) {
    return (uint32_t)getpid();
}

bool hz_os_thread_is_itself(void) {
    return (uint32_t)syscall(SYS_gettid) == hz_os_thread_id();
}

void hz_os_confine(void) {
    hz_store_rlx(&is_confined, true); /* relaxed: hint. A thread that restricts itself sees its own store */
}

size_t hz_os_address_space_limit(void) {
    struct rlimit limit;
    if (hz_load_rlx(&is_confined) || getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return SIZE_MAX;
    return (size_t)limit.rlim_cur;
}

uint64_t hz_os_uptime_ms(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_BOOTTIME, &now) != 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t hz_os_now_ms(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC_COARSE, &now) != 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t IMPL(now_us)(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* getrusage has CPU times too, but only as of the last timer tick. */
bool IMPL(usage_get)(struct hz_os_usage *usage) {
    struct timespec cpu;
    struct rusage counts;
    if (hz_load_rlx(&usage_state) != USAGE_KNOWN || hz_load_rlx(&is_confined)) /* relaxed, both: hint */
        return false;
    int saved = errno;
    bool known = clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) == 0 && getrusage(RUSAGE_THREAD, &counts) == 0;
    errno = saved;
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

/* glibc stores the holder's id in a locked mutex. */
uint32_t hz_os_thread_id(void) {
#ifdef __GLIBC__
    uint32_t id = 0;
    pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* stores the id even with lock elision */
    if (pthread_mutex_lock(&mutex) == 0) {
        id = (uint32_t)mutex.__data.__owner;
        (void)pthread_mutex_unlock(&mutex); /* cannot fail: it is held */
    }
    return id;
#else
    return (uint32_t)syscall(SYS_gettid);
#endif
}

extern char __libc_single_threaded __attribute__((weak)); /* glibc 2.32 and later: no second thread ever started */

bool hz_os_is_first_thread(void) {
    if (&__libc_single_threaded != NULL && __libc_single_threaded != 0)
        return true;
    return syscall(SYS_gettid) == getpid();
}

static bool barrier_call(int command) {
    int saved = errno;
    bool done = !hz_load_rlx(&is_confined) && syscall(SYS_membarrier, command, 0, 0) == 0;
    errno = saved;
    return done;
}

bool hz_os_barrier_prepare(void) {
    return barrier_call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

bool hz_os_barrier(void) {
    return barrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void hz_os_read_file(const char *path, char *text, size_t room) {
    int saved = errno;
    ssize_t got = -1;
    /* not the C library's functions: those are cancellation points */
    long file = hz_load_rlx(&is_confined) ? -1 : syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (file >= 0) {
        got = (ssize_t)syscall(SYS_read, file, text, room - 1);
        (void)syscall(SYS_close, file);
    }
    text[got > 0 ? got : 0] = '\0';
    errno = saved;
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
    int saved = errno;
    ssize_t got;
    bool is_found = false;
    unsigned field = 0; /* in its line: begin, end, the rest */
    uintptr_t values[2] = {0, 0};
    /* as in hz_os_read_file */
    long file =
        hz_load_rlx(&is_confined) ? -1 : syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    *mapping = (struct hz_os_mapping){.below_end = 0};
    while (file >= 0 && !is_found && (got = (ssize_t)syscall(SYS_read, file, text, sizeof(text))) > 0)
        for (ssize_t i = 0; i < got && !is_found; i++) {
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
        (void)syscall(SYS_close, file);
    mapping->begin = values[0];
    mapping->end = values[1];
    errno = saved;
    return is_found;
}

size_t hz_os_stack_limit(void) {
    struct rlimit limit;
    int saved = errno;
    bool is_known = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    errno = saved;
    return is_known ? limit.rlim_cur : SIZE_MAX;
}

bool hz_os_is_sandboxed(void) {
    enum { STATUS_BYTES = 4096 };
    static const char label[] = "\nSeccomp:\t";
    char text[STATUS_BYTES];
    hz_os_read_file("/proc/thread-self/status", text, sizeof(text));
    const char *mode = strstr(text, label);
    return mode == NULL || mode[sizeof(label) - 1] != '0';
}

/* If the kernel refuses: derived from the time, and from the stack's address, which the kernel chose at random. */
void hz_os_random(void *memory, size_t bytes) {
    int saved = errno;
    if (syscall(SYS_getrandom, memory, bytes, WITHOUT_WAITING) != (long)bytes) {
        struct timespec now = {0};
        (void)clock_gettime(CLOCK_MONOTONIC, &now); /* if it fails, the address remains */
        uint64_t random = (uintptr_t)&now ^ (uint64_t)now.tv_nsec << 32;
        for (size_t i = 0; i < bytes; i++)
            ((unsigned char *)memory)[i] = (unsigned char)(hz_random_next(&random) >> 56);
    }
    errno = saved;
}

void hz_os_wait(const void *word, uint32_t expected) {
    int saved = errno;
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
    errno = saved;
}

void hz_os_wait_ms(const void *word, uint32_t expected, uint32_t most_ms) {
    int saved = errno;
    struct timespec time = {.tv_sec = most_ms / 1000, .tv_nsec = (long)(most_ms % 1000) * 1000000};
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &time, NULL, 0);
    errno = saved;
}

void hz_os_wake(const void *word, int count) {
    int saved = errno;
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
    errno = saved;
}

int hz_os_write(int fd, const char *text, size_t length) {
    int saved = errno;
    int error = 0;
    while (length > 0 && error == 0) {
        ssize_t written = syscall(SYS_write, fd, text, length); /* write(2) of the C library is a cancellation point */
        if (written >= 0) {
            text += written;
            length -= (size_t)written;
        } else if (errno != EINTR) {
            error = errno;
        }
    }
    errno = saved;
    return error;
}

uint64_t hz_os_seed(void) {
    static _Atomic(uint64_t) seed; /* const after the first call; relaxed: every thread would store the same */
    uint64_t value = hz_load_rlx(&seed);
    if (value != 0)
        return value;
    const void *bytes = (const void *)getauxval(AT_RANDOM); /* 16 random bytes that the kernel gives to each program */
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
