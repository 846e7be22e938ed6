/*
 * kinds.c - a process of the kind that the command line names. The library's own thread must neither learn from the
 * process what it should not know, nor disturb it. Prints "ok" at its end.
 *
 *   clones HOW N SEED   N children, one after the other, allocate while the library's thread works
 *     raw, _fork        made by clone(2), by _Fork
 *     stack             made by clone(2) on a stack of its own
 *     handler           made by clone(2) from a signal handler that interrupts malloc
 *     pid               made by clone(2) in a new namespace of processes; the child calls prctl
 *     vfork             the child executes another program
 *     threads           the child of clone(2) starts threads
 *   ends HOW N          N threads with caches end by the system call exit
 *     protect, unmap    then their stacks are protected, or unmapped
 *     reuse             the next thread gets the same stack
 *     holding           they hold blocks that others free
 *   leader HOW          the first thread ends by the system call exit
 *     busy              another thread goes on for a while
 *     asleep            after the library's thread has fallen asleep
 *     last              after all other threads
 *     exit              by pthread_exit instead
 *     thread            another thread ends after it by the system call
 *   descriptors MS      closes all descriptors again and again while threads start and end
 *   namespace HOW       joins threads, then calls unshare, for some kinds setns too. HOW: user, threads, mount, network
 *   full N              sets RLIMIT_NPROC so that N threads fit; starts and joins N threads, five times
 *   alone HOW           a thread changes its CPUs, nice value or policy, and then starts the first thread; prints those
 *                       of the library's thread. HOW: cpus, nice, idle (SCHED_IDLE), batch, rr
 *   glibc HOW           glibc starts threads. HOW: timer, aio
 *   sleep HOW S         starts two threads that work and sleep, works, and sleeps for S seconds
 *     fed, starved      starved: no descriptor is left when the threads start
 */
#include <aio.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILD_SECONDS = 20, STACK_BYTES = 256 << 10 };

static _Noreturn void fail(const char *what) {
    dprintf(STDERR_FILENO, "kinds: %s: %s\n", what, strerror(errno));
    _exit(2);
}

static void sleep_ms(unsigned ms) {
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&time, &time) != 0 && errno == EINTR) {
    }
}

static unsigned below(uint64_t *random, unsigned bound) {
    *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(*random >> 33) % bound;
}

/* ---- blocks ---------------------------------------------------------------------------------------------- */

enum { KEPT = 4000 };

/* Allocates and frees blocks of 16 B to 300 KiB, and looks at their contents. */
static void churn(unsigned steps, uint64_t seed) {
    unsigned char **kept = calloc(KEPT, sizeof *kept);
    uint64_t random = seed;
    for (unsigned step = 0; step < steps; step++) {
        unsigned char **place = &kept[below(&random, KEPT)];
        if (*place != NULL && **place != (unsigned char)((uintptr_t)*place >> 4))
            fail("a block has lost its contents");
        free(*place);
        size_t size = (16U << below(&random, 14)) + below(&random, 5000);
        *place = malloc(size);
        if (*place == NULL)
            fail("malloc");
        **place = (unsigned char)((uintptr_t)*place >> 4);
    }
    for (unsigned i = 0; i < KEPT; i++)
        free(kept[i]);
    free(kept);
}

static void *churn_thread(void *seed) {
    churn(3000, (uintptr_t)seed);
    return NULL;
}

static pthread_t start(void *(*function)(void *), void *argument) {
    pthread_t thread;
    if ((errno = pthread_create(&thread, NULL, function, argument)) != 0)
        fail("pthread_create");
    return thread;
}

static void run_threads(unsigned count) {
    pthread_t threads[16];
    for (unsigned i = 0; i < count; i++)
        threads[i] = start(churn_thread, (void *)(uintptr_t)(i + 1));
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* ---- children -------------------------------------------------------------------------------------------- */

static atomic_bool churning = true;

static void *churn_on(void *seed) {
    for (uint64_t round = (uintptr_t)seed; churning; round += 16)
        churn(500, round);
    return NULL;
}

static int child_work(void *seed) {
    alarm(CHILD_SECONDS);
    churn(4000, (uintptr_t)seed);
    return 0;
}

static int child_confines(void *seed) {
    (void)seed;
    alarm(CHILD_SECONDS);
    int error = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    churn(1000, 7);
    return error;
}

static long clone_raw(unsigned long flags) {
    return syscall(SYS_clone, flags, 0, 0, 0, 0);
}

static void await(pid_t child) {
    int status;
    if (child < 0)
        fail("no child");
    if (waitpid(child, &status, 0) != child || status != 0) {
        dprintf(STDERR_FILENO, "kinds: a child ended with status %x\n", (unsigned)status);
        _exit(3);
    }
}

static volatile sig_atomic_t handled;

static void clone_in_handler(int number) {
    (void)number;
    int saved = errno;
    long child = clone_raw(SIGCHLD);
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(CHILD_SECONDS);
        handled = 2; /* the child returns into malloc and finishes what was interrupted */
        return;
    }
    await((pid_t)child);
    handled = 1;
    errno = saved;
}

