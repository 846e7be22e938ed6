/*
 * symbols.h - functions of other libraries that ours calls by name, found without the dynamic linker's lock.
 *
 * dlsym takes that lock, and a thread holds it while it runs the constructors of libraries. If a constructor waits for
 * another thread, and that thread calls dlsym, both wait for ever. So the library reads the symbol tables itself.
 * dl_iterate_phdr shows them: the dynamic linker adds and removes a library only while no thread is in this call, and
 * calls no constructor meanwhile. And no call here changes what dlerror returns.
 */
#ifndef HZ_BASE_PROCESS_SYMBOLS_H
#define HZ_BASE_PROCESS_SYMBOLS_H

#include "base/os/compiler.h"

/* The functions that the library replaces and calls, and one of glibc's. */
enum hz_symbol {
    HZ_SYMBOL_DLOPEN,
    HZ_SYMBOL_DLMOPEN,
    HZ_SYMBOL_MADVISE,
    HZ_SYMBOL_MBIND,
    HZ_SYMBOL_MLOCK,
    HZ_SYMBOL_MLOCK2,
    HZ_SYMBOL_MLOCKALL,
    HZ_SYMBOL_MMAP,
    HZ_SYMBOL_MMAP64,
    HZ_SYMBOL_MPROTECT,
    HZ_SYMBOL_MREMAP,
    HZ_SYMBOL_MUNLOCKALL,
    HZ_SYMBOL_MUNMAP,
    HZ_SYMBOL_PKEY_MPROTECT,
    HZ_SYMBOL_PRCTL,
    HZ_SYMBOL_PTHREAD_CREATE,
    HZ_SYMBOL_SYSCALL,
    HZ_SYMBOL_THRD_CREATE,
    HZ_SYMBOL_PTHREAD_GET_MINSTACK,
    HZ_SYMBOLS,
};

/* Finds them all. For the start of the library, so that later calls of hz_symbols_next are single loads, in a
   fork's child too. */
void hz_symbols_load(void);

/* As dlsym(RTLD_NEXT, name): the definition in the first library behind ours in the search order. So libraries that are
   preloaded behind ours, and replace the same function, are called. If ours was opened by dlopen there is none, and the
   definition in a library that ours is linked with counts. 0 when it is not there either. Any thread, at any time. */
uintptr_t hz_symbols_next(enum hz_symbol symbol);

/* The same, without a search: 0 until hz_symbols_load has run. Also in a signal handler. */
uintptr_t hz_symbols_known(enum hz_symbol symbol);

/* As dlsym with a handle of the library that has this soname; 0 when it is not loaded, or has no such function. With
   NULL the function can be in any library, or in the program. The caller knows that it stays loaded. Any thread, at any
   time. */
uintptr_t hz_symbols_find(const char *soname, const char *name);

/* The definitions of `count` names in the first library that ours is linked with and that has the first of them: the C
   library's own, whatever is preloaded. 0 where there is none, as in static programs. Any thread, at any time. */
void hz_symbols_linked(const char *const *names, uintptr_t *found, size_t count);

/* Among the libraries that ours is linked with, the first that defines names[0] is the C library. Makes each of these
   names lead to our function of the same name there, in all versions. False when that is refused; then nothing has
   changed. Any thread; another call finds nothing left to do. */
bool hz_symbols_redirect(const char *const *names, size_t count);

/* The same for the definition that ours calls as the next one. Does nothing if that is in a library which replaces the
   function too: it would find ours as its next one. */
void hz_symbols_redirect_next(enum hz_symbol symbol);

#endif
