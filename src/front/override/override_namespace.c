/*
 * override_namespace.c - unshare and setns. In the C library both are the system call and nothing else.
 */
#include "base/os/compiler.h"
#include "front/announce.h"

HZ_EXPORT int unshare(int flags);
HZ_EXPORT int setns(int fd, int kind);

HZ_EXPORT int unshare(int flags) {
    return hz_announce_unshare(flags);
}

HZ_EXPORT int setns(int fd, int kind) {
    return hz_announce_setns(fd, kind);
}
