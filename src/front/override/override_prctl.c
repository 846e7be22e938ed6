/*
 * override_prctl.c - prctl, so that the library learns that the program is about to restrict its system calls or to
 * give up rights. seccomp filters are installed through prctl, and without privileges only after PR_SET_NO_NEW_PRIVS.
 * The library cannot ask afterwards whether there is a filter, since the filter may kill the process for that very
 * call. In the shared libraries only, like override_thread.c.
 */
#include "base/os/syscall.h"
#include "base/process/symbols.h"
#include "front/announce.h"

#include <stdarg.h>
#include <sys/prctl.h>

typedef int prctl_function(int, ...);

static int prctl_next(int option, const unsigned long *arguments) {
    prctl_function *next = (prctl_function *)hz_symbols_next(HZ_SYMBOL_PRCTL);
    if (next == NULL)
        return (int)hz_announce_answer(
            HZ_SYSCALL6(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3], 0));
    return next(option, arguments[0], arguments[1], arguments[2], arguments[3]);
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
    hz_announce_if_filter(SYS_prctl, option, (long)arguments[0], (long)arguments[1]);
    if (!hz_announce_is_of_thread(SYS_prctl, option, (long)arguments[0]))
        return prctl_next(option, arguments);
    struct hz_announced ended = hz_announce_begin();
    int result = prctl_next(option, arguments);
    hz_announce_end(ended);
    return result;
}