static void clone_from_handler(uint64_t seed) {
    struct sigaction action = {.sa_handler = clone_in_handler};
    struct itimerval soon = {.it_value = {.tv_usec = 1 + (suseconds_t)(seed % 7) * 300}};
    sigaction(SIGALRM, &action, NULL);
    handled = 0;
    setitimer(ITIMER_REAL, &soon, NULL);
    for (uint64_t round = seed; handled == 0; round++)
        churn(200, round);
    if (handled == 2)
        _exit(child_work((void *)(uintptr_t)seed));
}

static char *const TRUE_PROGRAM[] = {"/bin/true", NULL};

static void one_child(const char *how, uint64_t seed) {
    char *volatile stack = NULL; /* vfork returns twice */
    long child = 0;
    if (strcmp(how, "raw") == 0 || strcmp(how, "threads") == 0) {
        child = clone_raw(SIGCHLD);
    } else if (strcmp(how, "_fork") == 0) {
        child = _Fork();
    } else if (strcmp(how, "stack") == 0 || strcmp(how, "pid") == 0) {
        bool is_pid = strcmp(how, "pid") == 0;
        stack = malloc(STACK_BYTES);
        child = clone(is_pid ? child_confines : child_work, stack + STACK_BYTES, (is_pid ? CLONE_NEWPID : 0) | SIGCHLD,
                      (void *)(uintptr_t)seed);
    } else if (strcmp(how, "vfork") == 0) {
        child = vfork();
        if (child == 0) {
            execv(TRUE_PROGRAM[0], TRUE_PROGRAM);
            _exit(1);
        }
    } else {
        clone_from_handler(seed);
        return;
    }
    if (child == 0 && strcmp(how, "threads") == 0) {
        alarm(CHILD_SECONDS);
        run_threads(4);
        _exit(0);
    }
    if (child == 0)
        _exit(child_work((void *)(uintptr_t)seed));
    await((pid_t)child);
    free(stack);
}

static void clones(const char *how, unsigned count, uint64_t seed) {
    sigset_t alarms; /* the other thread does not take them: a child made there would churn on for ever */
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL);
    pthread_t other = start(churn_on, (void *)(uintptr_t)seed);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    for (unsigned i = 0; i < count; i++) {
        one_child(how, seed + i);
        churn(300, seed + i);
    }
    churning = false;
    pthread_join(other, NULL);
}

/* ---- threads that end by the system call ----------------------------------------------------------------- */

static void *held[400];

static void *ends_raw(void *keeps) {
    uint64_t random = 3;
    for (int i = 0; i < 400; i++)
        memset(held[i] = malloc(16 + below(&random, 9000)), 1, 16);
    for (int i = 0; keeps == NULL && i < 400; i++)
        free(held[i]);
    syscall(SYS_exit, 0);
    return NULL;
}

static void ends(const char *how, unsigned count) {
    char *stack = NULL;
    for (unsigned round = 0; round < count; round++) {
        pthread_attr_t attributes;
        pthread_t thread;
        bool holds = strcmp(how, "holding") == 0;
        if (stack == NULL || strcmp(how, "reuse") != 0)
            stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, stack, STACK_BYTES);
        if (pthread_create(&thread, &attributes, ends_raw, holds ? held : NULL) != 0 || pthread_join(thread, NULL) != 0)
            fail("a thread on a stack of its own");
        if (strcmp(how, "protect") == 0)
            mprotect(stack, STACK_BYTES, PROT_NONE);
        else if (strcmp(how, "reuse") != 0)
            munmap(stack, STACK_BYTES);
        for (int i = 0; holds && i < 400; i++)
            free(held[i]);
        churn(500, round);
    }
    for (int i = 0; i < 30; i++) { /* the library's thread comes by */
        run_threads(2);
        sleep_ms(100);
    }
}

static void *goes_on(void *ms) {
    churn(1000, 5);
    sleep_ms((unsigned)(uintptr_t)ms);
    churn(1000, 6);
    return NULL;
}

