/*
 * override_namespace.c - unshare, setns and capset. In the C library each is the system call and nothing else.
 */
#include "base/os/compiler.h"
#include "front/announce.h"

#include <sys/syscall.h>

HZ_EXPORT int unshare(int flags);
HZ_EXPORT int setns(int fd, int kind);
HZ_EXPORT HZ_WEAK int capset(void *header, const void *sets); /* the program may define its own */

HZ_EXPORT int unshare(int flags) {
    return (int)hz_announce_of_thread(SYS_unshare, flags, 0, 0);
}

HZ_EXPORT int setns(int fd, int kind) {
    return (int)hz_announce_of_thread(SYS_setns, fd, kind, 0);
}

HZ_EXPORT HZ_WEAK int capset(void *header, const void *sets) {
    return (int)hz_announce_of_thread(SYS_capset, (long)header, (long)sets, 0);
}
