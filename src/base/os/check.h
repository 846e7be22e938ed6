/*
 * check.h - ends the program when it has misused memory, or when the library has broken its own rules.
 *
 * hz_fail_* report a mistake of the program: one line goes to stderr in one write, its text is stable, and the program
 * aborts. Before that the thread gives up what it holds (hz_fail_before_abort), because the program may have a handler
 * of SIGABRT that allocates, as crash reporters do. hz_assert reports a mistake of ours. It checks in the check build
 * only; in other builds it is compiled and costs nothing. Nothing here allocates, locks or uses stdio.
 */
#ifndef HZ_BASE_OS_CHECK_H
#define HZ_BASE_OS_CHECK_H

#include "base/os/compiler.h"

/* The stable texts, used by the library and by tests/death. Each is printed as "hakozuna: <text> 0x<pointer>", and what
   is known follows in parentheses. */
#define HZ_TEXT_FOREIGN     "free of a pointer that is not from this allocator:"
#define HZ_TEXT_DOUBLE_FREE "double free of block:"
#define HZ_TEXT_INTERIOR    "free of a pointer into the middle of a block:"
#define HZ_TEXT_SIZE        "sized free with a size that the block cannot have:"
#define HZ_TEXT_LIST        "corrupt list of free blocks at:"
#define HZ_TEXT_FRONT       "bytes in front of a block were overwritten:"
#define HZ_TEXT_BEHIND      "bytes behind a block were overwritten:"
#define HZ_TEXT_AFTER_FREE  "a block was written to after its free:"

/* From now on a failing thread prints its line, calls `release`, and then aborts. Call once, at start. */
void hz_fail_before_abort(void (*release)(void));

/* A line for stderr: hakozuna: <text> 0x<pointer> (<words>). Text that does not fit is cut off. */
struct hz_line {
    char text[320];
    size_t length;
};

HZ_COLD void hz_line_begin(struct hz_line *line, const char *text, const void *pointer);
HZ_COLD void hz_line_add(struct hz_line *line, const char *words);
HZ_COLD void hz_line_add_number(struct hz_line *line, uint64_t number);

/* Prints the line and aborts. */
HZ_NORETURN HZ_COLD void hz_line_fail(struct hz_line *line);

/* Prints "hakozuna: <text> 0x<pointer> (<found>)" and aborts. `found`: what is known; NULL if nothing is. */
HZ_NORETURN HZ_COLD void hz_fail_pointer(const char *text, const void *pointer, const char *found);

/* Prints "hakozuna: <text> <number>" and aborts. */
HZ_NORETURN HZ_COLD void hz_fail_number(const char *text, size_t number);

/* Prints "hakozuna: internal error: <text> (<file>:<line>)" and aborts. */
HZ_NORETURN HZ_COLD void hz_fail_assert(const char *text, const char *file, int line);

#define hz_assert(condition)                                                                                           \
    do {                                                                                                               \
        if (HZ_CONFIG_CHECKS && HZ_UNLIKELY(!(condition)))                                                             \
            hz_fail_assert(#condition, HZ_FILE_NAME, __LINE__);                                                        \
    } while (0)

#endif
