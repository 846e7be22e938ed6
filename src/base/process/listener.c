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
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

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
    SOCKET_NAME_ROOM = sizeof(".4294967295.0123456789abcdef"),
    WAKER_ROOM = 64,       /* bytes: "/proc/4294967295/task/4294967295/fd/N" */
    REQUEST_SECONDS = 2,   /* for a peer that sends nothing */
    STEP_SECONDS = 10,     /* for one that does not go on to read, */
    ANSWER_SECONDS = 60,   /* and for one that reads slowly, in all */
    BACKLOG = 16,          /* connections that may wait; whoever comes then is told to try again */
    LISTENER_FILE_MIN = 3, /* messages go to number 2, which is the process's only if the thread's own table has none */
    PPOLL_SET_BYTES = 8,   /* of the kernel's set of signals */
    ACCEPT_RETRY_MS = 100, /* while there is no file or memory for a connection that waits */
    SECOND_MS = 1000,
    START_LOOK_MS = 100,     /* between looks whether the thread is still starting */
    REFUSED_RETRY_MS = 1000, /* where the kernel refuses to poll */
};

/* A connection. Its file is 0 if there is none: numbers begin with LISTENER_FILE_MIN. */
struct peer {
    int file;
    int answer;          /* the file that holds the answer; 0: the request has not come yet */
    uint64_t sent_bytes; /* of the answer */
    uint64_t until_ms;   /* by then it must have gone a step on, */
    uint64_t most_ms;    /* and by then be served */
    size_t used;         /* bytes of the request */
    char request[HZ_LISTENER_REQUEST_ROOM];
};

static struct {
    char folder[SOCKET_PATH_ROOM];
    char path[SOCKET_PATH_ROOM];
    char waker[WAKER_ROOM]; /* a name of the pipe that wakes the thread; "": none */
    const struct hz_listener_duties *duties;
    struct hz_listener_refusal refusal;
    pthread_t thread;
    uint32_t process;
    unsigned user;
    int socket; /* these three are in the thread's own table */
    int pipe_read;
    int pipe_write;
    uint32_t space; /* stands for the process's namespace; 0: not known */
    struct peer peers[HZ_LISTENER_PEERS];
} listening;

static _Atomic(uint32_t) listener_phase; /* sync: listener; enum listener_state */
static _Atomic(bool) listener_is_over;   /* hint: the thread has seen by itself that it has to end */

bool hz_listener_runs(void) {
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

static struct sockaddr_un listening_address(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, listening.path, sizeof(address.sun_path));
    return address;
}

static uint32_t mark_add(uint32_t mark, const void *bytes, size_t count) {
    const uint32_t fnv_factor = 16777619; /* FNV-1a */
    for (size_t i = 0; i < count; i++)
        mark = (mark ^ ((const uint8_t *)bytes)[i]) * fnv_factor;
    return mark;
}

/* A number for the process's namespace of processes, and one for its start there, which it keeps when it executes
   another program. Without /proc both are random, so nobody takes the socket for one of a process that has ended. */
static uint32_t mark_make(void) {
    const uint32_t fnv_begin = 2166136261;
    char name[32] = {0};
    struct hz_process self;
    uint32_t random[2];
    hz_process_get(&self);
    if (self.is_known && HZ_SYSCALL6(SYS_readlinkat, AT_FDCWD, "/proc/self/ns/pid", name, sizeof(name), 0, 0) > 0) {
        listening.space = mark_add(fnv_begin, name, sizeof(name)) | 1;
        return mark_add(fnv_begin, &self.start_ticks, sizeof(self.start_ticks));
    }
    hz_os_random(random, sizeof(random));
    listening.space = random[0] & ~1U;
    return random[1];
}

/* Binds the socket to a name of which nobody knows, and listens before it gets its own: otherwise a listener of another
   namespace could find that nobody listens there, and remove it. The name can be there, from before exec. */
