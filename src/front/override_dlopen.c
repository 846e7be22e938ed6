/*
 * override_dlopen.c - dlopen without RTLD_DEEPBIND. In the shared libraries only, like override_thread.c.
 *
 * A library that is opened with this flag looks symbols up in its own dependencies, including the C library, before
 * the preloaded libraries. So it calls the C library's malloc and free, while the rest of the program calls ours. The
 * first block that one side allocates and the other frees, such as the result of strdup, ends the program. PHP opens
 * its extensions with this flag.
 */
#include "base/symbols.h"

#include <dlfcn.h>
#include <stddef.h>

typedef void *open_function(const char *, int);

/* The C library identifies the caller by the return address, and searches the caller's RUNPATH. So the last call must
   be a tail call: a jump keeps the program's return address. */
__attribute__((visibility("default"))) void *dlopen(const char *file, int mode) {
    open_function *open = (open_function *)hz_symbols_next(HZ_SYMBOL_DLOPEN);
    return open != NULL ? open(file, mode & ~RTLD_DEEPBIND) : NULL;
}
