/*
 * listener.c - see listener.h.
 *
 * All that is static here is written by hz_listener_start, in a process with one thread, and by the listener before it
 * publishes that it listens. Afterwards only `listener_phase` changes.
 */
#define _GNU_SOURCE
#include "base/process/listener.h"

#include "base/os/atomic.h"
#include "base/os/os.h"
#include "base/os/syscall.h"
#include "base/process/process.h"
#include "base/process/worker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

enum listener_state {
    LISTENER_NONE,
    LISTENER_STARTING,
    LISTENER_FAILED, /* the thread ends */
    LISTENER_RUNS,
    LISTENER_ENDS, /* the thread is to remove the socket, and to end */
    LISTENER_LEFT, /* the thread cannot be reached; if it wakes, it ends */
};

enum {
    SOCKET_PATH_ROOM = sizeof(((struct sockaddr_un *)NULL)->sun_path),
    SOCKET_NAME_ROOM = sizeof("4294967295.01234567"),
    WAKER_ROOM = 64,       /* bytes: "/proc/4294967295/task/4294967295/fd/N" */
    PEER_SECONDS = 2,      /* for a peer that neither sends nor reads */
    BACKLOG = 16,          /* connections that may wait; whoever comes then is told to try again */
    LISTENER_FILE_MIN = 3, /* messages go to number 2, which is the process's only if the thread's own table has none */
    PPOLL_SET_BYTES = 8,   /* of the kernel's set of signals */
    ACCEPT_RETRY_MS = 100, /* while there is no file or memory for a connection that waits */
    REFUSED_RETRY_MS = 1000, /* where the kernel refuses to poll */
};

static struct {
    char folder[SOCKET_PATH_ROOM];
    char path[SOCKET_PATH_ROOM];
    char waker[WAKER_ROOM]; /* a name of the pipe that wakes the thread; "": none */
    hz_listener_answer *answer;
    struct hz_listener_refusal refusal;
    pthread_t thread;
    uint32_t process;
    unsigned user;
    int socket; /* these three are in the thread's own table */
    int pipe_read;
    int pipe_write;
} listening;

static _Atomic(uint32_t) listener_phase; /* sync: listener; enum listener_state */

static bool listener_runs(void) {
    return hz_load_rlx(&listener_phase) == LISTENER_RUNS; /* relaxed: no data is behind it */
}

static bool file_is_bad(long file, const char *what) {
    if (file >= 0)
        return false;
    listening.refusal.what = what;
    listening.refusal.error = (int)-file;
    return true;
}

static void file_close(long file) {
    (void)HZ_SYSCALL(SYS_close, file, 0, 0); /* nothing is lost by it */
}

/* The file with a number of at least LISTENER_FILE_MIN; -errno if that fails, or if it is one. */
static int file_lift(long file) {
    if (file < 0 || file >= LISTENER_FILE_MIN)
        return (int)file;
    long lifted = HZ_SYSCALL(SYS_fcntl, file, F_DUPFD_CLOEXEC, LISTENER_FILE_MIN);
    file_close(file);
    return (int)lifted;
}

/* ---- the socket -------------------------------------------------------------------------------------- */

