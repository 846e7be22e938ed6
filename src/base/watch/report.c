/*
 * report.c - see report.h.
 */
#include "base/watch/report.h"

#include "base/os/check.h"
#include "base/os/os.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void flush(struct hz_report *report) {
    if (report->error == 0 && report->used > 0)
        report->error = hz_os_write(report->fd, report->buffer, report->used);
    report->used = 0;
}

static void add(struct hz_report *report, const char *text, size_t length) {
    while (length > 0) {
        if (report->used == sizeof(report->buffer))
            flush(report);
        size_t part = hz_min(length, sizeof(report->buffer) - report->used);
        memcpy(report->buffer + report->used, text, part);
        report->used += part;
        text += part;
        length -= part;
    }
}

static void put(struct hz_report *report, const char *text) {
    add(report, text, strlen(text));
}

static void put_number(struct hz_report *report, uint64_t value) {
    char digits[24];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    add(report, digits + at, sizeof(digits) - at);
}

/* Escapes what a name, a path or a compiler can contain. What is not ASCII becomes '?', since it need not be UTF-8. */
static void put_quoted(struct hz_report *report, const char *text) {
    static const char digits[] = "0123456789abcdef";
    put(report, "\"");
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < ' ') {
            const char escaped[] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15], '\0'};
            put(report, escaped);
            continue;
        }
        if (c == '"' || c == '\\')
            put(report, "\\");
        add(report, c < 0x7f ? text : "?", 1);
    }
    put(report, "\"");
}

static void put_spaces(struct hz_report *report, size_t count) {
    while (count-- > 0)
        put(report, " ");
}

/* The heading of the group that a line is in, and before it those of the groups around it. */
static void put_headings(struct hz_report *report) {
    for (unsigned level = 1; level <= report->depth; level++)
        if (!report->has_heading[level]) {
            put_spaces(report, 2 * (level - (size_t)1));
            put(report, report->names[level]);
            put(report, "\n");
            report->has_heading[level] = true;
        }
}

/* Writes what comes before a value: in JSON a comma and the key; in text the headings and the key, or, between the
   words of a row, a blank and the key. */
static void item_begin(struct hz_report *report, const char *key) {
    enum { KEY_WIDTH = 24 };
    if (report->json) {
        if (report->has_items[report->depth])
            put(report, ",");
        if (key != NULL) {
            put_quoted(report, key);
            put(report, ":");
        }
    } else if (report->is_row[report->depth]) {
        if (report->has_items[report->depth])
            put(report, " ");
        put(report, key);
        put(report, "=");
    } else if (key != NULL) {
        size_t length = strlen(key) + 1;
        put_headings(report);
        put_spaces(report, 2 * (size_t)report->depth);
        put(report, key);
        put(report, ":");
        put_spaces(report, length < KEY_WIDTH ? KEY_WIDTH - length : 1);
    }
    report->has_items[report->depth] = true;
}

static void item_end(struct hz_report *report) {
    if (!report->json && !report->is_row[report->depth])
        put(report, "\n");
}

static void descend(struct hz_report *report, const char *name, bool is_row) {
    hz_assert(report->depth < HZ_REPORT_DEPTH_MAX);
    report->depth++;
    report->has_items[report->depth] = false;
    report->has_heading[report->depth] = false;
    report->is_row[report->depth] = is_row;
    report->names[report->depth] = name;
}

void hz_report_begin(struct hz_report *report, int fd, bool json) {
    memset(report, 0, sizeof(*report));
    report->fd = fd;
    report->json = json;
    if (json)
        put(report, "{");
}

int hz_report_end(struct hz_report *report) {
    hz_assert(report->depth == 0);
    if (report->json)
        put(report, "}\n");
    flush(report);
    return report->error;
}

void hz_report_number(struct hz_report *report, const char *key, uint64_t value) {
    if (value == 0 && !report->json && !report->is_row[report->depth])
        return;
    item_begin(report, key);
    put_number(report, value);
    item_end(report);
}

void hz_report_string(struct hz_report *report, const char *key, const char *value) {
    item_begin(report, key);
    if (report->json)
        put_quoted(report, value);
    else
        put(report, value);
    item_end(report);
}

void hz_report_text(struct hz_report *report, const char *format, ...) {
    enum { LINE_ROOM = 512 };
    char text[LINE_ROOM];
    va_list arguments;
    if (report->json)
        return;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length > 0)
        add(report, text, hz_min((size_t)length, sizeof(text) - 1));
}

void hz_report_group_open(struct hz_report *report, const char *name) {
    if (report->json) {
        item_begin(report, name);
        put(report, "{");
    }
    descend(report, name, false);
}

void hz_report_group_close(struct hz_report *report) {
    report->depth--;
    if (report->json)
        put(report, "}");
}

void hz_report_rows_open(struct hz_report *report, const char *name) {
    if (report->json) {
        item_begin(report, name);
        put(report, "[");
    }
    descend(report, name, false);
}

void hz_report_row_open(struct hz_report *report) {
    if (report->json) {
        item_begin(report, NULL);
        put(report, "{");
    } else {
        put(report, report->names[report->depth]);
        put(report, ": ");
    }
    descend(report, NULL, true);
}

void hz_report_row_close(struct hz_report *report) {
    report->depth--;
    put(report, report->json ? "}" : "\n");
}

void hz_report_rows_close(struct hz_report *report) {
    report->depth--;
    if (report->json)
        put(report, "]");
}
