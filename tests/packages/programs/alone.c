/*
 * alone.c - with the prefix archive: installs a filter that kills for the keeper's calls, or makes a call that needs
 * one thread. "unannounced": without telling the library.
 */
#include <hakozuna/hakozuna.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NEW_USER = 0x10000000 }; /* CLONE_NEWUSER */

int unshare(int flags);

static void *work(void *unused) {
    enum { BLOCKS = 100, ROUNDS = 100, STEP = 40, PAUSE_US = 10000 };
    void *blocks[BLOCKS];
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = hz_malloc(STEP * (i + 1));
            if (blocks[i] != NULL)
                memset(blocks[i], 1, STEP);
        }
        for (size_t i = 0; i < BLOCKS; i++)
            hz_free(blocks[i]);
        (void)usleep(PAUSE_US);
    }
    return unused;
}

static int in_thread(void) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, work, NULL);
    return error != 0 ? error : pthread_join(thread, NULL);
}

/* Kills for membarrier, mincore, openat and getrusage: the keeper calls them, this program does not. */
static int confine(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mincore, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrusage, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return errno;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0 ? 0 : errno;
}

/* The kernel counts a joined thread for a moment longer. */
static int unshare_user(int must_succeed) {
    enum { TRIES = 1000, PAUSE_US = 1000 };
    int error = 0;
    for (int i = 0; i < (must_succeed ? TRIES : 1); i++) {
        error = unshare(NEW_USER) == 0 ? 0 : errno;
        if (error != EINVAL)
            break;
        (void)usleep(PAUSE_US);
    }
    return error;
}

int main(int count, char **arguments) {
    int is_confine = count > 1 && strcmp(arguments[1], "confine") == 0;
    int is_told = count < 3;
    hz_free(hz_malloc(1)); /* the keeper starts when a second thread allocates */
    int error = in_thread();
    if (is_told && is_confine)
        hz_confine();
    else if (is_told && hz_background_set(0) != 0)
        return 1;
    if (error == 0)
        error = is_confine ? confine() : unshare_user(is_told);
    if (is_told && !is_confine && hz_background_set(1) != 0)
        return 2;
    if (error == 0)
        error = in_thread();
    if (error != 0)
        return 3;
    puts("done");
    return 0;
}
