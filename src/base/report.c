/*
 * report.c - see report.h. Called by the layers above, to print statistics.
 */
#include "base/report.h"

#include "base/check.h"
#include "base/os.h"

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

/* Escapes quotes and backslashes, which a path or a compiler's name can contain. Our own strings need no escapes. */
static void put_quoted(struct hz_report *report, const char *text) {
    put(report, "\"");
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            put(report, "\\");
        add(report, text, 1);
    }
    put(report, "\"");
}

/* Writes what comes before a value: in JSON a comma and the key; in text the names of its groups and the key, or,
   between the words of a row, a blank and the key. */
static void item_begin(struct hz_report *report, const char *key) {
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
        for (unsigned level = 1; level <= report->depth; level++) {
            put(report, report->names[level]);
            put(report, ".");
        }
        put(report, key);
        put(report, ": ");
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
