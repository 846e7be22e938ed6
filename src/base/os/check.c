/*
 * check.c - prints the last line of a failing program. Any function that finds a failure calls this module, on any
 * thread. Locks may be held and the heap may be broken, so the module prints with only the stack and the write
 * call. That one is no cancellation point: a cancelled thread would leave from here, and the program would go on.
 */
#include "base/os/check.h"

#include "base/os/atomic.h"
#include "base/os/os.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void hz_line_add(struct hz_line *line, const char *words) {
    size_t room = sizeof(line->text) - line->length;
    size_t length = hz_min(strlen(words), room);
    memcpy(line->text + line->length, words, length);
    line->length += length;
}

static void add_in_base(struct hz_line *line, uint64_t value, unsigned base) {
    char digits[24];
    size_t at = sizeof(digits) - 1;
    digits[at] = '\0';
    do {
        digits[--at] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    hz_line_add(line, digits + at);
}

void hz_line_add_number(struct hz_line *line, uint64_t number) {
    add_in_base(line, number, 10);
}

void hz_line_begin(struct hz_line *line, const char *text, const void *pointer) {
    line->length = 0;
    hz_line_add(line, "hakozuna: ");
    hz_line_add(line, text);
    hz_line_add(line, " 0x");
    add_in_base(line, (uintptr_t)pointer, 16);
}

static void (*_Atomic before_abort)(void); /* const after publish */

void hz_fail_before_abort(void (*release)(void)) {
    hz_store_rlx(&before_abort, release); /* relaxed: publishes no data */
}

void hz_line_fail(struct hz_line *line) {
    line->length = hz_min(line->length, sizeof(line->text) - 1);
    line->text[line->length++] = '\n';
    (void)hz_os_write(STDERR_FILENO, line->text, line->length); /* a closed stderr cannot be reported */
    void (*release)(void) = hz_load_rlx(&before_abort);         /* relaxed: publishes no data */
    if (release != NULL)
        release();
    abort();
}

void hz_fail_pointer(const char *text, const void *pointer, const char *found) {
    struct hz_line line;
    hz_line_begin(&line, text, pointer);
    if (found != NULL) {
        hz_line_add(&line, " (");
        hz_line_add(&line, found);
        hz_line_add(&line, ")");
    }
    hz_line_fail(&line);
}

void hz_fail_number(const char *text, size_t number) {
    struct hz_line line = {.length = 0};
    hz_line_add(&line, "hakozuna: ");
    hz_line_add(&line, text);
    hz_line_add(&line, " ");
    hz_line_add_number(&line, number);
    hz_line_fail(&line);
}

void hz_fail_assert(const char *text, const char *file, int line_number) {
    struct hz_line line = {.length = 0};
    hz_line_add(&line, "hakozuna: internal error: ");
    hz_line_add(&line, text);
    hz_line_add(&line, " (");
    hz_line_add(&line, file);
    hz_line_add(&line, ":");
    hz_line_add_number(&line, (uint64_t)line_number);
    hz_line_add(&line, ")");
    hz_line_fail(&line);
}
