/*
 * override_prctl.c - prctl, so that the library learns that the program is about to restrict its system calls: seccomp
 * comes by prctl, and without privileges only after PR_SET_NO_NEW_PRIVS. Nobody can ask afterwards whether there is a
 * filter, since the filter may end the process for that very call. In the shared products only, as override_thread.c.
 */
#include "base/atomic.h"
#include "heap/keeper.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/prctl.h>

typedef int prctl_function(int, ...);

__attribute__((visibility("default"))) int prctl(int option, ...) {
    enum { ARGUMENTS = 4 };
    static _Atomic(uintptr_t) found; /* hint: every search has the same result */
    unsigned long arguments[ARGUMENTS];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < ARGUMENTS;
         i++) /* callers pass fewer, and the kernel ignores the rest, as with the C library's */
        arguments[i] = va_arg(list, unsigned long);
    va_end(list);
    uintptr_t next = hz_load_rlx(&found);
    if (next == 0) {
        next = (uintptr_t)dlsym(RTLD_NEXT, "prctl");
        hz_store_rlx(&found, next);
    }
    if (next == 0) {
        errno = ENOSYS;
        return -1;
    }
    if (option == PR_SET_SECCOMP || option == PR_SET_NO_NEW_PRIVS)
        hz_keeper_confine();
    return ((prctl_function *)next)(option, arguments[0], arguments[1], arguments[2], arguments[3]);
}
