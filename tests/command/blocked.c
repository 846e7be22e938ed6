/*
 * blocked.c - a thread blocked in each of many calls that a signal interrupts; the first one waits for stdin in poll.
 *
 * usage: blocked
 * Prints "NAME TID" for each thread when it is about to call, then "ready". When stdin has a line or ends, or its own
 * call was interrupted, prints "NAME ERRNO" for each call that has returned, then "done".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG_S = 100000, LONG_MS = 100000000 };

static const struct timespec long_time = {.tv_sec = LONG_S};
static int empty[2]; /* a pipe that nobody writes to */
static pid_t child;
static int messages;
static int semaphores;
static char lock_path[] = "/tmp/hz-blocked-XXXXXX";

static void require(int is_good, const char *what) {
    if (!is_good) {
        perror(what);
        _exit(2);
    }
}

static struct timespec later(void) {
    struct timespec time;
    require(clock_gettime(CLOCK_REALTIME, &time) == 0, "clock_gettime");
    time.tv_sec += LONG_S;
    return time;
}

static int in_nanosleep(void) {
    return nanosleep(&long_time, NULL);
}

static int in_clock_nanosleep(void) {
    errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, NULL);
    return errno == 0 ? 0 : -1;
}

static int in_sleep(void) {
    errno = EINTR;
    return sleep(LONG_S) == 0 ? 0 : -1;
}

static int in_usleep(void) {
    return usleep(2000000000U);
}

static int in_pause(void) {
    return pause();
}

static int in_poll(void) {
    struct pollfd file = {.fd = empty[0], .events = POLLIN};
    return poll(&file, 1, LONG_MS);
}

static int in_ppoll(void) {
    struct pollfd file = {.fd = empty[0], .events = POLLIN};
    return ppoll(&file, 1, &long_time, NULL);
}

static int in_select(void) {
    struct timeval time = {.tv_sec = LONG_S};
    fd_set files;
    FD_ZERO(&files);
    FD_SET(empty[0], &files);
    return select(empty[0] + 1, &files, NULL, NULL, &time);
}

static int in_pselect(void) {
    fd_set files;
    FD_ZERO(&files);
    FD_SET(empty[0], &files);
    return pselect(empty[0] + 1, &files, NULL, NULL, &long_time, NULL);
}

static int in_epoll_wait(void) {
    struct epoll_event event;
    return epoll_wait(epoll_create1(0), &event, 1, LONG_MS);
}

static int in_epoll_pwait(void) {
    struct epoll_event event;
    return epoll_pwait(epoll_create1(0), &event, 1, LONG_MS, NULL);
}

static int in_sem_wait(void) {
    static sem_t semaphore;
    return sem_wait(&semaphore);
}

static int in_sem_timedwait(void) {
    static sem_t semaphore;
    struct timespec end = later();
    return sem_timedwait(&semaphore, &end);
}

static int in_cond_timedwait(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    struct timespec end = later();
    pthread_mutex_lock(&mutex);
    errno = pthread_cond_timedwait(&condition, &mutex, &end);
    return -1;
}

static int in_recv(void) {
    struct timeval time = {.tv_sec = LONG_S};
    int pair[2];
    char byte;
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    require(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)) == 0, "setsockopt");
    return (int)recv(pair[0], &byte, 1, 0);
}

static int in_accept(void) {
    struct sockaddr_storage any = {.ss_family = AF_UNIX};
    int file = socket(AF_UNIX, SOCK_STREAM, 0);
    require(bind(file, (struct sockaddr *)&any, sizeof(any.ss_family)) == 0 && listen(file, 1) == 0, "listen");
    return accept(file, NULL, NULL);
}

static int in_read(void) {
    char byte;
    return (int)read(empty[0], &byte, 1);
}

static int in_write(void) {
    static const char bytes[4096];
    int full[2];
    require(pipe(full) == 0, "pipe");
    require(fcntl(full[1], F_SETFL, O_NONBLOCK) == 0, "fcntl");
    while (write(full[1], bytes, sizeof(bytes)) > 0) {
        /* until it is full */
    }
    require(fcntl(full[1], F_SETFL, 0) == 0, "fcntl");
    return (int)write(full[1], bytes, sizeof(bytes));
}

