/*
 * override_attributes.c - mprotect, madvise, mlock and the like, so that the library learns what the program tells the
 * kernel about its blocks, and undoes that when they are freed (base/arena/attributes.h). For memory that is not ours
 * this costs a few comparisons.
 *
 * The definition that comes next makes the call: so a library that is preloaded behind ours and replaces the same
 * function sees it. Where there is none, as in static programs, and until the library is loaded, the system call is
 * made directly. None of these functions is a cancellation point. Programs call them in signal handlers, which is
 * allowed here too.
 */
#define _GNU_SOURCE
#include "front/altering.h"

#include "base/process/symbols.h"

#include <errno.h>

static long answer_of(long result) {
    if (!hz_syscall_failed(result))
        return result;
    errno = (int)-result;
    return -1;
}

typedef int range_function(void *, size_t);
typedef int range_word_function(void *, size_t, int);
typedef int range_words_function(void *, size_t, int, int);
typedef int range_flags_function(const void *, size_t, unsigned);
typedef long bind_function(void *, unsigned long, int, const unsigned long *, unsigned long, unsigned);
typedef int flags_function(int);
typedef int plain_function(void);
typedef void *map_function(void *, size_t, int, int, int, long);
typedef void *remap_function(void *, size_t, size_t, int, void *);

/* Under other names here, since headers declare them with other types: an ellipsis, off_t. Weak: a program that links
   the archive may define its own, and then nothing is noted. */
HZ_EXPORT HZ_WEAK range_word_function override_mprotect __asm__("mprotect");
HZ_EXPORT HZ_WEAK range_words_function override_pkey_mprotect __asm__("pkey_mprotect");
HZ_EXPORT HZ_WEAK range_word_function override_madvise __asm__("madvise");
HZ_EXPORT HZ_WEAK range_function override_mlock __asm__("mlock");
HZ_EXPORT HZ_WEAK range_flags_function override_mlock2 __asm__("mlock2");
HZ_EXPORT HZ_WEAK bind_function override_mbind __asm__("mbind");
HZ_EXPORT HZ_WEAK flags_function override_mlockall __asm__("mlockall");
HZ_EXPORT HZ_WEAK plain_function override_munlockall __asm__("munlockall");
HZ_EXPORT HZ_WEAK map_function override_mmap __asm__("mmap");
HZ_EXPORT HZ_WEAK map_function override_mmap64 __asm__("mmap64");
HZ_EXPORT HZ_WEAK range_function override_munmap __asm__("munmap");
HZ_EXPORT HZ_WEAK remap_function override_mremap __asm__("mremap");

int override_mprotect(void *address, size_t bytes, int protection) {
    hz_altering_note(SYS_mprotect, (long)address, (long)bytes, protection, 0, 0);
    range_word_function *next = (range_word_function *)hz_symbols_known(HZ_SYMBOL_MPROTECT);
    return next != NULL ? next(address, bytes, protection)
                        : (int)answer_of(HZ_SYSCALL(SYS_mprotect, address, bytes, protection));
}

int override_pkey_mprotect(void *address, size_t bytes, int protection, int key) {
    hz_altering_note(SYS_pkey_mprotect, (long)address, (long)bytes, protection, 0, 0);
    range_words_function *next = (range_words_function *)hz_symbols_known(HZ_SYMBOL_PKEY_MPROTECT);
    if (next != NULL)
        return next(address, bytes, protection, key);
    return (int)answer_of(HZ_SYSCALL6(SYS_pkey_mprotect, address, bytes, protection, key, 0, 0));
}

int override_madvise(void *address, size_t bytes, int advice) {
    hz_altering_note(SYS_madvise, (long)address, (long)bytes, advice, 0, 0);
    range_word_function *next = (range_word_function *)hz_symbols_known(HZ_SYMBOL_MADVISE);
    return next != NULL ? next(address, bytes, advice)
                        : (int)answer_of(HZ_SYSCALL(SYS_madvise, address, bytes, advice));
}

