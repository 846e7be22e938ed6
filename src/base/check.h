/*
 * check.h - ends the program when it has misused memory, or when the library has broken its own rules.
 *
 * hz_fail_* report a mistake of the program: one line goes to stderr in one write, its text is stable, and the program
 * aborts. hz_assert reports a mistake of ours. It checks in the check build only; in other builds it is compiled and
 * costs nothing. Nothing here allocates, locks or uses stdio.
 */
#ifndef HZ_BASE_CHECK_H
#define HZ_BASE_CHECK_H

#include "base/compiler.h"

/* The stable texts, used by the library and by tests/death. Each is printed as "hakozuna: <text> 0x<pointer>". */
#define HZ_TEXT_FOREIGN     "free of a pointer that is not from this allocator:"
#define HZ_TEXT_DOUBLE_FREE "double free of block:"
#define HZ_TEXT_INTERIOR    "free of a pointer into the middle of a block:"
#define HZ_TEXT_SIZE        "sized free with a size that the block cannot have:"
#define HZ_TEXT_LIST        "corrupt list of free blocks at:"

/* Prints "hakozuna: <text> 0x<pointer>" and aborts. */
HZ_NORETURN HZ_COLD void hz_fail_pointer(const char *text, const void *pointer);

/* Prints "hakozuna: <text> <number>" and aborts. */
HZ_NORETURN HZ_COLD void hz_fail_number(const char *text, size_t number);

/* Prints "hakozuna: internal error: <text> (<file>:<line>)" and aborts. */
HZ_NORETURN HZ_COLD void hz_fail_assert(const char *text, const char *file, int line);

#define hz_assert(condition)                                                                                           \
    do {                                                                                                               \
        if (HZ_CONFIG_CHECKS && HZ_UNLIKELY(!(condition)))                                                             \
            hz_fail_assert(#condition, __FILE_NAME__, __LINE__);                                                       \
    } while (0)

#endif
