/*
 * cgroup.c - see cgroup.h.
 */
#include "base/process/cgroup.h"

#include "base/os/os.h"

#include <stdio.h>
#include <string.h>

/* Small, since a thread with a small stack may come here. */
enum { LINE_BYTES = 1024, PATH_BYTES = 1024, BASE_BYTES = 64 };

/* A line such as "4:cpu,cpuacct:/path" lists controllers. The path if it lists this one, else NULL. For the line of
   cgroup v2, "0::/path", the controller is "". */
static const char *path_of(const char *line, const char *controller) {
    const char *names = strchr(line, ':');
    const char *path = names != NULL ? strchr(names + 1, ':') : NULL;
    size_t length = strlen(controller);
    while (path != NULL) {
        names++;
        size_t name = strcspn(names, ",:");
        if (name == length && memcmp(names, controller, length) == 0)
            return path + 1;
        names += name;
        if (*names == ':')
            return NULL;
    }
    return NULL;
}

/* Changes `path` to the group above; false when `path` is `base` already. */
static bool group_above(char *path, const char *base) {
    char *last = strrchr(path + strlen(base), '/');
    if (last == NULL)
        return false;
    *last = '\0';
    return true;
}

/* Takes the file line by line: under cgroup v1 it has a dozen lines of some hundred bytes. */
struct group_search {
    const char *controller;
    char *line;
    size_t length;
    bool is_found;
};

static bool group_text_take(void *context, const char *text, size_t length) {
    struct group_search *search = context;
    for (size_t i = 0; i < length; i++) {
        if (text[i] != '\n') {
            if (search->length < LINE_BYTES - 1)
                search->line[search->length++] = text[i];
            continue;
        }
        search->line[search->length] = '\0';
        search->is_found = path_of(search->line, search->controller) != NULL;
        if (search->is_found)
            return false;
        search->length = 0;
    }
    return true;
}

/* Finds the process's group for `controller`: `base` and the path of a line such as "0::/system.slice/a.service". If
 * the path is too long: a group above it. False if the process has no such group. */
static bool group_path(const char *groups, const char *controller, const char *base, char *path, size_t room) {
    char line[LINE_BYTES];
    struct group_search search = {.controller = controller, .line = line};
    hz_os_scan_file(groups, group_text_take, &search);
    const char *found = search.is_found ? path_of(line, controller) : NULL;
    if (found == NULL || *found != '/')
        return false;
    int length = snprintf(path, room, "%s%s", base, found);
    if ((size_t)length >= room || search.length == LINE_BYTES - 1)
        (void)group_above(path, base);
    return length > 0;
}

/* The first number in the text, SIZE_MAX for "max", "-1" or nothing; *behind is the text after it. */
static size_t number_parse(const char *text, const char **behind) {
    enum { DECIMAL = 10 };
    size_t value = 0;
    const char *next = text;
    for (; *next >= '0' && *next <= '9'; next++)
        if (__builtin_mul_overflow(value, DECIMAL, &value) ||
            __builtin_add_overflow(value, (size_t)(*next - '0'), &value))
            return SIZE_MAX;
    *behind = next;
    return next > text ? value : SIZE_MAX;
}

static void file_read(const char *path, const char *name, char *text, size_t room) {
    char file[PATH_BYTES];
    int length = snprintf(file, sizeof(file), "%s/%s", path, name);
    text[0] = '\0';
    if (length > 0 && (size_t)length < sizeof(file))
        hz_os_read_file(file, text, room);
}

/* The number in the file `path`/`name`; SIZE_MAX when there is no such file, or the file says "max". Sets *is_known
   when the file could be read. */
static size_t limit_read(const char *path, const char *name, bool *is_known) {
    char text[64];
    const char *behind;
    file_read(path, name, text, sizeof(text));
    *is_known |= text[0] != '\0';
    return number_parse(text, &behind);
}

/* The folder where cgroup v1 mounts the controller: `root`/`controller`. */
static bool v1_base(const char *root, const char *controller, char *base, size_t room) {
    int length = snprintf(base, room, "%s/%s", root, controller);
    return length > 0 && (size_t)length < room;
}

bool hz_cgroup_memory(const char *groups, const char *root, size_t *high, size_t *max) {
    char path[PATH_BYTES];
    char base[BASE_BYTES];
    bool is_known = false;
    *high = *max = SIZE_MAX;
    if (group_path(groups, "", root, path, sizeof(path)))
        do {
            *high = hz_min(*high, limit_read(path, "memory.high", &is_known));
            *max = hz_min(*max, limit_read(path, "memory.max", &is_known));
        } while (group_above(path, root));
    if (!v1_base(root, "memory", base, sizeof(base)) || !group_path(groups, "memory", base, path, sizeof(path)))
        return is_known;
    do
        *max = hz_min(*max, limit_read(path, "memory.limit_in_bytes", &is_known));
    while (group_above(path, base));
    if (*max > SIZE_MAX / 4) /* v1 has no word for "no limit": it shows the largest number of whole pages */
        *max = SIZE_MAX;
    return is_known;
}

/* Whole CPUs for a quota of `time` in each `period`, at most `most`; `most` without a quota. */
static size_t cpus_of(size_t time, size_t period, size_t most) {
    if (time == SIZE_MAX || period == SIZE_MAX || period == 0)
        return most;
    return hz_min(hz_max(time / period + (time % period != 0), 1), most);
}

/* cgroup v2: cpu.max is "200000 100000". */
static size_t cpus_unified(const char *path, size_t most) {
    char text[64];
    const char *behind;
    file_read(path, "cpu.max", text, sizeof(text));
    size_t time = number_parse(text, &behind);
    return time != SIZE_MAX && *behind == ' ' ? cpus_of(time, number_parse(behind + 1, &behind), most) : most;
}

uint32_t hz_cgroup_cpus(const char *groups, const char *root) {
    char path[PATH_BYTES];
    char base[BASE_BYTES];
    size_t least = UINT32_MAX;
    if (group_path(groups, "", root, path, sizeof(path)))
        do
            least = cpus_unified(path, least);
        while (group_above(path, root));
    if (!v1_base(root, "cpu", base, sizeof(base)) || !group_path(groups, "cpu", base, path, sizeof(path)))
        return (uint32_t)least;
    bool is_known = false; /* a file that cannot be read limits nothing */
    do
        least = cpus_of(limit_read(path, "cpu.cfs_quota_us", &is_known),
                        limit_read(path, "cpu.cfs_period_us", &is_known), least);
    while (group_above(path, base));
    return (uint32_t)least;
}
