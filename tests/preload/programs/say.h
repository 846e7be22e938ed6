/*
 * say.h - what a program says while its system calls are restricted: by write alone, without stdio.
 */
#ifndef HZ_TESTS_PRELOAD_PROGRAMS_SAY_H
#define HZ_TESTS_PRELOAD_PROGRAMS_SAY_H

#include <string.h>
#include <unistd.h>

static _Noreturn void fail(const char *what) {
    (void)!write(STDERR_FILENO, what, strlen(what));
    (void)!write(STDERR_FILENO, "\n", 1);
    _exit(3);
}

static void say(const char *word) {
    if (write(STDOUT_FILENO, word, strlen(word)) != (ssize_t)strlen(word))
        fail("stdout is closed");
}

#endif
