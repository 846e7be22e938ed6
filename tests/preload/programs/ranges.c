/* ranges.c - memory whose attributes the program, the kernel or a fork changes. Usage: ranges MODE; prints "done", or
   what was wrong. fork: a child lacks blocks of its parent (MADV_DONTFORK) and finds others empty (MADV_WIPEONFORK).
   barrier: a collector protects blocks, unprotects them in a SIGSEGV handler, and frees half of them protected.
   filled: the kernel makes huge pages of what went back. filled-idle: the same, and the program just waits.
   locked: mlockall with a small limit. */
#include <errno.h>
#include <linux/capability.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WIPE = 18, COLLAPSE = 25, HUGE = 2 << 20 };

static size_t page_bytes;

static void fail(const char *what) {
    printf("%s\n", what);
    exit(1);
}

/* ---- fork ---- */

enum { KINDS = 6, EACH = 7 };
static const size_t sizes[KINDS] = {4096, 16384, 65536, 131072, 3 << 20, 20 << 20};
static char *lacking[KINDS][EACH], *wiped[KINDS][EACH], *whole[KINDS][EACH];

static char *block_make(size_t bytes, int advice) {
    char *block = aligned_alloc(page_bytes, bytes);
    if (block == NULL || (advice != 0 && madvise(block, bytes, advice) != 0))
        fail("no block");
    return memset(block, 1, bytes);
}

static void is_all(const char *block, size_t bytes, char value, const char *what) {
    for (size_t at = 0; at < bytes; at += page_bytes)
        if (block[at] != value)
            fail(what);
}

static void churn(void) {
    static char *more[KINDS][EACH];
    for (int round = 0; round < 3; round++) {
        for (int kind = 0; kind < KINDS; kind++)
            for (int i = 0; i < EACH; i++) {
                more[kind][i] = calloc(1, sizes[kind]);
                if (more[kind][i] == NULL)
                    fail("calloc fails");
                is_all(more[kind][i], sizes[kind], 0, "calloc's memory is not zero");
                memset(more[kind][i], 3, 5000 < sizes[kind] ? 5000 : sizes[kind]);
            }
        for (int kind = 0; kind < KINDS; kind++)
            for (int i = 0; i < EACH; i++)
                free(more[kind][i]);
        malloc_trim(0);
    }
}

static void generation(int left) {
    if (left == 0)
        return;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        for (int kind = 0; kind < KINDS; kind++)
            for (int i = 0; i < EACH; i++) {
                is_all(wiped[kind][i], sizes[kind], 0, "a wiped block is not empty");
                is_all(whole[kind][i], sizes[kind], 1, "a block has changed");
                if (i % 3 == left % 3) {
                    free(whole[kind][i]);
                    whole[kind][i] = block_make(sizes[kind], 0);
                }
            }
        churn();
        generation(left - 1);
        exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fail("a child fails");
}

static void fork_mode(void) {
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < EACH; i++) {
            lacking[kind][i] = block_make(sizes[kind], MADV_DONTFORK);
            wiped[kind][i] = block_make(sizes[kind], WIPE);
            whole[kind][i] = block_make(sizes[kind], 0);
        }
    generation(3);
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < EACH; i++) {
            is_all(lacking[kind][i], sizes[kind], 1, "the parent's block has changed");
            free(lacking[kind][i]);
            free(wiped[kind][i]);
            lacking[kind][i] = wiped[kind][i] = block_make(sizes[kind], 0);
        }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        for (int kind = 0; kind < KINDS; kind++)
            for (int i = 0; i < EACH; i++)
                is_all(lacking[kind][i], sizes[kind], 1, "a child lacks a block of which nobody said so");
        exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0)
        fail("the last child fails");
}

/* ---- barrier ---- */

enum { PAGES = 2000, UNIT = 65536 };
static char *units[PAGES];

static void unprotect(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    if (mprotect((void *)((uintptr_t)info->si_addr & ~(uintptr_t)(UNIT - 1)), UNIT, PROT_READ | PROT_WRITE) != 0)
        _exit(2);
}

static void barrier_mode(void) {
    struct sigaction action = {.sa_sigaction = unprotect, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < PAGES; i++) {
            units[i] = aligned_alloc(UNIT, UNIT);
            if (units[i] == NULL)
                fail("no block");
            memset(units[i], i, page_bytes);
            if (mprotect(units[i], UNIT, PROT_READ) != 0)
                fail("mprotect fails");
        }
        for (int i = 0; i < PAGES; i += 2)
            units[i][100] = 1;
        signal(SIGSEGV, SIG_DFL);
        for (int i = 0; i < PAGES; i++)
            free(units[i]);
        for (int i = 0; i < PAGES; i++) {
            units[i] = malloc(i % 2 == 0 ? UNIT : 3000);
            memset(units[i], 1, i % 2 == 0 ? UNIT : 3000);
        }
        for (int i = 0; i < PAGES; i++)
            free(units[i]);
        sigaction(SIGSEGV, &action, NULL);
    }
}

