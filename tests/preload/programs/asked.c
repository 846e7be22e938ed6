/*
 * asked.c - a program that is asked for statistics while it works. Usage: asked WHAT
 *
 *   work       two threads allocate and free until stdin ends; a line on stdout says that they do
 *   handler    as work, but after the library it installs a handler of its own for SIGUSR2, which counts
 *   fork       as work in a fork's child, whose number is the line on stdout; ends as the child does
 *   leave      the first thread ends by pthread_exit, the other a little later
 *   copy       a child that the C library does not know of ends by exit(3); ends as the child does
 *   first      as copy; the child is the first process of a namespace, and so has number 1
 *   pause      a line on stdout, then waits for a signal; "went on" on stdout and status 7 when it comes back from that
 *   buffered   text on stdout, which is written after the library's last function has run
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_bool stop;
static atomic_int counted;

static void *work(void *kept) {
    enum { SLOTS = 500 };
    unsigned char *blocks[SLOTS] = {0};
    unsigned random = 1;
    while (!atomic_load(&stop)) {
        unsigned slot = (random = random * 1103515245 + 12345) >> 16 & 255;
        if (blocks[slot] != NULL && blocks[slot][0] != (unsigned char)slot)
            abort();
        free(blocks[slot]);
        blocks[slot] = malloc(1 + random % 30000);
        if (blocks[slot] != NULL)
            blocks[slot][0] = (unsigned char)slot;
    }
    return kept;
}

static void count(int number) {
    (void)number;
    atomic_fetch_add(&counted, 1);
}

/* Until stdin ends. */
static int work_along(long line) {
    pthread_t threads[2];
    char byte;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            return 1;
    printf("%ld\n", line);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) != 0)
        free(malloc(100));
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("counted %d\n", atomic_load(&counted));
    return 0;
}

static void *last(void *first) {
    pthread_join(*(pthread_t *)first, NULL);
    free(malloc(100));
    return NULL;
}

static int status_of(pid_t child) {
    int status = 0;
    if (child < 0)
        return 99;
    while (waitpid(child, &status, 0) < 0) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int copy(unsigned long flags) {
    pid_t child = (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        alarm(60); /* ends it if the next lines hang */
        if (unshare(CLONE_FS) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
            _exit(4);
        exit(3);
    }
    return status_of(child);
}

static int pause_once(void) {
    printf("%ld\n", (long)getpid());
    fflush(stdout);
    pause();
    return write(STDOUT_FILENO, "went on\n", 8) == 8 ? 7 : 1;
}

int main(int argc, char **argv) {
    static pthread_t first;
    pthread_t other;
    const char *what = argc == 2 ? argv[1] : "";
    if (strcmp(what, "handler") == 0)
        signal(SIGUSR2, count);
    if (strcmp(what, "work") == 0 || strcmp(what, "handler") == 0)
        return work_along(getpid());
    if (strcmp(what, "leave") == 0) {
        first = pthread_self();
        if (pthread_create(&other, NULL, last, &first) == 0)
            pthread_exit(NULL);
    }
    if (strcmp(what, "copy") == 0)
        return copy(0);
    if (strcmp(what, "first") == 0)
        return copy(CLONE_NEWPID);
    if (strcmp(what, "pause") == 0)
        return pause_once();
    if (strcmp(what, "buffered") == 0)
        return printf("text\n") > 0 ? 0 : 1;
    if (strcmp(what, "fork") != 0)
        return 3;
    pid_t child = fork();
    if (child == 0)
        return work_along(getpid());
    return status_of(child);
}
