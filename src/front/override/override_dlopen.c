/*
 * override_dlopen.c - dlopen and dlmopen, so that a library that is opened with RTLD_DEEPBIND has our malloc. In the
 * shared libraries for glibc only.
 *
 * Such a library finds symbols in its own dependencies, the C library among them, before the preloaded libraries. It
 * would call the C library's malloc and free, while the rest of the program calls ours, and the first block that one
 * side allocates and the other frees ends the program. So before it opens the first such library, dlopen makes the
 * entries of the malloc family in the C library's symbol table lead to ours. It does the same for the functions that
 * tell us that the program starts a thread, restricts itself or changes namespaces. For all other symbols the flag does
 * what the program wants. If dlopen cannot change the table, it opens the library without the flag.
 *
 * The operators of C++ are not in the list. The library finds those of its libstdc++, which call malloc and free.
 */
#define _GNU_SOURCE
#include "base/process/symbols.h"

#include <dlfcn.h>

/* The functions of ours that replace one of the C library's, or of a later C library, and do not call it. Those that
   call the next definition are in mode_possible. The first name tells the C library from other libraries. */
static const char *const family[] = {
    "malloc",
    "free",
    "calloc",
    "realloc",
    "reallocarray",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
    "cfree",
    "free_sized",
    "free_aligned_sized",
    "malloc_usable_size",
    "malloc_trim",
    "mallopt",
    "mallinfo",
    "mallinfo2",
    "malloc_info",
    "malloc_stats",
    "__libc_malloc",
    "__libc_free",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_memalign",
    "__libc_valloc",
    "__libc_pvalloc",
    "__libc_mallopt",
    "__libc_mallinfo",
    "unshare",
    "setns",
    "capset",
};

/* The mode in which a library can be opened. */
static int mode_possible(int mode) {
    if ((mode & RTLD_DEEPBIND) == 0)
        return mode;
    if (!hz_symbols_redirect(family, HZ_ARRAY_LENGTH(family)))
        return mode & ~RTLD_DEEPBIND;
    hz_symbols_redirect_next(HZ_SYMBOL_PTHREAD_CREATE);
    hz_symbols_redirect_next(HZ_SYMBOL_THRD_CREATE);
    hz_symbols_redirect_next(HZ_SYMBOL_PRCTL);
    hz_symbols_redirect_next(HZ_SYMBOL_SYSCALL);
    for (enum hz_symbol symbol = HZ_SYMBOL_MADVISE; symbol <= HZ_SYMBOL_PKEY_MPROTECT; symbol++)
        hz_symbols_redirect_next(symbol);
    return mode;
}

/* The C library identifies the caller by the return address, and searches the caller's RUNPATH. So the last call must
   be a tail call: a jump keeps the program's return address. */
HZ_EXPORT void *dlopen(const char *file, int mode) {
    typedef void *open_function(const char *, int);
    open_function *open = (open_function *)hz_symbols_next(HZ_SYMBOL_DLOPEN);
    return open != NULL ? open(file, mode_possible(mode)) : NULL;
}

/* Another namespace than the program's has a C library and a malloc of its own. There the flag stays in any case. */
HZ_EXPORT void *dlmopen(Lmid_t namespace, const char *file, int mode) {
    typedef void *open_function(Lmid_t, const char *, int);
    open_function *open = (open_function *)hz_symbols_next(HZ_SYMBOL_DLMOPEN);
    return open != NULL ? open(namespace, file, namespace == LM_ID_BASE ? mode_possible(mode) : mode) : NULL;
}
