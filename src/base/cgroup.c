/*
 * cgroup.c - see cgroup.h. Called by heap/limit.c when the program starts its first thread.
 */
#include "base/cgroup.h"

#include "base/os.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 1024 }; /* small, since a thread with a small stack may come here; longer paths have no limit */

static const char root[] = "/sys/fs/cgroup";

/* The path of the process's group, as in "0::/system.slice/a.service"; false when there is no cgroup v2. */
static bool group_path(char *path, size_t room) {
    char text[TEXT_BYTES];
    hz_os_read_file("/proc/self/cgroup", text, sizeof(text));
    const char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    if (line == NULL)
        return false;
    line = strchr(line, '/');
    if (line == NULL)
        return false;
    size_t length = strcspn(line, "\n");
    if (sizeof(root) + length > room)
        return false;
    memcpy(path, root, sizeof(root) - 1);
    memcpy(path + sizeof(root) - 1, line, length);
    path[sizeof(root) - 1 + length] = '\0';
    return true;
}

/* The number in `path`/`name`; SIZE_MAX when there is no such file, or it says "max". */
static size_t limit_read(const char *path, const char *name) {
    enum { DECIMAL = 10 };
    char file[TEXT_BYTES];
    char text[64];
    int length = snprintf(file, sizeof(file), "%s/%s", path, name);
    if (length < 0 || (size_t)length >= sizeof(file))
        return SIZE_MAX;
    hz_os_read_file(file, text, sizeof(text));
    size_t value = 0;
    const char *next = text;
    for (; *next >= '0' && *next <= '9'; next++)
        if (__builtin_mul_overflow(value, DECIMAL, &value) ||
            __builtin_add_overflow(value, (size_t)(*next - '0'), &value))
            return SIZE_MAX;
    return next > text ? value : SIZE_MAX;
}

void hz_cgroup_memory(size_t *high, size_t *max) {
    char path[TEXT_BYTES];
    *high = *max = SIZE_MAX;
    if (!group_path(path, sizeof(path)))
        return;
    while (strlen(path) >= sizeof(root) - 1) {
        *high = hz_min(*high, limit_read(path, "memory.high"));
        *max = hz_min(*max, limit_read(path, "memory.max"));
        *strrchr(path, '/') = '\0'; /* `root` has slashes, so there is one */
    }
}
