/*
 * startup.c - see startup.h.
 *
 * The file has no bound: a user can be in 65,536 groups, whose list comes before what is wanted. So it is read in
 * pieces.
 */
#include "base/process/startup.h"

#include "base/os/os.h"

#include <string.h>

enum { LABEL_ROOM = 24, HEX_BITS = 4, WORD_BITS = 64 };

/* Where in its line a scan is: before the colon, or in a value of one kind. */
enum status_field { BEFORE_COLON, OF_FILTER, OF_THREADS, OF_CPUS, OF_OTHER };

/* Where a scan of the file is. */
struct scan {
    struct hz_startup *seen;
    char label[LABEL_ROOM]; /* the line's beginning, up to its colon */
    size_t length;
    enum status_field field;
    bool has_digits; /* of the number of threads */
};

static struct hz_startup at_startup; /* const after hz_startup_look */
static bool was_looked_at;           /* as startup */

const struct hz_startup *hz_startup_get(void) {
    return &at_startup;
}

/* -1: not a digit. */
static int digit_value(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The mask begins with the highest CPU. CPUs beyond the last word wrap around, as in hz_cpus_note. */
static void cpus_add(uint64_t cpus[HZ_CPU_WORDS], unsigned digit) {
    uint64_t carried = digit | cpus[HZ_CPU_WORDS - 1] >> (WORD_BITS - HEX_BITS);
    for (unsigned i = 0; i < HZ_CPU_WORDS; i++) {
        uint64_t next = cpus[i] >> (WORD_BITS - HEX_BITS);
        cpus[i] = cpus[i] << HEX_BITS | carried;
        carried = next;
    }
}

static void value_take(struct scan *scan, char c) {
    int digit = digit_value(c);
    if (digit < 0)
        return;
    if (scan->field == OF_FILTER) {
        scan->seen->is_known = true;
        scan->seen->is_filtered = digit != 0;
    } else if (scan->field == OF_THREADS) {
        scan->seen->has_one_thread = digit == 1 && !scan->has_digits;
        scan->has_digits = true;
    } else {
        scan->seen->has_cpus = true;
        cpus_add(scan->seen->cpus, (unsigned)digit);
    }
}

static enum status_field field_behind(const char *label) {
    if (strcmp(label, "Seccomp") == 0)
        return OF_FILTER;
    if (strcmp(label, "Threads") == 0)
        return OF_THREADS;
    return strcmp(label, "Cpus_allowed") == 0 ? OF_CPUS : OF_OTHER;
}

static bool piece_take(void *context, const char *text, size_t length) {
    struct scan *scan = context;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '\n') {
            scan->field = BEFORE_COLON;
            scan->length = 0;
        } else if (scan->field == OF_FILTER || scan->field == OF_THREADS || scan->field == OF_CPUS) {
            value_take(scan, c);
        } else if (scan->field == OF_OTHER) {
            continue;
        } else if (c == ':') {
            scan->label[scan->length] = '\0';
            scan->field = field_behind(scan->label);
        } else if (scan->length < LABEL_ROOM - 1) {
            scan->label[scan->length++] = c;
        }
    }
    return true;
}

void hz_startup_look_at(const char *status, struct hz_startup *seen) {
    struct scan scan = {.seen = seen};
    *seen = (struct hz_startup){.is_known = false};
    hz_os_scan_file(status, piece_take, &scan);
}

void hz_startup_look(void) {
    if (was_looked_at)
        return;
    was_looked_at = true;
    if (!hz_os_has_loader())
        return;
    hz_startup_look_at("/proc/thread-self/status", &at_startup);
    if (at_startup.has_one_thread)
        hz_os_note_single_thread();
    if (!at_startup.is_known || at_startup.is_filtered)
        return;
    hz_os_unfiltered();
    at_startup.nice = hz_os_nice();
    at_startup.process = hz_os_process_id();
}
