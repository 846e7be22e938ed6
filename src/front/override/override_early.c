/*
 * override_early.c - malloc before thread-local variables have their start values. In the shared libraries for glibc
 * only.
 *
 * When a program starts, glibc relocates its libraries and then the program itself, and only then copies the start
 * values of thread-local variables. Until then the variables are zeros. Meanwhile code of the program can run: the
 * resolvers of its IFUNCs, which may allocate. glibc relocates a preloaded library before the program, and calls the
 * resolvers of a library as the last step of relocating it. So this library has an IFUNC too, which nobody calls: its
 * resolver says that thread-local variables are not to be trusted yet. The copy takes that back.
 */
#include "base/os/compiler.h"
#include "heap/threads/thread.h"

typedef void resolved_function(void);

static void unused(void) {
}

/* The library's own calls of other libraries may not be relocated yet, so the resolver makes none. clang takes it for
 * unused. */
HZ_UNUSED static resolved_function *resolve(void) {
    hz_thread_start_early();
    return unused;
}

/* Hidden and not static: clang exports a static one. */
HZ_HIDDEN resolved_function hz_early __attribute__((ifunc("resolve")));

/* A pointer that the dynamic linker has to resolve. Without it, linkers drop the IFUNC. */
__attribute__((used)) static resolved_function *const volatile early_pointer = hz_early;
