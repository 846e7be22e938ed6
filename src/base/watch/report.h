/*
 * report.h - writes figures as text or JSON to a file descriptor. It uses a small buffer on the caller's stack: no
 * allocation, no stream, no lock.
 *
 * Groups nest. In JSON a group is an object, and rows are an array of objects. In text a group is a heading with a line
 * for each figure that is not 0, and a row is one line of key=value words; hz_report_text writes lines of any other
 * form. One thread per report. hz_report_end returns the first error of a write.
 */
#ifndef HZ_BASE_WATCH_REPORT_H
#define HZ_BASE_WATCH_REPORT_H

#include "base/os/compiler.h"

enum { HZ_REPORT_DEPTH_MAX = 4 };

struct hz_report {
    int fd;
    bool json;
    int error; /* errno of the first failed write, or 0 */
    unsigned depth;
    bool has_items[HZ_REPORT_DEPTH_MAX + 1];
    bool is_row[HZ_REPORT_DEPTH_MAX + 1];
    bool has_heading[HZ_REPORT_DEPTH_MAX + 1];
    const char *names[HZ_REPORT_DEPTH_MAX + 1];
    size_t used;
    char buffer[1024];
};

void hz_report_begin(struct hz_report *report, int fd, bool json);
int hz_report_end(struct hz_report *report); /* returns 0 or an errno value */

void hz_report_number(struct hz_report *report, const char *key, uint64_t value);
void hz_report_string(struct hz_report *report, const char *key, const char *value);

/* Text as printf formats it, without floating point. Not in JSON. */
__attribute__((format(printf, 2, 3))) void hz_report_text(struct hz_report *report, const char *format, ...);

void hz_report_group_open(struct hz_report *report, const char *name);
void hz_report_group_close(struct hz_report *report);

/* An array of rows: rows_open; for each row row_open, its values, row_close; then rows_close. */
void hz_report_rows_open(struct hz_report *report, const char *name);
void hz_report_row_open(struct hz_report *report);
void hz_report_row_close(struct hz_report *report);
void hz_report_rows_close(struct hz_report *report);

#endif