/* Whether others than the user and root can put something into the folder. False if it is not there. */
static bool folder_is_of_others(const char *folder) {
    struct stat found;
    long file = HZ_SYSCALL6(SYS_openat, AT_FDCWD, folder, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, 0, 0);
    if (file < 0)
        return false;
    long error = HZ_SYSCALL(SYS_fstat, file, &found, 0);
    file_close(file);
    return error != 0 || found.st_uid != listening.user || (found.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

/* $XDG_RUNTIME_DIR if it is the user's, which it is not under `sudo -E`, and if a socket's path has room for it. */
static void folder_choose(const char *runtime_folder) {
    bool is_good = runtime_folder != NULL && runtime_folder[0] == '/' && !folder_is_of_others(runtime_folder);
    int length = is_good ? snprintf(listening.folder, sizeof(listening.folder), "%s/hakozuna", runtime_folder) : -1;
    if (length < 0 || (size_t)length + SOCKET_NAME_ROOM >= SOCKET_PATH_ROOM)
        (void)snprintf(listening.folder, sizeof(listening.folder), "/tmp/hakozuna-%u", listening.user); /* fits */
}

/* Makes the folder, unless it is there, and looks whether only the user can enter it. Nobody else can replace it then:
   $XDG_RUNTIME_DIR is the user's, and /tmp is sticky. Returns 0 or -errno. */
static long folder_make(void) {
    const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    struct stat found;
    (void)HZ_SYSCALL(SYS_mkdirat, AT_FDCWD, listening.folder, S_IRWXU); /* it may be there; looked at below */
    long folder = HZ_SYSCALL6(SYS_openat, AT_FDCWD, listening.folder, flags, 0, 0, 0);
    if (folder < 0)
        return folder;
    long error = HZ_SYSCALL(SYS_fstat, folder, &found, 0);
    file_close(folder);
    if (error < 0)
        return error;
    return found.st_uid == listening.user && (found.st_mode & (S_IRWXG | S_IRWXO)) == 0 ? 0 : -EPERM;
}

static struct sockaddr_un address_of_path(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, listening.path, sizeof(address.sun_path));
    return address;
}

/* A number for the process's start in its namespace, which it keeps when it executes another program. */
static uint32_t process_mark(void) {
    const uint32_t fnv_factor = 16777619;
    char space[32] = {0};
    struct hz_process self;
    uint32_t mark = 2166136261; /* FNV-1a */
    hz_process_get(&self);
    if (!self.is_known || HZ_SYSCALL6(SYS_readlinkat, AT_FDCWD, "/proc/self/ns/pid", space, sizeof(space), 0, 0) <= 0) {
        hz_os_random(&mark, sizeof(mark));
        return mark;
    }
    for (unsigned i = 0; i < sizeof(self.start_ticks); i++)
        mark = (mark ^ (uint8_t)(self.start_ticks >> (8 * i))) * fnv_factor;
    for (size_t i = 0; i < sizeof(space); i++)
        mark = (mark ^ (uint8_t)space[i]) * fnv_factor;
    return mark;
}

static void socket_path_make(void) {
    size_t length = strlen(listening.folder);
    memcpy(listening.path, listening.folder, length);
    (void)snprintf(listening.path + length, SOCKET_PATH_ROOM - length, "/%u.%08x", listening.process,
                   process_mark()); /* fits */
}

static bool socket_open(void) {
    listening.socket = file_lift(HZ_SYSCALL(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (file_is_bad(listening.socket, "socket"))
        return false;
    socket_path_make();
    struct sockaddr_un address = address_of_path();
    long bound = HZ_SYSCALL(SYS_bind, listening.socket, &address, sizeof(address));
    if (bound == -EADDRINUSE) { /* ours, from before exec */
        (void)HZ_SYSCALL(SYS_unlinkat, AT_FDCWD, listening.path, 0);
        bound = HZ_SYSCALL(SYS_bind, listening.socket, &address, sizeof(address));
    }
    if (file_is_bad(bound, "bind"))
        return false;
    (void)HZ_SYSCALL(SYS_fchmodat, AT_FDCWD, listening.path, S_IRUSR | S_IWUSR); /* the folder is closed anyway */
    return !file_is_bad(HZ_SYSCALL(SYS_listen, listening.socket, BACKLOG, 0), "listen");
}

/* A pipe that other threads, which do not have the thread's table of files, open by its name in /proc. They may have
   another user by then. Without /proc, and before Linux 3.17, they connect to the socket instead. */
static bool waker_open(void) {
    char self[WAKER_ROOM / 2];
    int ends[2];
    if (file_is_bad(HZ_SYSCALL(SYS_pipe2, ends, O_CLOEXEC | O_NONBLOCK, 0), "pipe"))
        return false;
    listening.pipe_read = file_lift(ends[0]);
    listening.pipe_write = file_lift(ends[1]);
    if (file_is_bad(listening.pipe_read, "pipe") || file_is_bad(listening.pipe_write, "pipe"))
        return false;
    (void)HZ_SYSCALL(SYS_fchmod, listening.pipe_read, 0666, 0); /* cannot fail for a pipe */
    long length = HZ_SYSCALL6(SYS_readlinkat, AT_FDCWD, "/proc/thread-self", self, sizeof(self), 0, 0);
    if (length > 0 && (size_t)length < sizeof(self))
        (void)snprintf(listening.waker, sizeof(listening.waker), "/proc/%.*s/fd/%d", (int)length, self,
                       listening.pipe_read); /* fits */
    return true;
}

static bool listener_open(void) {
    return !file_is_bad(-hz_os_files_own(true), "a table of files of its own, which needs Linux 5.9") &&
           !file_is_bad(folder_make(), "the folder, which has to be this user's with mode 700") && waker_open() &&
           socket_open();
}

/* ---- what others have left behind -------------------------------------------------------------------- */

enum { MARK_DIGITS = 8 };

static bool is_mark_digit(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* Whether a name is that of the socket of a process that is no more, as far as this namespace of processes knows. */
static bool name_is_of_nobody(const char *name) {
    uint64_t number = 0;
    unsigned digits = 0;
    while (*name >= '0' && *name <= '9' && number < INT_MAX)
        number = 10 * number + (uint64_t)(*name++ - '0');
    if (*name++ != '.')
        return false;
    while (is_mark_digit(name[digits]))
        digits++;
    return digits == MARK_DIGITS && name[digits] == '\0' && number > 0 && number < INT_MAX &&
           HZ_SYSCALL(SYS_kill, number, 0, 0) == -ESRCH;
}

static long peer_connect(const struct sockaddr_un *address) {
    long file = HZ_SYSCALL(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (file < 0)
        return file;
    long connected = HZ_SYSCALL(SYS_connect, file, address, sizeof(*address));
    file_close(file);
    return connected;
}

/* Removes the socket unless somebody listens there: a process of another namespace. */
static void left_remove(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", listening.folder, name);
    if (length > 0 && (size_t)length < sizeof(address.sun_path) && peer_connect(&address) == -ECONNREFUSED)
        (void)HZ_SYSCALL(SYS_unlinkat, AT_FDCWD, address.sun_path, 0); /* two processes may try */
}

/* The kernel's struct linux_dirent64. */
struct folder_entry {
    uint64_t inode;
    int64_t offset;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

/* A process that ends by _exit or a signal leaves its socket. In a server whose children do that, each new child
   removes what is left of earlier ones. It looks at a part of a large folder only. */
static void left_behind_remove(void) {
    enum { LISTING_PARTS_MAX = 4, LISTING_BYTES = 4096 };
    union {
        struct folder_entry first;
        char bytes[LISTING_BYTES];
    } part;
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    long got;
    int folder = file_lift(HZ_SYSCALL6(SYS_openat, AT_FDCWD, listening.folder, flags, 0, 0, 0));
    for (unsigned i = 0; i < LISTING_PARTS_MAX && (got = HZ_SYSCALL(SYS_getdents64, folder, &part, sizeof(part))) > 0;
         i++)
        for (long at = 0; at < got;) {
            const struct folder_entry *entry = (const void *)(part.bytes + at);
            if (entry->type == DT_SOCK && name_is_of_nobody(entry->name))
                left_remove(entry->name);
            at += entry->bytes;
        }
    if (folder >= 0)
        file_close(folder);
}

/* ---- connections ------------------------------------------------------------------------------------- */

static void peer_say(int peer, const char *text) {
    (void)hz_os_write(peer, text, strlen(text)); /* a peer that does not read gets no answer */
}

static bool peer_is_allowed(int peer) {
    struct ucred about;
    socklen_t bytes = sizeof(about);
    return HZ_SYSCALL6(SYS_getsockopt, peer, SOL_SOCKET, SO_PEERCRED, &about, &bytes, 0) == 0 &&
           (about.uid == 0 || about.uid == listening.user);
}

/* Reads a line. False if it does not come, or is too long. */
static bool request_read(int peer, char request[HZ_LISTENER_REQUEST_ROOM]) {
    uint64_t until_ms = hz_os_now_ms() + PEER_SECONDS * UINT64_C(1000);
    size_t used = 0;
    while (used < HZ_LISTENER_REQUEST_ROOM && hz_os_now_ms() < until_ms) {
        long got = HZ_SYSCALL(SYS_read, peer, request + used, HZ_LISTENER_REQUEST_ROOM - used);
        if (got <= 0)
            return false;
        char *end = memchr(request + used, '\n', (size_t)got);
        if (end != NULL) {
            *end = '\0';
            return true;
        }
        used += (size_t)got;
    }
    return false;
}

static void peer_serve(int peer) {
    const struct timeval most = {.tv_sec = PEER_SECONDS};
    char request[HZ_LISTENER_REQUEST_ROOM];
    if (HZ_SYSCALL6(SYS_setsockopt, peer, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most), 0) != 0 ||
        HZ_SYSCALL6(SYS_setsockopt, peer, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most), 0) != 0)
        return; /* cannot happen: it could hold the thread for ever */
    if (!peer_is_allowed(peer))
        peer_say(peer, "no: only its user and root may ask\n");
    else if (request_read(peer, request))
        listening.answer(request, peer);
}

static void peers_serve(void) {
    long peer;
    peer = -EINTR;
    while (listener_runs() &&
           (peer = file_lift(HZ_SYSCALL6(SYS_accept4, listening.socket, NULL, NULL, SOCK_CLOEXEC, 0, 0))) >= 0) {
        peer_serve((int)peer);
        file_close(peer);
    }
    if (peer != -EAGAIN && peer != -EINTR && peer != -ECONNABORTED) /* no files or memory: the connection waits */
        hz_os_wait_ms(&listener_phase, LISTENER_RUNS, ACCEPT_RETRY_MS);
}

/* ---- the thread -------------------------------------------------------------------------------------- */

static void peers_await(void) {
    struct pollfd files[] = {{.fd = listening.socket, .events = POLLIN}, {.fd = listening.pipe_read, .events = POLLIN}};
    char bytes[BACKLOG];
    long found = HZ_SYSCALL6(SYS_ppoll, files, HZ_ARRAY_LENGTH(files), NULL, NULL, PPOLL_SET_BYTES, 0);
    if (found < 0 && found != -EINTR) /* the program has lowered its limit of open files */
        hz_os_wait_ms(&listener_phase, LISTENER_RUNS, REFUSED_RETRY_MS);
    if (!listener_runs() || found <= 0)
        return;
    if (files[1].revents != 0)
        (void)HZ_SYSCALL(SYS_read, listening.pipe_read, bytes, sizeof(bytes)); /* only to empty it */
    if (files[0].revents != 0)
        peers_serve();
}

static void *listener_main(void *unused) {
    (void)unused;
    hz_worker_begin("hakozuna-ask");
    bool is_open = listener_open();
    /* sync: listener, partner hz_listener_start: path, waker, refusal */
    hz_store_rel(&listener_phase, is_open ? LISTENER_RUNS : LISTENER_FAILED);
    hz_os_wake(&listener_phase, 1);
    if (is_open)
        left_behind_remove();
    while (listener_runs())
        peers_await();
    if (hz_load_rlx(&listener_phase) == LISTENER_ENDS)               /* relaxed: no data is behind it */
        (void)HZ_SYSCALL(SYS_unlinkat, AT_FDCWD, listening.path, 0); /* the program may have another root by now */
    while (hz_load_rlx(&listener_phase) == LISTENER_LEFT && hz_os_is_confined()) /* to end takes more system calls */
        hz_os_wait(&listener_phase, LISTENER_LEFT);
    return NULL; /* the thread's own table ends with it */
}

bool hz_listener_is(void *(*start)(void *)) {
    return start == listener_main;
}

static bool listener_failed(struct hz_listener_refusal *refusal) {
    *refusal = listening.refusal;
    hz_store_rlx(&listener_phase, LISTENER_NONE); /* relaxed: one thread */
    return false;
}

bool hz_listener_start(const char *runtime_folder, hz_listener_answer *answer, struct hz_listener_refusal *refusal) {
    if (hz_load_rlx(&listener_phase) != LISTENER_NONE) /* relaxed: one thread */
        return true;
    listening.user = (unsigned)HZ_SYSCALL(SYS_geteuid, 0, 0, 0);
    listening.process = hz_os_process_id();
    listening.answer = answer;
    listening.waker[0] = '\0';
    folder_choose(runtime_folder);
    listening.refusal = (struct hz_listener_refusal){.folder = listening.folder, .what = "a thread"};
    hz_store_rlx(&listener_phase, LISTENER_STARTING); /* relaxed: the thread's start publishes all of this */
    int error = hz_worker_start(&listening.thread, listener_main);
    if (error != 0) {
        listening.refusal.error = error;
        return listener_failed(refusal);
    }
    while (hz_load_acq(&listener_phase) == LISTENER_STARTING) /* sync: listener, partner listener_main */
        hz_os_wait(&listener_phase, LISTENER_STARTING);
    if (listener_runs())
        return true;
    (void)pthread_join(listening.thread, NULL); /* cannot fail: only this thread joins it */
    return listener_failed(refusal);
}

/* ---- its end ----------------------------------------------------------------------------------------- */

static bool wake_by_pipe(void) {
    const int flags = O_WRONLY | O_NONBLOCK | O_CLOEXEC;
    if (listening.waker[0] == '\0')
        return false;
    long file = HZ_SYSCALL6(SYS_openat, AT_FDCWD, listening.waker, flags, 0, 0, 0);
    if (file < 0)
        return false;
    long written = HZ_SYSCALL(SYS_write, file, "", 1);
    file_close(file);
    return written == 1 || written == -EAGAIN; /* full: it wakes, too */
}

static bool wake_by_connection(void) {
    struct sockaddr_un address = address_of_path();
    long connected = peer_connect(&address);
    return connected == 0 || connected == -EAGAIN; /* the queue is full: it wakes, too */
}

bool hz_listener_end(bool wait) {
    uint32_t seen = LISTENER_RUNS;
    if (!hz_cas_strong_acq_rlx(&listener_phase, &seen, LISTENER_ENDS)) /* cas */
        return false;
    hz_os_wake(&listener_phase, 1); /* if it may not poll */
    bool is_reached = wake_by_pipe() || wake_by_connection();
    if (!is_reached)
        hz_store_rlx(&listener_phase, LISTENER_LEFT); /* relaxed: no data is behind it */
    if (is_reached && wait)
        (void)pthread_join(listening.thread, NULL); /* cannot fail: only the thread that won joins it */
    else
        (void)pthread_detach(listening.thread);
    return is_reached;
}

void hz_listener_exit(void) {
    if (listener_runs() && hz_os_process_id() == listening.process)  /* not in a child of vfork */
        (void)HZ_SYSCALL(SYS_unlinkat, AT_FDCWD, listening.path, 0); /* what is left behind, the next asker removes */
}

void hz_listener_forget(void) {
    hz_store_rlx(&listener_phase, LISTENER_NONE); /* relaxed: one thread */
}
