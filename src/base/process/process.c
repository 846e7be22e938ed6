/*
 * process.c - see process.h.
 */
#include "base/process/process.h"

#include "base/os/os.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

/* Fields of /proc/self/stat, counted from the one behind the name (proc(5) counts from 1, and that one is the third).
 */
enum { FIELD_THREADS = 20 - 3, FIELD_START = 22 - 3, FIELD_RSS = 24 - 3 };

/* The number at the beginning of a text. */
static uint64_t number_at(const char *text) {
    uint64_t number = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        number = 10 * number + (uint64_t)(*text - '0');
    return number;
}

/* Steps to a field; NULL when there is none. */
static const char *field_at(const char *text, unsigned field) {
    while (text != NULL && field-- > 0) {
        text = strchr(text, ' ');
        text = text != NULL ? text + 1 : NULL;
    }
    return text;
}

size_t hz_process_private_bytes(const char *statm) {
    enum { STATM_ROOM = 160 }; /* seven numbers */
    char text[STATM_ROOM];
    hz_os_read_file(statm, text, sizeof(text));
    const char *resident = field_at(text, 1);
    const char *shared = field_at(text, 2);
    if (shared == NULL || number_at(text) == 0)
        return SIZE_MAX;
    uint64_t pages = number_at(resident) - hz_min(number_at(shared), number_at(resident));
    return pages * hz_os_page_bytes();
}

void hz_process_get(struct hz_process *process) {
    enum { STAT_ROOM = 1024, MS = 1000 };
    char text[STAT_ROOM];
    *process = (struct hz_process){.program = program_invocation_short_name};
    if (hz_os_is_confined())
        return;
    hz_os_read_file("/proc/self/stat", text, sizeof(text));
    process->id = (uint32_t)number_at(text); /* its first field; asks for no call that a filter might forbid */
    if (process->id == 0 && hz_os_is_unfiltered())
        process->id = hz_os_process_id();
    const char *name_end = strrchr(text, ')'); /* the name can contain blanks and brackets */
    const char *fields = name_end != NULL && name_end[1] == ' ' ? name_end + 2 : NULL;
    const char *threads = field_at(fields, FIELD_THREADS);
    const char *start = field_at(fields, FIELD_START);
    const char *rss = field_at(fields, FIELD_RSS);
    unsigned long ticks = getauxval(AT_CLKTCK); /* the kernel always tells it */
    if (rss == NULL || ticks == 0)
        return;
    process->start_ticks = number_at(start);
    uint64_t started_ms = process->start_ticks * MS / ticks;
    uint64_t now_ms = hz_os_uptime_ms();
    process->is_known = true;
    process->uptime_ms = now_ms > started_ms ? now_ms - started_ms : 0;
    process->threads = number_at(threads);
    process->rss_bytes = number_at(rss) * hz_os_page_bytes();
}

void hz_process_thread_name(uint32_t thread_id, char name[HZ_THREAD_NAME_ROOM]) {
    char path[64];
    name[0] = '\0';
    if (snprintf(path, sizeof(path), "/proc/self/task/%u/comm", thread_id) < 0)
        return;
    hz_os_read_file(path, name, HZ_THREAD_NAME_ROOM);
    name[strcspn(name, "\n")] = '\0';
    for (char *c = name; *c != '\0'; c++) /* a program can give a thread any name, also one that commands a terminal */
        *c = *c < ' ' || *c == 0x7f ? '?' : *c;
}
