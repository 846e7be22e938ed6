/*
 * os_process.c - the part of os.h that is about the process and its threads, for Linux: what a filter of system calls
 * allows, barriers for all threads, a thread's files, CPUs and priority.
 */
#define _GNU_SOURCE
#include "base/os/os.h"

#include "base/os/atomic.h"
#include "base/os/syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static _Atomic(bool) is_unfiltered; /* hint */

/* ---- names of mappings --------------------------------------------------------------------------------- */

#ifndef PR_SET_VMA
#define PR_SET_VMA           0x53564d41 /* the headers of Linux 5.17 have them */
#define PR_SET_VMA_ANON_NAME 0
#endif

/* Ranges that were to be named before it was known whether the process has a filter. */
struct early_name {
    void *address;
    size_t bytes;
    _Atomic(const char *) name; /* sync: early-name; NULL: not written yet */
};

static struct early_name early_names[16];
static _Atomic(uint32_t) early_count; /* counter; can exceed the room */
static _Atomic(bool) has_no_names;    /* hint: the kernel */

void hz_os_name(void *address, size_t bytes, const char *name) {
    if (hz_os_is_unfiltered()) {
        if (!hz_load_rlx(&has_no_names) && /* relaxed, both: hint */
            HZ_SYSCALL6(SYS_prctl, PR_SET_VMA, PR_SET_VMA_ANON_NAME, address, bytes, name, 0) == -EINVAL)
            hz_store_rlx(&has_no_names, true);
        return;
    }
    uint32_t index = hz_add_rlx(&early_count, 1); /* relaxed: counter */
    if (index >= HZ_ARRAY_LENGTH(early_names))
        return;
    early_names[index].address = address;
    early_names[index].bytes = bytes;
    hz_store_rel(&early_names[index].name, name); /* sync: early-name, partner early_names_give */
}

static void early_names_give(void) {
    for (uint32_t i = 0; i < HZ_ARRAY_LENGTH(early_names); i++) {
        const char *name = hz_load_acq(&early_names[i].name); /* sync: early-name, partner hz_os_name */
        if (name != NULL)
            hz_os_name(early_names[i].address, early_names[i].bytes, name);
    }
}

/* ---- filters -------------------------------------------------------------------------------------------- */

void hz_os_unfiltered(void) {
    hz_store_rlx(&is_unfiltered, true); /* relaxed, both: hint */
    early_names_give();
}

bool hz_os_is_unfiltered(void) {
    return hz_load_rlx(&is_unfiltered) && !hz_os_is_confined();
}

/* The kernel gives no base if the dynamic linker was executed itself, with the program as its argument. */
bool hz_os_has_loader(void) {
    return HZ_IS_SHARED || getauxval(AT_BASE) != 0;
}

/* ---- barriers ------------------------------------------------------------------------------------------ */

enum barrier_way { NO_BARRIER, BY_MEMBARRIER, BY_UNMAPPING };

static _Atomic(uint32_t) barrier_way; /* hint; enum barrier_way */

#if defined(__x86_64__)
/* The text that a leaf of CPUID has in registers, 12 or 16 bytes. */
static bool cpuid_begins_with(unsigned leaf, bool has_eax, const char *text) {
    unsigned words[4] = {0};
    if ((unsigned)__get_cpuid_max(leaf & 0xC0000000, NULL) < leaf)
        return false;
    __cpuid(leaf, words[0], words[1], words[2], words[3]);
    if (leaf == 0) { /* the maker's name is in another order */
        unsigned last = words[2];
        words[2] = words[3];
        words[3] = last;
    }
    return memcmp((const char *)words + (has_eax ? 0 : sizeof(words[0])), text, strlen(text)) == 0;
}

/* Whether this is another processor that runs x86-64 code: there, memory is that of the other one. */
static bool is_emulated(void) {
    const unsigned hypervisor = 0x40000000;
    const unsigned brand = 0x80000002;
    return cpuid_begins_with(0, false, "VirtualApple") || cpuid_begins_with(hypervisor, false, "TCGTCGTCGTCG") ||
           cpuid_begins_with(hypervisor, false, "FEXIFEXIEMU") || cpuid_begins_with(brand, true, "VirtualApple") ||
           cpuid_begins_with(brand, true, "Box64");
}
#endif

/* Whether a CPU makes others drop translations by interrupting them. With INVLPGB, which Linux uses from 6.15 on, they
   drop them without a pause, as on all processors but x86-64. */
static bool unmapping_interrupts(void) {
#if defined(__x86_64__)
    const unsigned leaf = 0x80000008;
    const unsigned invlpgb = 1U << 3;
    unsigned a;
    unsigned b;
    unsigned c;
    unsigned d;
    return !is_emulated() && (__get_cpuid(leaf, &a, &b, &c, &d) == 0 || (b & invlpgb) == 0);
#else
    return false;
#endif
}

static bool membarrier(int command) {
    return HZ_SYSCALL(SYS_membarrier, command, 0, 0) == 0;
}