static void *goes_on_and_ends_raw(void *ms) {
    goes_on(ms);
    syscall(SYS_exit, 0);
    return NULL;
}

static void leader(const char *how) {
    bool is_last = strcmp(how, "last") == 0 || strcmp(how, "asleep") == 0;
    pthread_t other =
        start(strcmp(how, "thread") == 0 ? goes_on_and_ends_raw : goes_on, (void *)(uintptr_t)(is_last ? 10 : 1500));
    if (is_last)
        pthread_join(other, NULL);
    if (strcmp(how, "asleep") == 0)
        sleep_ms(6000);
    puts("ok");
    if (strcmp(how, "exit") == 0)
        pthread_exit(NULL); /* the last thread then ends as by exit(0), which writes the buffer */
    syscall(SYS_exit, 0);
}

/* ---- descriptors ----------------------------------------------------------------------------------------- */

static void *short_thread(void *unused) {
    free(malloc(100));
    return unused;
}

static void descriptors(unsigned ms) {
    struct timespec begin;
    struct timespec now;
    char expected[64];
    int source = open("/proc/self/exe", O_RDONLY);
    if (read(source, expected, sizeof expected) != sizeof expected)
        fail("/proc/self/exe");
    close(source);
    pthread_t thread = start(churn_on, NULL);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        char text[sizeof expected];
        for (int fd = 3; fd < 12; fd++)
            close(fd);
        int fd = open("/proc/self/exe", O_RDONLY);
        if (fd != 3)
            fail("the lowest descriptor is in use");
        pthread_t passing = start(short_thread, NULL);
        for (volatile int i = 0; i < 2000; i++) {
        }
        if (read(fd, text, sizeof text) != sizeof text || memcmp(text, expected, sizeof text) != 0)
            fail("the file was read, or closed, by somebody else");
        pthread_join(passing, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < (long)ms);
    churning = false;
    pthread_join(thread, NULL);
}

/* ---- namespaces ------------------------------------------------------------------------------------------ */

static void namespaces(const char *how) {
    run_threads(4);
    int mounts = open("/proc/self/ns/mnt", O_RDONLY);
    if (strcmp(how, "user") == 0 && unshare(CLONE_NEWUSER) != 0)
        fail("unshare(CLONE_NEWUSER)");
    if (strcmp(how, "threads") == 0 && unshare(CLONE_THREAD | CLONE_VM | CLONE_SIGHAND) != 0)
        fail("unshare(CLONE_VM)");
    if (strcmp(how, "mount") == 0 && (unshare(CLONE_NEWNS) != 0 || setns(mounts, CLONE_NEWNS) != 0))
        fail("a namespace of mounts, and back");
    if (strcmp(how, "network") == 0) {
        int network = open("/proc/self/ns/net", O_RDONLY);
        if (unshare(CLONE_NEWNET) != 0 || setns(network, 0) != 0)
            fail("a namespace of networks, and back");
    }
    churn(2000, 9);
    run_threads(4);
    churn(2000, 9);
}

/* ---- limits ---------------------------------------------------------------------------------------------- */

static pthread_barrier_t all_there;

static void *waits(void *unused) {
    churn(100, 1);
    pthread_barrier_wait(&all_there);
    return unused;
}

static void full(unsigned count) {
    const struct rlimit limit = {count + 1, count + 1};
    pthread_t threads[64];
    if (setrlimit(RLIMIT_NPROC, &limit) != 0)
        fail("RLIMIT_NPROC");
    for (unsigned round = 0; round < 5; round++) {
        pthread_barrier_init(&all_there, NULL, count);
        for (unsigned i = 0; i < count; i++)
            threads[i] = start(waits, NULL);
        for (unsigned i = 0; i < count; i++)
            pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&all_there);
        sleep_ms(1200); /* the library's thread may come back */
    }
}

/* ---- the library's thread -------------------------------------------------------------------------------- */

/* The kernel's number of the thread with the library's name; 0 after two seconds without one. */
static pid_t own_thread(void) {
    for (int i = 0; i < 200; i++, sleep_ms(10)) {
        DIR *tasks = opendir("/proc/self/task");
        struct dirent *entry;
        pid_t found = 0;
        while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
            char path[300];
            char name[32] = "";
            snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
            int file = open(path, O_RDONLY);
            if (file >= 0 && read(file, name, sizeof name - 1) > 0 && strcmp(name, "hakozuna\n") == 0)
                found = (pid_t)atoi(entry->d_name);
            if (file >= 0)
                close(file);
        }
        if (tasks != NULL)
            closedir(tasks);
        if (found != 0)
            return found;
    }
    return 0;
}

