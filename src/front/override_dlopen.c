/*
 * override_dlopen.c - dlopen without RTLD_DEEPBIND. In the shared products only, as override_thread.c.
 *
 * A library that is opened with this flag searches its own dependencies, and so the C library, before the libraries
 * that were preloaded: its malloc and free are the C library's, while the rest of the program has ours. The first block
 * that one side allocates and the other frees, such as the result of strdup, ends the program. PHP opens its extensions
 * so.
 */
#include "base/atomic.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

typedef void *open_function(const char *, int);

static open_function *next_open(void) {
    static _Atomic(uintptr_t) found; /* hint: every search has the same result */
    uintptr_t next = hz_load_rlx(&found);
    if (next == 0) {
        next = (uintptr_t)dlsym(RTLD_NEXT, "dlopen");
        hz_store_rlx(&found, next);
    }
    return (open_function *)next;
}

/* The C library takes the caller from the return address, and searches the caller's RUNPATH. So the last call has to be
   a jump, which leaves the program's return address where it is. */
__attribute__((visibility("default"))) void *dlopen(const char *file, int mode) {
    open_function *open = next_open();
    return open != NULL ? open(file, mode & ~RTLD_DEEPBIND) : NULL;
}
