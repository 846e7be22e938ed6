/*
 * check.c - prints the last line of a failing program. Any function that finds a failure calls this module, on any
 * thread. Locks may be held and the heap may be broken, so the module uses only the stack and write(2).
 */
#include "base/check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct line {
    char text[320];
    size_t length;
};

static void line_add(struct line *line, const char *text) {
    size_t room = sizeof(line->text) - line->length;
    size_t length = hz_min(strlen(text), room);
    memcpy(line->text + line->length, text, length);
    line->length += length;
}

static void line_add_number(struct line *line, uintptr_t value, unsigned base) {
    char digits[24];
    size_t at = sizeof(digits) - 1;
    digits[at] = '\0';
    do {
        digits[--at] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    line_add(line, digits + at);
}

static HZ_NORETURN void line_print_and_abort(const struct line *line) {
    size_t done = 0;
    while (done < line->length) {
        ssize_t written = write(STDERR_FILENO, line->text + done, line->length - done);
        if (written <= 0)
            break;
        done += (size_t)written;
    }
    abort();
}

void hz_fail_pointer(const char *text, const void *pointer) {
    struct line line = {.length = 0};
    line_add(&line, "hakozuna: ");
    line_add(&line, text);
    line_add(&line, " 0x");
    line_add_number(&line, (uintptr_t)pointer, 16);
    line_add(&line, "\n");
    line_print_and_abort(&line);
}

void hz_fail_number(const char *text, size_t number) {
    struct line line = {.length = 0};
    line_add(&line, "hakozuna: ");
    line_add(&line, text);
    line_add(&line, " ");
    line_add_number(&line, number, 10);
    line_add(&line, "\n");
    line_print_and_abort(&line);
}

void hz_fail_assert(const char *text, const char *file, int line_number) {
    struct line line = {.length = 0};
    line_add(&line, "hakozuna: internal error: ");
    line_add(&line, text);
    line_add(&line, " (");
    line_add(&line, file);
    line_add(&line, ":");
    line_add_number(&line, (uintptr_t)line_number, 10);
    line_add(&line, ")\n");
    line_print_and_abort(&line);
}