static int in_msgrcv(void) {
    struct {
        long type;
        char text[1];
    } message;
    return (int)msgrcv(messages, &message, 1, 0, 0);
}

static int in_semop(void) {
    struct sembuf take = {.sem_op = -1};
    return semop(semaphores, &take, 1);
}

static int in_semtimedop(void) {
    struct sembuf take = {.sem_op = -1};
    return semtimedop(semaphores, &take, 1, &long_time);
}

static int in_sigtimedwait(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    return sigtimedwait(&set, NULL, &long_time);
}

static int in_futex(void) {
    static int word;
    return (int)syscall(SYS_futex, &word, FUTEX_WAIT, 0, &long_time, NULL, 0);
}

static int lock_open(void) {
    int file = open(lock_path, O_RDWR);
    require(file >= 0, lock_path);
    return file;
}

static int in_flock(void) {
    require(flock(lock_open(), LOCK_EX) == 0, "flock");
    return flock(lock_open(), LOCK_EX);
}

static int in_setlkw(void) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    require(fcntl(lock_open(), F_OFD_SETLKW, &whole) == 0, "fcntl");
    return fcntl(lock_open(), F_OFD_SETLKW, &whole);
}

static int in_wait4(void) {
    return wait4(child, NULL, 0, NULL);
}

static int in_waitid(void) {
    siginfo_t about;
    return waitid(P_PID, (id_t)child, &about, WEXITED | WNOWAIT);
}

static struct call {
    const char *name;
    int (*function)(void);
    _Atomic(int) has_begun;
    _Atomic(int) has_returned;
    int error;
} calls[] = {
#define CALL(what)                                                                                                     \
    { .name = #what, .function = in_##what }
    CALL(nanosleep), CALL(clock_nanosleep), CALL(sleep),   CALL(usleep),     CALL(pause),          CALL(poll),
    CALL(ppoll),     CALL(select),          CALL(pselect), CALL(epoll_wait), CALL(epoll_pwait),    CALL(sem_wait),
    CALL(recv),      CALL(sem_timedwait),   CALL(accept),  CALL(read),       CALL(cond_timedwait), CALL(write),
    CALL(msgrcv),    CALL(semop),           CALL(futex),   CALL(semtimedop), CALL(sigtimedwait),   CALL(flock),
    CALL(setlkw),    CALL(wait4),           CALL(waitid),
#undef CALL
};

enum { CALLS = sizeof(calls) / sizeof(*calls) };

static void *run(void *argument) {
    struct call *call = argument;
    printf("%s %ld\n", call->name, (long)syscall(SYS_gettid));
    fflush(stdout);
    atomic_store(&call->has_begun, 1);
    int result = call->function();
    call->error = result < 0 ? errno : 0;
    atomic_store(&call->has_returned, 1);
    return NULL;
}

static void prepare(void) {
    sigset_t set;
    int file = mkstemp(lock_path);
    require(pipe(empty) == 0 && file >= 0, "pipe");
    child = fork();
    require(child >= 0, "fork");
    if (child == 0) { /* ends with its parent */
        char byte;
        close(empty[1]);
        _exit(read(empty[0], &byte, 1) == 0 ? 0 : 1);
    }
    messages = msgget(IPC_PRIVATE, 0600);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    require(messages >= 0 && semaphores >= 0, "msgget");
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    require(sigprocmask(SIG_BLOCK, &set, NULL) == 0, "sigprocmask");
}

static void report(void) {
    for (int i = 0; i < CALLS; i++)
        if (atomic_load(&calls[i].has_returned))
            printf("%s %d\n", calls[i].name, calls[i].error);
}

int main(void) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    prepare();
    for (int i = 0; i < CALLS; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, run, &calls[i]) == 0, "pthread_create");
    }
    for (int i = 0; i < CALLS; i++)
        while (!atomic_load(&calls[i].has_begun))
            sched_yield();
    puts("ready");
    fflush(stdout);
    int found = poll(&input, 1, LONG_MS);
    if (found < 0)
        printf("main %d\n", errno);
    report();
    puts("done");
    fflush(stdout);
    unlink(lock_path);
    msgctl(messages, IPC_RMID, NULL);
    semctl(semaphores, 0, IPC_RMID);
    return 0;
}