static bool socket_bind(void) {
    struct sockaddr_un hidden = {.sun_family = AF_UNIX};
    uint32_t mark = mark_make();
    int length = snprintf(listening.path, SOCKET_PATH_ROOM, "%s/%u.%08x%08x", listening.folder, listening.process,
                          listening.space, mark);
    int hidden_length = snprintf(hidden.sun_path, SOCKET_PATH_ROOM, "%s/.%u.%08x%08x", listening.folder,
                                 listening.process, listening.space, mark);
    if (file_is_bad(length < hidden_length && hidden_length < SOCKET_PATH_ROOM ? 0 : -ENAMETOOLONG, "the path"))
        return false;                                             /* cannot happen: folder_choose has left the room */
    (void)HZ_SYSCALL(SYS_unlinkat, AT_FDCWD, hidden.sun_path, 0); /* if we were killed at this point, before exec */
    if (file_is_bad(HZ_SYSCALL(SYS_bind, listening.socket, &hidden, sizeof(hidden)), "bind"))
        return false;
    (void)HZ_SYSCALL(SYS_fchmodat, AT_FDCWD, hidden.sun_path, S_IRUSR | S_IWUSR); /* the folder is closed anyway */
    long error = HZ_SYSCALL(SYS_listen, listening.socket, BACKLOG, 0);
    if (error == 0)
        error = HZ_SYSCALL6(SYS_renameat2, AT_FDCWD, hidden.sun_path, AT_FDCWD, listening.path, 0, 0);
    if (error != 0)
        (void)HZ_SYSCALL(SYS_unlinkat, AT_FDCWD, hidden.sun_path, 0); /* the reason is in `error` */
    return !file_is_bad(error, "listen");
}