bool hz_os_barrier_prepare(bool ask) {
    enum barrier_way way = NO_BARRIER;
    if (!hz_os_is_confined() && (ask || hz_os_is_unfiltered()) && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
        way = BY_MEMBARRIER;
    else if (unmapping_interrupts())
        way = BY_UNMAPPING;
    hz_store_rlx(&barrier_way, way); /* relaxed: hint */
    return way != NO_BARRIER;
}

/* To unmap a page that is in memory, the kernel interrupts every CPU that runs a thread of the process. An interrupt is
   a full barrier. A CPU that runs none has passed one when it switched, and passes one when it switches back. */
static bool barrier_by_unmapping(void) {
    size_t bytes = hz_os_page_bytes();
    char *page = hz_os_map(bytes, bytes, false);
    if (page == NULL)
        return false;
    *(volatile char *)page = 1; /* now it is in memory */
    return hz_os_unmap(page, bytes);
}

bool hz_os_barrier(void) {
    switch (hz_load_rlx(&barrier_way)) { /* relaxed: hint */
    case BY_MEMBARRIER:
        return !hz_os_is_confined() && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    case BY_UNMAPPING:
        return barrier_by_unmapping();
    default:
        return false;
    }
}

/* ---- the calling thread -------------------------------------------------------------------------------- */

static HZ_TLS bool files_are_own; /* owner */

int hz_os_files_own(bool ask) {
    enum { UNSHARE = 1 << 1 }; /* CLOSE_RANGE_UNSHARE; the headers of Linux 5.9 have it */
    long error = -ENOSYS;
#ifdef SYS_close_range
    if (ask || hz_os_is_unfiltered())
        error = HZ_SYSCALL(SYS_close_range, 0, UINT_MAX, UNSHARE);
#endif
    files_are_own = error == 0;
    return (int)-error;
}

/* From another thread of the process; -errno when that is not possible. */
int hz_os_file_borrow(int fd) {
#ifdef SYS_pidfd_getfd
    if (!files_are_own)
        return -EBADF;
    long process = HZ_SYSCALL(SYS_pidfd_open, HZ_SYSCALL(SYS_getpid, 0, 0, 0), 0, 0);
    if (process < 0)
        return (int)process;
    long file = HZ_SYSCALL(SYS_pidfd_getfd, process, fd, 0);
    (void)HZ_SYSCALL(SYS_close, process, 0, 0);
    return (int)file;
#else
    (void)fd;
    return -EBADF;
#endif
}

/* pthread_sigmask would unblock the C library's own signals. The thread that serves glibc's timers, which can come here
   from malloc, has blocked one of them, and would die of it. */
static uint64_t signals_block(uint64_t all) {
#ifdef __GLIBC__
    enum { FIRST_INTERNAL = 32, LAST_INTERNAL = 33 };
#else
    enum { FIRST_INTERNAL = 32, LAST_INTERNAL = 34 }; /* musl */
#endif
    uint64_t saved = 0;
    for (unsigned number = FIRST_INTERNAL; number <= LAST_INTERNAL; number++)
        all &= ~(UINT64_C(1) << (number - 1));
    (void)HZ_SYSCALL6(SYS_rt_sigprocmask, SIG_BLOCK, &all, &saved, sizeof(all), 0, 0); /* cannot fail */
    return saved;
}

uint64_t hz_os_signals_block(void) {
    return signals_block(UINT64_MAX);
}

uint64_t hz_os_signals_defer(void) {
    static const unsigned char at_once[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS};
    uint64_t others = UINT64_MAX;
    for (size_t i = 0; i < HZ_ARRAY_LENGTH(at_once); i++)
        others &= ~(UINT64_C(1) << (at_once[i] - 1));
    return signals_block(others);
}

void hz_os_signals_restore(uint64_t mask) {
    (void)HZ_SYSCALL6(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask), 0, 0); /* cannot fail */
}

int hz_os_nice(void) {
    enum { NICE_MIN = -20 };
    long from = HZ_SYSCALL(SYS_getpriority, PRIO_PROCESS, 0, 0); /* the system call answers 40 to 1 */
    return hz_syscall_failed(from) ? 0 : -NICE_MIN - (int)from;
}

void hz_os_thread_ordinary(int nice, const uint64_t *cpus, size_t words) {
    const struct sched_param none = {0};
    if (!hz_os_is_unfiltered())
        return;
    (void)HZ_SYSCALL(SYS_sched_setscheduler, 0, SCHED_OTHER, &none); /* all may be refused: the thread works anyway */
    (void)HZ_SYSCALL(SYS_setpriority, PRIO_PROCESS, 0, nice);
    if (cpus != NULL)
        (void)HZ_SYSCALL(SYS_sched_setaffinity, 0, words * sizeof(*cpus), cpus);
}

void hz_os_name_thread(const char *name) {
    if (hz_os_is_unfiltered())
        (void)HZ_SYSCALL(SYS_prctl, PR_SET_NAME, name, 0); /* it is informative only */
}

/* ---- files --------------------------------------------------------------------------------------------- */

void hz_os_scan_file(const char *path, bool (*take)(void *context, const char *text, size_t length), void *context) {
    enum { PIECE_BYTES = 1024 }; /* on a stack that may be small */
    char text[PIECE_BYTES];
    long got;
    long file = hz_os_is_confined() ? -1 : HZ_SYSCALL6(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (file < 0)
        return;
    while ((got = HZ_SYSCALL(SYS_read, file, text, sizeof(text))) > 0 && take(context, text, (size_t)got)) {
    }
    (void)HZ_SYSCALL(SYS_close, file, 0, 0);
}
