/*
 * interpose.c - a program that replaces functions of the C library by its own, which allocate, as registration caches,
 * tracers and tools that change the time do. The heap must call none of them: it would come back into itself.
 *
 * Prints the names of those that were called, then "done". The program calls none of them itself, and the C library
 * does not call its own functions by name.
 */
#include "base/os/syscall.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SECONDS = 2, THREADS = 3, SLOTS = 64, BIG_LOG2 = 26 };

static atomic_uint is_armed;
static _Thread_local unsigned depth;

struct hook {
    const char *name;
    atomic_uint calls;
};

/* Allocates in all ways. While it does, further calls only pass. */
static void allocate(void) {
    static const size_t sizes[] = {24, 3000, 70000, 1 << 20, 5 << 20};
    if (depth++ == 0)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            free(realloc(malloc(sizes[i]), sizes[(i + 1) % 5]));
            free(calloc(1, sizes[i]));
        }
    depth--;
}

static void note(struct hook *hook) {
    if (atomic_load(&is_armed) == 0 || depth != 0)
        return;
    atomic_fetch_add(&hook->calls, 1);
    allocate();
}

static long answer(long result) {
    if (!hz_syscall_failed(result))
        return result;
    errno = (int)-result;
    return -1;
}

/* Each takes up to six words, which is how arguments of any scalar types arrive. */
#define PARAMETERS long a, long b, long c, long d, long e, long f
#define HOOKS(X)                                                                                                       \
    X(mmap, SYS_mmap)                                                                                                  \
    X(mmap64, SYS_mmap)                                                                                                \
    X(munmap, SYS_munmap)                                                                                              \
    X(mprotect, SYS_mprotect)                                                                                          \
    X(madvise, SYS_madvise)                                                                                            \
    X(mremap, SYS_mremap)                                                                                              \
    X(mincore, SYS_mincore)                                                                                            \
    X(openat, SYS_openat)                                                                                              \
    X(openat64, SYS_openat)                                                                                            \
    X(read, SYS_read)                                                                                                  \
    X(write, SYS_write)                                                                                                \
    X(close, SYS_close)                                                                                                \
    X(fstat, SYS_fstat)                                                                                                \
    X(fcntl, SYS_fcntl)                                                                                                \
    X(fcntl64, SYS_fcntl)                                                                                              \
    X(ftruncate, SYS_ftruncate)                                                                                        \
    X(clock_gettime, SYS_clock_gettime)                                                                                \
    X(nanosleep, SYS_nanosleep)                                                                                        \
    X(prlimit, SYS_prlimit64)                                                                                          \
    X(prlimit64, SYS_prlimit64)                                                                                        \
    X(getrusage, SYS_getrusage)                                                                                        \
    X(getrandom, SYS_getrandom)                                                                                        \
    X(sched_yield, SYS_sched_yield)                                                                                    \
    X(getpid, SYS_getpid)                                                                                              \
    X(gettid, SYS_gettid)                                                                                              \
    X(getcpu, SYS_getcpu)                                                                                              \
    X(kill, SYS_kill)                                                                                                  \
    X(sigprocmask, SYS_rt_sigprocmask)

/* Under other names, so that no declaration of the headers is in the way. */
#define HOOK(function, number)                                                                                         \
    static struct hook hook_of_##function = {#function, 0};                                                            \
    long hooked_##function(PARAMETERS) __asm__(#function);                                                             \
    long hooked_##function(PARAMETERS) {                                                                               \
        note(&hook_of_##function);                                                                                     \
        return answer(hz_syscall6(number, a, b, c, d, e, f));                                                          \
    }
HOOKS(HOOK)

