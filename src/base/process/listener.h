/*
 * listener.h - a thread that waits at a unix socket, and answers each connection with a function of the caller. So a
 * process can be asked without a signal: no call of the program is interrupted.
 *
 * The socket is FOLDER/PID.MARK, where PID is the process's number in its own namespace. FOLDER is hakozuna in
 * $XDG_RUNTIME_DIR, or /tmp/hakozuna-UID without that variable; only its user may enter it. The mark keeps apart what
 * has the same number: processes of several namespaces that share a folder, and what an earlier process has left
 * behind. Its first half stands for the namespace. A program after exec has the mark of the one before, and takes its
 * place. A new listener removes sockets of processes of its own namespace that have ended without doing so; it does not
 * connect to others. A socket gets its name when it listens. Answers go to the process's user and to root.
 *
 * An answer is made whole, in a file in memory, before the first byte is sent. So it is of one moment, a peer that
 * reads slowly holds up nobody, and no lock is held while anything is sent. HZ_LISTENER_PEERS can be served at a time,
 * and others wait. A peer has 2 seconds for its request, 10 for each step of its reading, and 60 in all.
 *
 * The thread has a table of files of its own, so the program sees none of these descriptors, and closes none of them.
 * It blocks all signals, sleeps in ppoll between two connections, and allocates nothing.
 */
#ifndef HZ_BASE_PROCESS_LISTENER_H
#define HZ_BASE_PROCESS_LISTENER_H

#include "base/os/compiler.h"

enum { HZ_LISTENER_REQUEST_ROOM = 64, HZ_LISTENER_PEERS = 16 };

/* What the caller of hz_listener_start does. Both run in the listener's thread. */
struct hz_listener_duties {
    /* Writes the answer to `file`. The request is the line that the other side has sent, without its end. Returns 0 or
       an errno value; then the peer gets only a line that says so. */
    int (*answer)(const char *request, int file);
    /* What is to be done at a certain time. Called before each sleep; returns when to call it again at the latest, as
       hz_os_now_ms; UINT64_MAX: after the next request. */
    uint64_t (*look)(void);
};

/* Why nothing listens. */
struct hz_listener_refusal {
    const char *folder; /* constant */
    const char *what;   /* constant: "socket", for example */
    int error;          /* an errno value */
};

/* Starts the thread and waits until it listens. `runtime_folder`: $XDG_RUNTIME_DIR, or NULL. duties: constant. False if
   it does not listen. In a process with one thread; allocates what a thread needs. */
bool hz_listener_start(const char *runtime_folder, const struct hz_listener_duties *duties,
                       struct hz_listener_refusal *refusal);

/* Ends the thread, removes the socket, and with `wait` waits for both. Peers that have not read all lose the rest. If
   the thread cannot be reached, it sleeps on, and ends when it wakes; in a confined process it then makes no system
   call but futex. Any thread; not from a signal handler. Returns whether it was there and was reached. */
bool hz_listener_end(bool wait);

/* Whether it listens. A hint. */
bool hz_listener_runs(void);

/* The process ends: removes the socket. */
void hz_listener_exit(void);

/* After hz_listener_end has waited for the thread: it can be started again. */
void hz_listener_renew(void);

/* In a fork's child, which has no such thread. */
void hz_listener_forget(void);

/* Whether a thread with this function is the listener. */
bool hz_listener_is(void *(*start)(void *));

#endif
