/* A process that gives up rights or namespaces, one of them for each line that it reads, and answers with the error.
 *
 *   drops THREADS          starts threads. They end before the first line; with "stay" they go on
 *   drops filtered ...     first installs a filter that allows everything, and starts itself anew
 *   drops forked ...       goes on in a child
 *   drops trapping ...     the same with a filter that answers unshare by SIGSYS
 *   drops killing ...      the same with a filter that ends the thread which calls close_range
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS_MAX = 16, NOBODY = 65534 };

extern int capset(void *header, void *sets); /* glibc exports it, and no header declares it */

/* A filter for one call; -1: that allows all. */
static long confine(unsigned call, unsigned action) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};
    long error = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return error != 0 ? error : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
}

static void start_under_filter(char **arguments, unsigned call, unsigned action) {
    if (confine(call, action) == 0)
        execv("/proc/self/exe", arguments);
    perror("filter");
    exit(1);
}

static volatile sig_atomic_t is_trapped;

static void note_trap(int number) {
    (void)number;
    is_trapped = 1;
}

/* The filter was there before the library. What the call returns is not defined. */
static long trapped_unshare(void) {
    (void)signal(SIGSYS, note_trap);
    (void)unshare(CLONE_NEWUTS);
    return is_trapped ? 0 : -1;
}

/* A process with one thread needs no futex for that. */
static long fork_without_futex(void) {
    long error = confine(SYS_futex, SECCOMP_RET_KILL_THREAD);
    pid_t child = error == 0 ? fork() : -1;
    if (child == 0)
        _exit(0);
    int status = 1;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : -1;
}

static pthread_barrier_t all_work;
static int stay;

static void *work(void *unused) {
    free(malloc(100));
    (void)pthread_barrier_wait(&all_work);
    while (stay)
        pause();
    return unused;
}

static void start_threads(unsigned count) {
    pthread_t threads[THREADS_MAX];
    (void)pthread_barrier_init(&all_work, NULL, count + 1);
    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            exit(1);
    (void)pthread_barrier_wait(&all_work);
    for (unsigned i = 0; i < count && !stay; i++)
        (void)pthread_join(threads[i], NULL);
}

static long enter_anothers(void) {
    int pipes[2];
    char path[64];
    char byte;
    if (pipe(pipes) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        long error = unshare(CLONE_NEWUTS);
        (void)!write(pipes[1], "", 1);
        while (error == 0)
            pause();
        _exit(1);
    }
    (void)!read(pipes[0], &byte, 1);
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/uts", (int)child);
    int space = open(path, O_RDONLY | O_CLOEXEC);
    long result = setns(space, CLONE_NEWUTS);
    int error = errno;
    (void)close(space);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    errno = error;
    return result;
}

static struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
static struct __user_cap_data_struct none[2];

/* An effective capability, which the permitted ones give back. */
static long borrow_capability(void) {
    struct __user_cap_data_struct before[2];
    if (syscall(SYS_capget, &header, before) != 0)
        return -1;
    struct __user_cap_data_struct less[2] = {before[0], before[1]};
    less[0].effective &= ~(1U << CAP_DAC_OVERRIDE);
    return capset(&header, less) == 0 ? capset(&header, before) : -1;
}

/* In a child of vfork, which shares the memory, and changes nothing of the parent. */
static long in_vfork(const char *what) {
    pid_t child = vfork();
    if (child == 0) {
        long result = -1;
        if (strcmp(what, "unshare") == 0)
            result = unshare(CLONE_NEWUTS);
        else if (strcmp(what, "bounding") == 0)
            result = prctl(PR_CAPBSET_DROP, CAP_SYS_TIME, 0, 0, 0);
        else
            result = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        _exit(result == 0 ? 0 : 1);
    }
    int status = 1;
    (void)waitpid(child, &status, 0);
    return status;
}

/* Asks whether the kernel has filters, as libseccomp does. All are refused. */
static long probe(void) {
    long done = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0);
    done &= syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL);
    done &= syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL);
    done &= syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0);
    done &= prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0);
    return done == -1 ? 0 : 1;
}

static long ids(void) {
    long result = syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY);
    return result == 0 ? syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY) : result;
}

/* As a server does for each request. */
static long borrow_ids(void) {
    long result = syscall(SYS_setresuid, -1, NOBODY, -1);
    return result == 0 ? syscall(SYS_setresuid, -1, 0, -1) : result;
}

static long landlock(void) {
    struct {
        uint64_t files;
    } refused = {2}; /* LANDLOCK_ACCESS_FS_WRITE_FILE */
    long rules = syscall(444, &refused, sizeof(refused), 0);
    return rules < 0 ? rules : syscall(446, rules, 0);
}

static long give_up(const char *what) {
    if (strcmp(what, "unshare") == 0)
        return unshare(CLONE_NEWUTS);
    if (strcmp(what, "unshare-call") == 0)
        return syscall(SYS_unshare, CLONE_NEWUTS);
    if (strcmp(what, "setns") == 0)
        return enter_anothers();
    if (strcmp(what, "capset") == 0)
        return capset(&header, none);
    if (strcmp(what, "capset-call") == 0)
        return syscall(SYS_capset, &header, none);
    if (strcmp(what, "bounding") == 0)
        return prctl(PR_CAPBSET_DROP, CAP_SYS_TIME, 0, 0, 0);
    if (strcmp(what, "bounding-call") == 0)
        return syscall(SYS_prctl, PR_CAPBSET_DROP, CAP_SYS_TIME, 0, 0, 0);
    if (strcmp(what, "securebits") == 0)
        return prctl(PR_SET_SECUREBITS, SECBIT_NOROOT, 0, 0, 0);
    if (strcmp(what, "ids-call") == 0)
        return ids();
    if (strcmp(what, "landlock-call") == 0)
        return landlock();
    if (strcmp(what, "borrow-ids") == 0)
        return borrow_ids();
    if (strcmp(what, "borrow-capability") == 0)
        return borrow_capability();
    if (strcmp(what, "unshare-pid") == 0)
        return unshare(CLONE_NEWPID);
    if (strcmp(what, "trapped") == 0)
        return trapped_unshare();
    if (strcmp(what, "fork-without-futex") == 0)
        return fork_without_futex();
    if (strcmp(what, "probe") == 0)
        return probe();
    if (strncmp(what, "vfork-", 6) == 0)
        return in_vfork(what + 6);
    errno = ENOTSUP;
    return -1;
}

int main(int count, char **arguments) {
    char line[64];
    if (count > 1 && strcmp(arguments[1], "filtered") == 0)
        start_under_filter(arguments + 1, UINT32_MAX, SECCOMP_RET_ALLOW);
    if (count > 1 && strcmp(arguments[1], "killing") == 0)
        start_under_filter(arguments + 1, SYS_close_range, SECCOMP_RET_KILL_THREAD);
    if (count > 1 && strcmp(arguments[1], "trapping") == 0)
        start_under_filter(arguments + 1, SYS_unshare, SECCOMP_RET_TRAP);
    if (count > 1 && strcmp(arguments[1], "forked") == 0) {
        pid_t child = fork();
        int status = 1;
        if (child != 0)
            return waitpid(child, &status, 0) == child ? status : 1;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        arguments++;
        count--;
    }
    stay = count > 2 && strcmp(arguments[2], "stay") == 0;
    start_threads(count > 1 ? (unsigned)atoi(arguments[1]) : 0);
    printf("ready %d\n", (int)getpid());
    (void)fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        printf("%d\n", give_up(line) == 0 ? 0 : errno);
        (void)fflush(stdout);
    }
    return 0;
}
