/*
 * override_prctl.c - prctl, so that the library learns that the program is about to restrict its system calls. seccomp
 * filters are installed through prctl, and without privileges only after PR_SET_NO_NEW_PRIVS. The library cannot ask
 * afterwards whether there is a filter, since the filter may kill the process for that very call. In the shared
 * libraries only, like override_thread.c.
 */
#include "base/atomic.h"
#include "front/reporter.h"
#include "heap/keeper.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef int prctl_function(int, ...);

static _Atomic(uintptr_t) next_prctl; /* const after load; 0: not found, or not loaded yet */

/* At load, and not at the first call: that may come in a child that has inherited a lock of the dynamic linker. */
__attribute__((constructor)) static void find_next(void) {
    hz_store_rlx(&next_prctl, (uintptr_t)dlsym(RTLD_NEXT, "prctl")); /* relaxed: no data is behind it */
}

__attribute__((visibility("default"))) int prctl(int option, ...) {
    enum { ARGUMENTS = 4 };
    unsigned long arguments[ARGUMENTS];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < ARGUMENTS;
         i++) /* callers pass fewer, and the kernel ignores the rest, as with the C library's */
        arguments[i] = va_arg(list, unsigned long);
    va_end(list);
    if (option == PR_SET_SECCOMP || option == PR_SET_NO_NEW_PRIVS) {
        hz_reporter_confine();
        hz_keeper_confine();
    }
    prctl_function *next = (prctl_function *)hz_load_rlx(&next_prctl); /* relaxed: as above */
    if (next == NULL)                                                  /* a constructor calls it before ours has run */
        return (int)syscall(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]);
    return next(option, arguments[0], arguments[1], arguments[2], arguments[3]);
}