/* Those that are no system calls with the same arguments. None may be called, so none has to answer well. */
#define OTHERS(X)                                                                                                      \
    X(syscall)                                                                                                         \
    X(open)                                                                                                            \
    X(open64)                                                                                                          \
    X(sysconf)                                                                                                         \
    X(getpagesize)                                                                                                     \
    X(getrlimit)                                                                                                       \
    X(getrlimit64)                                                                                                     \
    X(sched_getcpu)                                                                                                    \
    X(sched_getaffinity)                                                                                               \
    X(clock_getres)                                                                                                    \
    X(gettimeofday)                                                                                                    \
    X(time)                                                                                                            \
    X(usleep)                                                                                                          \
    X(isatty)                                                                                                          \
    X(readlink)                                                                                                        \
    X(raise)                                                                                                           \
    X(sbrk)                                                                                                            \
    X(pthread_setname_np)                                                                                              \
    X(pthread_mutex_lock)                                                                                              \
    X(pthread_mutex_unlock)                                                                                            \
    X(pthread_cond_wait)                                                                                               \
    X(sem_wait)

#define OTHER(function)                                                                                                \
    static struct hook hook_of_##function = {#function, 0};                                                            \
    long hooked_##function(PARAMETERS) __asm__(#function);                                                             \
    long hooked_##function(PARAMETERS) {                                                                               \
        (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;                                                          \
        note(&hook_of_##function);                                                                                     \
        errno = ENOSYS;                                                                                                \
        return -1;                                                                                                     \
    }
OTHERS(OTHER)

#define ADDRESS(function, number) &hook_of_##function,
#define OTHER_ADDRESS(function)   &hook_of_##function,
static struct hook *const hooks[] = {HOOKS(ADDRESS) OTHERS(OTHER_ADDRESS)};

/* Before the constructors of libraries, so before the heap asks the system for anything but its first memory. */
static void arm(int count, char **words, char **environment) {
    (void)count, (void)words, (void)environment;
    atomic_store(&is_armed, 1);
}
__attribute__((section(".preinit_array"), used)) static void (*const before_libraries)(int, char **, char **) = arm;

static void fail(const char *what) {
    (void)hz_syscall3(SYS_write, 2, (long)what, (long)strlen(what));
    (void)hz_syscall3(SYS_exit_group, 3, 0, 0);
}

static long now_s(void) {
    struct timespec now;
    (void)hz_syscall3(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0);
    return now.tv_sec;
}

static void round_of_work(size_t step) {
    static _Thread_local unsigned char *slots[SLOTS];
    for (unsigned log2 = 4; log2 <= BIG_LOG2; log2++) {
        size_t size = ((size_t)1 << log2) - (step + log2) % 8;
        unsigned char **slot = &slots[(step * 7 + log2) % SLOTS];
        unsigned char *zeroed = calloc(1, size);
        if (zeroed == NULL || zeroed[0] != 0 || zeroed[size - 1] != 0)
            fail("calloc\n");
        zeroed[0] = zeroed[size - 1] = (unsigned char)log2;
        zeroed = realloc(zeroed, size + size / 4);
        if (zeroed == NULL || zeroed[0] != (unsigned char)log2 || zeroed[size - 1] != (unsigned char)log2)
            fail("realloc\n");
        free(*slot);
        *slot = size <= 1 << 20 ? realloc(zeroed, size / 2 + 1) : (free(zeroed), NULL);
        free(memalign((size_t)1 << log2 / 2, size));
    }
    if (step % 8 == 0)
        (void)malloc_trim(0);
}

/* For some seconds, so that all that happens in the background has happened. */
static void *work(void *until) {
    for (size_t step = 0; now_s() < (long)until; step++)
        round_of_work(step);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    void *until = (void *)(now_s() + 1 + SECONDS);
    round_of_work(0);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, until) != 0)
            fail("pthread_create\n");
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    (void)malloc_trim(0);
    atomic_store(&is_armed, 0);
    for (size_t i = 0; i < sizeof hooks / sizeof hooks[0]; i++)
        if (atomic_load(&hooks[i]->calls) != 0)
            printf("%s was called %u times\n", hooks[i]->name, atomic_load(&hooks[i]->calls));
    printf("done\n");
    return 0;
}