static void *wait_for_end(void *unused) {
    while (churning)
        sleep_ms(10);
    return unused;
}

static void *set_and_start(void *how_text) {
    const char *how = how_text;
    cpu_set_t one;
    const struct sched_param none = {0};
    const struct sched_param some = {1};
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (strcmp(how, "cpus") == 0 && sched_setaffinity(0, sizeof one, &one) != 0)
        fail("sched_setaffinity");
    if (strcmp(how, "nice") == 0 && setpriority(PRIO_PROCESS, 0, 10) != 0)
        fail("setpriority");
    if (strcmp(how, "idle") == 0 && sched_setscheduler(0, SCHED_IDLE, &none) != 0)
        fail("SCHED_IDLE");
    if (strcmp(how, "batch") == 0 && sched_setscheduler(0, SCHED_BATCH, &none) != 0)
        fail("SCHED_BATCH");
    if (strcmp(how, "rr") == 0 && sched_setscheduler(0, SCHED_RR, &some) != 0)
        fail("SCHED_RR");
    free(malloc(10));
    return (void *)(uintptr_t)start(wait_for_end, NULL);
}

static void alone(const char *how) {
    cpu_set_t mask;
    pthread_t thread = (pthread_t)(uintptr_t)set_and_start((void *)(uintptr_t)how);
    pid_t task = own_thread();
    if (task == 0)
        fail("the library has no thread");
    sleep_ms(200); /* it names itself after it has changed what it inherited; the kernel has done so long before */
    sched_getaffinity(task, sizeof mask, &mask);
    printf("cpus %d nice %d policy %d\n", CPU_COUNT(&mask), getpriority(PRIO_PROCESS, (id_t)task),
           sched_getscheduler(task));
    churning = false;
    pthread_join(thread, NULL);
}

/* ---- threads of the C library ---------------------------------------------------------------------------- */

static atomic_int fired;

static void on_timer(union sigval value) {
    (void)value;
    churn(2000, 11);
    fired++;
}

static void of_glibc(const char *how) {
    if (strcmp(how, "timer") == 0) {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_timer};
        struct itimerspec often = {.it_value = {.tv_nsec = 1000000}, .it_interval = {.tv_nsec = 50000000}};
        timer_t timer;
        if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &often, NULL) != 0)
            fail("a timer");
        while (fired < 3) {
            churn(100, 3);
            sleep_ms(10);
        }
        timer_delete(timer);
    } else {
        char text[100];
        struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_timer};
        struct aiocb request = {.aio_fildes = open("/proc/self/exe", O_RDONLY),
                                .aio_buf = text,
                                .aio_nbytes = sizeof text,
                                .aio_sigevent = event};
        if (aio_read(&request) != 0)
            fail("aio_read");
        while (fired < 1)
            sleep_ms(10);
    }
    for (int i = 0; i < 100; i++) {
        churn(2000, 12);
        sleep_ms(1);
    }
    if (own_thread() == 0)
        fail("the library has no thread");
}

static void *sleeper(void *unused) {
    churn(20000, 13);
    pause();
    return unused;
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    const char *how = count > 2 ? words[2] : "";
    unsigned number = count > 2 ? (unsigned)atoi(words[count > 3 ? 3 : 2]) : 0;
    setvbuf(stdout, NULL, strcmp(how, "exit") == 0 ? _IOFBF : _IONBF, BUFSIZ);
    if (strcmp(what, "clones") == 0)
        clones(how, number, (uint64_t)atoi(words[4]));
    else if (strcmp(what, "ends") == 0)
        ends(how, number);
    else if (strcmp(what, "leader") == 0)
        leader(how);
    else if (strcmp(what, "descriptors") == 0)
        descriptors(number);
    else if (strcmp(what, "namespace") == 0)
        namespaces(how);
    else if (strcmp(what, "full") == 0)
        full(number);
    else if (strcmp(what, "alone") == 0)
        alone(how);
    else if (strcmp(what, "glibc") == 0)
        of_glibc(how);
    else if (strcmp(what, "sleep") == 0) {
        const struct rlimit none = {3, 3};
        if (strcmp(how, "starved") == 0 && setrlimit(RLIMIT_NOFILE, &none) != 0)
            fail("RLIMIT_NOFILE");
        start(sleeper, NULL);
        start(sleeper, NULL);
        churn(20000, 14);
        puts("ready");
        sleep(number);
    } else {
        return 1;
    }
    puts("ok");
    return 0;
}