int override_mlock(void *address, size_t bytes) {
    hz_altering_note(SYS_mlock, (long)address, (long)bytes, 0, 0, 0);
    range_function *next = (range_function *)hz_symbols_known(HZ_SYMBOL_MLOCK);
    return next != NULL ? next(address, bytes) : (int)answer_of(HZ_SYSCALL(SYS_mlock, address, bytes, 0));
}

int override_mlock2(const void *address, size_t bytes, unsigned flags) {
    hz_altering_note(SYS_mlock2, (long)address, (long)bytes, 0, 0, 0);
    range_flags_function *next = (range_flags_function *)hz_symbols_known(HZ_SYMBOL_MLOCK2);
    return next != NULL ? next(address, bytes, flags) : (int)answer_of(HZ_SYSCALL(SYS_mlock2, address, bytes, flags));
}

/* libnuma's. */
long override_mbind(void *address, unsigned long bytes, int mode, const unsigned long *nodes, unsigned long most,
                    unsigned flags) {
    hz_altering_note(SYS_mbind, (long)address, (long)bytes, 0, 0, 0);
    bind_function *next = (bind_function *)hz_symbols_known(HZ_SYMBOL_MBIND);
    if (next != NULL)
        return next(address, bytes, mode, nodes, most, flags);
    return answer_of(HZ_SYSCALL6(SYS_mbind, address, bytes, mode, nodes, most, flags));
}

int override_mlockall(int flags) {
    hz_altering_note(SYS_mlockall, flags, 0, 0, 0, 0);
    flags_function *next = (flags_function *)hz_symbols_known(HZ_SYMBOL_MLOCKALL);
    return next != NULL ? next(flags) : (int)answer_of(HZ_SYSCALL(SYS_mlockall, flags, 0, 0));
}

int override_munlockall(void) {
    hz_altering_note(SYS_munlockall, 0, 0, 0, 0, 0);
    plain_function *next = (plain_function *)hz_symbols_known(HZ_SYMBOL_MUNLOCKALL);
    return next != NULL ? next() : (int)answer_of(HZ_SYSCALL(SYS_munlockall, 0, 0, 0));
}

static void *map_by(enum hz_symbol symbol, void *wish, size_t bytes, int protection, int flags, int file, long offset) {
    hz_altering_note(SYS_mmap, (long)wish, (long)bytes, protection, flags, file);
    map_function *next = (map_function *)hz_symbols_known(symbol);
    if (next != NULL)
        return next(wish, bytes, protection, flags, file, offset);
    return (void *)answer_of(HZ_SYSCALL6(SYS_mmap, wish, bytes, protection, flags, file, offset)); /* NOLINT */
}

void *override_mmap(void *wish, size_t bytes, int protection, int flags, int file, long offset) {
    return map_by(HZ_SYMBOL_MMAP, wish, bytes, protection, flags, file, offset);
}

void *override_mmap64(void *wish, size_t bytes, int protection, int flags, int file, long offset) {
    return map_by(HZ_SYMBOL_MMAP64, wish, bytes, protection, flags, file, offset);
}

int override_munmap(void *address, size_t bytes) {
    hz_altering_note(SYS_munmap, (long)address, (long)bytes, 0, 0, 0);
    range_function *next = (range_function *)hz_symbols_known(HZ_SYMBOL_MUNMAP);
    return next != NULL ? next(address, bytes) : (int)answer_of(HZ_SYSCALL(SYS_munmap, address, bytes, 0));
}

void *override_mremap(void *address, size_t old_bytes, size_t new_bytes, int flags, void *target) {
    hz_altering_note(SYS_mremap, (long)address, (long)old_bytes, (long)new_bytes, flags, (long)target);
    remap_function *next = (remap_function *)hz_symbols_known(HZ_SYMBOL_MREMAP);
    if (next != NULL)
        return next(address, old_bytes, new_bytes, flags, target);
    return (void *)answer_of(HZ_SYSCALL6(SYS_mremap, address, old_bytes, new_bytes, flags, target, 0)); /* NOLINT */
}