/* ---- filled ---- */

enum { SMALL = 40000, LARGE = 200, SMALL_BYTES = 2000, LARGE_BYTES = 500000, MUCH_KB = 8000, WAIT_S = 60 };
static char *small[SMALL], *large[LARGE];
static uintptr_t lowest = UINTPTR_MAX, highest;

static long resident_kb(void) {
    long total, resident = -1;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &total, &resident) != 2)
        fail("statm cannot be read");
    fclose(file);
    return resident * (long)page_bytes / 1024;
}

static char *fill(size_t bytes) {
    char *block = malloc(bytes);
    if (block == NULL)
        fail("no block");
    lowest = (uintptr_t)block < lowest ? (uintptr_t)block : lowest;
    highest = (uintptr_t)block > highest ? (uintptr_t)block : highest;
    return memset(block, 1, bytes);
}

static void *nothing(void *argument) {
    return argument;
}

static void filled_mode(int waits) {
    pthread_t thread;
    if (waits && (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0))
        fail("no thread");
    for (int i = 0; i < SMALL; i++)
        small[i] = fill(SMALL_BYTES);
    for (int i = 0; i < LARGE; i++)
        large[i] = fill(LARGE_BYTES);
    for (int i = 0; i < SMALL; i++)
        if (i % 50 != 0)
            free(small[i]);
    for (int i = 0; i < LARGE; i++)
        if (i % 10 != 0)
            free(large[i]);
    malloc_trim(0);
    long before = resident_kb();
    for (uintptr_t at = (lowest + HUGE - 1) & ~(uintptr_t)(HUGE - 1); at + HUGE <= highest; at += HUGE)
        (void)syscall(SYS_madvise, at, (size_t)HUGE, COLLAPSE); /* some cannot be collapsed */
    if (resident_kb() < before + MUCH_KB) {
        printf("the kernel collapses nothing\n");
        exit(0);
    }
    if (!waits)
        malloc_trim(0);
    free(malloc(100000)); /* for the keeper to come */
    const struct timespec pause = {.tv_nsec = 100000000};
    for (int i = 0; waits && i < WAIT_S * 10 && resident_kb() >= before + MUCH_KB / 2; i++)
        nanosleep(&pause, NULL);
    if (resident_kb() >= before + MUCH_KB / 2)
        fail("the memory stays");
}

/* ---- locked ---- */

static void locked_mode(void) {
    enum { LIMIT = 8 << 20, MOST = 20000 };
    static const size_t bytes[] = {100, 5000, 70000, 1 << 20, 3 << 20};
    static char *blocks[MOST];
    struct rlimit limit = {LIMIT, LIMIT};
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2];
    memset(none, 0, sizeof(none));
    free(malloc(100));
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || syscall(SYS_capset, &head, none) != 0 || mlockall(MCL_FUTURE) != 0)
        fail("mlockall fails");
    for (int round = 0; round < 20; round++)
        for (size_t kind = 0; kind < sizeof(bytes) / sizeof(bytes[0]); kind++) {
            int count = 0;
            errno = 0;
            while (count < MOST && (blocks[count] = malloc(bytes[kind])) != NULL)
                memset(blocks[count++], 1, bytes[kind]);
            if (count < MOST && errno != ENOMEM)
                fail("another error");
            while (count > 0)
                free(blocks[--count]);
            malloc_trim(0);
        }
    if (munlockall() != 0)
        fail("munlockall fails");
    for (size_t kind = 0; kind < sizeof(bytes) / sizeof(bytes[0]); kind++)
        free(memset(malloc(bytes[kind]), 1, bytes[kind]));
}

int main(int count, char **words) {
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    const char *mode = count == 2 ? words[1] : "";
    if (strcmp(mode, "fork") == 0)
        fork_mode();
    else if (strcmp(mode, "barrier") == 0)
        barrier_mode();
    else if (strcmp(mode, "filled") == 0 || strcmp(mode, "filled-idle") == 0)
        filled_mode(strcmp(mode, "filled-idle") == 0);
    else if (strcmp(mode, "locked") == 0)
        locked_mode();
    else
        fail("unknown mode");
    printf("done\n");
    return 0;
}