static bool socket_open(void) {
    listening.socket = file_lift(HZ_SYSCALL(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    return !file_is_bad(listening.socket, "socket") && socket_bind();
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

enum { MARK_DIGITS = 16 };

/* Reads digits of the base, and returns behind them. */
static const char *digits_read(const char *text, unsigned base, uint64_t *number) {
    *number = 0;
    for (; *number < INT_MAX; text++) {
        unsigned digit = *text >= '0' && *text <= '9' ? (unsigned)(*text - '0') : (unsigned)(*text - 'a') + 10;
        if (digit >= base)
            break;
        *number = base * *number + digit;
    }
    return text;
}

/* Whether a name is that of the socket of a process of our namespace that is no more. */
static bool name_is_of_nobody(const char *name) {
    uint64_t number;
    char mark[MARK_DIGITS / 2 + 1];
    const char *behind = digits_read(name, 10, &number);
    (void)snprintf(mark, sizeof(mark), "%08x", listening.space);
    return *behind == '.' && strlen(behind + 1) == MARK_DIGITS && memcmp(behind + 1, mark, MARK_DIGITS / 2) == 0 &&
           number > 0 && number < INT_MAX && HZ_SYSCALL(SYS_kill, number, 0, 0) == -ESRCH;
}

static long peer_connect(const struct sockaddr_un *address) {
    long file = HZ_SYSCALL(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (file < 0)
        return file;
    long connected = HZ_SYSCALL(SYS_connect, file, address, sizeof(*address));
    file_close(file);
    return connected;
}

/* Removes the socket unless somebody listens there: the first half of a mark can be that of another namespace, too. */
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

/* ---- peers ------------------------------------------------------------------------------------------- */

static bool peer_is_allowed(int peer) {
    struct ucred about;
    socklen_t bytes = sizeof(about);
    return HZ_SYSCALL6(SYS_getsockopt, peer, SOL_SOCKET, SO_PEERCRED, &about, &bytes, 0) == 0 &&
           (about.uid == 0 || about.uid == listening.user);
}

static void peer_leave(struct peer *peer) {
    if (peer->answer > 0)
        file_close(peer->answer);
    file_close(peer->file);
    *peer = (struct peer){.file = 0};
}

static void peer_extend(struct peer *peer, unsigned seconds) {
    peer->until_ms = hz_min(hz_os_now_ms() + (uint64_t)seconds * SECOND_MS, peer->most_ms);
}

/* For a peer that gets no answer but this line, which its empty buffer has room for. */
__attribute__((format(printf, 2, 3))) static void peer_say(int peer, const char *format, ...) {
    char text[128];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length > 0)
        (void)hz_os_write(peer, text, hz_min((size_t)length, sizeof(text) - 1)); /* it may have left */
}

/* Reads what there is. True if the line is whole; false if more must come, or if the peer was left. */
static bool request_read(struct peer *peer) {
    long got = HZ_SYSCALL(SYS_read, peer->file, peer->request + peer->used, sizeof(peer->request) - peer->used);
    if (got == -EAGAIN || got == -EINTR)
        return false;
    char *end = got > 0 ? memchr(peer->request + peer->used, '\n', (size_t)got) : NULL;
    if (end != NULL) {
        *end = '\0';
        return true;
    }
    peer->used += got > 0 ? (size_t)got : 0;
    if (got <= 0 || peer->used == sizeof(peer->request)) /* it has left, or the line is too long */
        peer_leave(peer);
    return false;
}

/* Has the answer made. False if there is none. */
static bool answer_make(struct peer *peer) {
    enum { MEMFD_CLOEXEC = 1 }; /* of linux/memfd.h */
    peer->answer = file_lift(HZ_SYSCALL(SYS_memfd_create, "hakozuna", MEMFD_CLOEXEC, 0));
    int error = peer->answer < 0 ? -peer->answer : listening.duties->answer(peer->request, peer->answer);
    if (error != 0)
        peer_say(peer->file, "no: there is no memory for the answer, or a filter or limit forbids it: error %d\n",
                 error);
    return error == 0;
}

/* Sends as much as the peer takes now. */
static void answer_send(struct peer *peer) {
    char part[4096];
    long got;
    while ((got = HZ_SYSCALL6(SYS_pread64, peer->answer, part, sizeof(part), peer->sent_bytes, 0, 0)) > 0) {
        long sent = HZ_SYSCALL(SYS_write, peer->file, part, got);
        if (sent == -EAGAIN || sent == -EINTR)
            return;
        if (sent <= 0) /* it has left */
            break;
        peer->sent_bytes += (uint64_t)sent;
        peer_extend(peer, STEP_SECONDS);
    }
    peer_leave(peer);
}

/* Goes on with a peer, as far as possible without waiting for it. */
static void peer_serve(struct peer *peer) {
    if (peer->answer == 0) {
        if (!request_read(peer))
            return;
        if (!answer_make(peer)) {
            peer_leave(peer);
            return;
        }
        peer_extend(peer, STEP_SECONDS);
    }
    answer_send(peer);
}

static void peer_begin(struct peer *peer, int file) {
    if (!peer_is_allowed(file)) {
        peer_say(file, "no: only its user and root may ask\n");
        file_close(file);
        return;
    }
    *peer = (struct peer){.file = file, .most_ms = hz_os_now_ms() + ANSWER_SECONDS * SECOND_MS};
    peer_extend(peer, REQUEST_SECONDS);
    peer_serve(peer);
}

static struct peer *peer_free(void) {
    for (unsigned i = 0; i < HZ_LISTENER_PEERS; i++)
        if (listening.peers[i].file == 0)
            return &listening.peers[i];
    return NULL;
}

static void peers_accept(void) {
    const int flags = SOCK_CLOEXEC | SOCK_NONBLOCK;
    struct peer *peer;
    long file = -EAGAIN;
    while (hz_listener_runs() && (peer = peer_free()) != NULL &&
           (file = file_lift(HZ_SYSCALL6(SYS_accept4, listening.socket, NULL, NULL, flags, 0, 0))) >= 0)
        peer_begin(peer, (int)file);
    if (file < 0 && file != -EAGAIN && file != -EINTR && file != -ECONNABORTED) /* no files or memory: it waits */
        hz_os_wait_ms(&listener_phase, LISTENER_RUNS, ACCEPT_RETRY_MS);
}

/* ---- the thread -------------------------------------------------------------------------------------- */

enum { OWN_FILES = 2, FILES_MAX = OWN_FILES + HZ_LISTENER_PEERS };

/* What the thread sleeps on. */
struct sleep {
    struct pollfd files[FILES_MAX]; /* the pipe, the socket, and peers */
    struct peer *peers[FILES_MAX];
    unsigned count;
    uint64_t until_ms;
};

/* While all places are taken, the socket is not looked at: further peers wait. */
static void sleep_prepare(struct sleep *sleep) {
    int socket = peer_free() != NULL ? listening.socket : -1;
    sleep->until_ms = listening.duties->look();
    sleep->files[0] = (struct pollfd){.fd = listening.pipe_read, .events = POLLIN};
    sleep->files[1] = (struct pollfd){.fd = socket, .events = POLLIN};
    sleep->count = OWN_FILES;
    for (unsigned i = 0; i < HZ_LISTENER_PEERS; i++) {
        struct peer *peer = &listening.peers[i];
        if (peer->file == 0)
            continue;
        sleep->peers[sleep->count] = peer;
        sleep->files[sleep->count++] =
            (struct pollfd){.fd = peer->file, .events = peer->answer == 0 ? POLLIN : POLLOUT};
        sleep->until_ms = hz_min(sleep->until_ms, peer->until_ms);
    }
}

static void peers_look(const struct sleep *sleep) {
    uint64_t now = hz_os_now_ms();
    for (unsigned i = OWN_FILES; i < sleep->count; i++) {
        if (sleep->files[i].revents != 0)
            peer_serve(sleep->peers[i]);
        else if (now >= sleep->peers[i]->until_ms)
            peer_leave(sleep->peers[i]);
    }
}

static void listener_sleep(void) {
    struct sleep sleep;
    char bytes[BACKLOG];
    sleep_prepare(&sleep);
    uint64_t now = hz_os_now_ms();
    uint64_t most_ms = sleep.until_ms > now ? sleep.until_ms - now : 0;
    struct timespec most = {.tv_sec = (time_t)(hz_min(most_ms, INT_MAX) / SECOND_MS),
                            .tv_nsec = (long)(most_ms % SECOND_MS * 1000000)};
    struct timespec *until = sleep.until_ms != UINT64_MAX ? &most : NULL;
    long found = HZ_SYSCALL6(SYS_ppoll, sleep.files, sleep.count, until, NULL, PPOLL_SET_BYTES, 0);
    if (found < 0 && found != -EINTR) /* the program has lowered its limit of open files */
        hz_os_wait_ms(&listener_phase, LISTENER_RUNS, REFUSED_RETRY_MS);
    if (!hz_listener_runs() || found < 0)
        return;
    if (sleep.files[0].revents != 0)
        (void)HZ_SYSCALL(SYS_read, listening.pipe_read, bytes, sizeof(bytes)); /* only to empty it */
    peers_look(&sleep);
    if (sleep.files[1].revents != 0)
        peers_accept();
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
    while (hz_listener_runs())
        listener_sleep();
    if (hz_load_rlx(&listener_phase) == LISTENER_ENDS)               /* relaxed: no data is behind it */
        (void)HZ_SYSCALL(SYS_unlinkat, AT_FDCWD, listening.path, 0); /* the program may have another root by now */
    while (hz_load_rlx(&listener_phase) == LISTENER_LEFT && hz_os_is_confined()) /* to end takes more system calls */
        hz_os_wait(&listener_phase, LISTENER_LEFT);
    hz_store_rlx(&listener_is_over, true); /* relaxed: hint */
    return NULL;                           /* the thread's own table ends with it, and so do connections */
}

bool hz_listener_is(void *(*start)(void *)) {
    return start == listener_main;
}

static bool listener_failed(struct hz_listener_refusal *refusal) {
    *refusal = listening.refusal;
    hz_store_rlx(&listener_phase, LISTENER_NONE); /* relaxed: one thread */
    return false;
}

bool hz_listener_start(const char *runtime_folder, const struct hz_listener_duties *duties,
                       struct hz_listener_refusal *refusal) {
    if (hz_load_rlx(&listener_phase) != LISTENER_NONE) /* relaxed: one thread */
        return true;
    listening.user = (unsigned)HZ_SYSCALL(SYS_geteuid, 0, 0, 0);
    listening.process = hz_os_process_id();
    listening.duties = duties;
    listening.waker[0] = '\0';
    memset(listening.peers, 0, sizeof(listening.peers)); /* a fork's child has none of its parent's */
    folder_choose(runtime_folder);
    listening.refusal = (struct hz_listener_refusal){.folder = listening.folder, .what = "a thread"};
    hz_store_rlx(&listener_is_over, false);           /* relaxed: hint */
    hz_store_rlx(&listener_phase, LISTENER_STARTING); /* relaxed: the thread's start publishes all of this */
    int error = hz_worker_start(&listening.thread, listener_main);
    if (error != 0) {
        listening.refusal.error = error;
        return listener_failed(refusal);
    }
    while (hz_load_acq(&listener_phase) == LISTENER_STARTING) { /* sync: listener, partner listener_main */
        bool is_gone = pthread_kill(listening.thread, 0) != 0;
        if (is_gone && hz_load_acq(&listener_phase) == LISTENER_STARTING) { /* sync: listener, as above */
            listening.refusal.what = "a thread, which a filter has ended";
            listening.refusal.error = EPERM;
            return listener_failed(refusal); /* not joined: under musl that would never return */
        }
        hz_os_wait_ms(&listener_phase, LISTENER_STARTING, START_LOOK_MS);
    }
    if (hz_listener_runs())
        return true;
    (void)pthread_join(listening.thread, NULL); /* cannot fail: only this thread joins it */
    return listener_failed(refusal);
}

/* ---- its end ----------------------------------------------------------------------------------------- */

/* Opens it for reading, too: the thread can end meanwhile by itself, and a pipe without a reader raises SIGPIPE. */
static bool wake_by_pipe(void) {
    const int flags = O_RDWR | O_NONBLOCK | O_CLOEXEC;
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
    struct sockaddr_un address = listening_address();
    long connected = peer_connect(&address);
    return connected == 0 || connected == -EAGAIN; /* the queue is full: it wakes, too */
}

bool hz_listener_end(bool wait) {
    uint32_t seen = LISTENER_RUNS;
    if (!hz_cas_strong_acq_rlx(&listener_phase, &seen, LISTENER_ENDS)) /* cas */
        return false;
    hz_os_wake(&listener_phase, 1);                                                             /* if it may not poll */
    bool is_reached = wake_by_pipe() || wake_by_connection() || hz_load_rlx(&listener_is_over); /* relaxed: hint */
    if (!is_reached)
        hz_store_rlx(&listener_phase, LISTENER_LEFT); /* relaxed: no data is behind it */
    if (is_reached && wait)
        (void)pthread_join(listening.thread, NULL); /* cannot fail: only the thread that won joins it */
    else
        (void)pthread_detach(listening.thread);
    return is_reached;
}

void hz_listener_exit(void) {
    if (hz_listener_runs() && hz_os_process_id() == listening.process) /* not in a child of vfork */
        (void)HZ_SYSCALL(SYS_unlinkat, AT_FDCWD, listening.path, 0);   /* what is left behind, the next asker removes */
}

void hz_listener_forget(void) {
    hz_store_rlx(&listener_phase, LISTENER_NONE); /* relaxed: one thread */
}

void hz_listener_renew(void) {
    if (hz_load_rlx(&listener_phase) == LISTENER_ENDS) /* relaxed, both: one thread */
        hz_store_rlx(&listener_phase, LISTENER_NONE);
}
