/*
 * memory_map.c - see memory_map.h. Reads /proc/self/maps and /proc/self/pagemap.
 */
#define _GNU_SOURCE
#include "base/process/memory_map.h"

#include "base/os/os.h"
#include "base/os/syscall.h"

#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>

enum { MAP_NAME_ROOM = 16 }; /* of a mapping's name, its beginning is enough */

/* A line: 7f0c5a000000-7f0c5a021000 rw-p 00000000 00:00 0    [stack] */
enum map_field { FIELD_BEGIN, FIELD_END, FIELD_RIGHTS, FIELD_OFFSET, FIELD_DEVICE, FIELD_INODE, FIELD_NAME };

struct map_reading {
    struct hz_memory_map *map;
    struct hz_mapping now;
    enum map_field field;
    size_t length; /* of the field so far */
    char name[MAP_NAME_ROOM];
};

/* Shared memory in which a program keeps pointers. The memory of devices is left alone: to read it can do something. */
static bool is_plain_memory(const char *name) {
    static const char *const plain[] = {"/dev/zero", "/dev/shm/", "/SYSV", "/memfd:"};
    for (size_t i = 0; i < HZ_ARRAY_LENGTH(plain); i++)
        if (strncmp(name, plain[i], strlen(plain[i])) == 0)
            return true;
    return false;
}

static void map_line_end(struct map_reading *reading) {
    struct hz_memory_map *map = reading->map;
    static const char vsyscall[] = "[vsyscall]"; /* cannot be read, though the kernel says so */
    static const char variables[] = "[vvar";     /* the kernel's clock */
    reading->name[hz_min(reading->length, MAP_NAME_ROOM - 1)] = '\0';
    if (reading->field != FIELD_NAME)
        reading->name[0] = '\0';
    reading->now.is_plain = reading->now.is_private || is_plain_memory(reading->name);
    reading->now.is_first_stack = strcmp(reading->name, "[stack]") == 0;
    if (strncmp(reading->name, vsyscall, sizeof(vsyscall) - 1) == 0 ||
        strncmp(reading->name, variables, sizeof(variables) - 1) == 0)
        reading->now.is_readable = false;
    if (map->count == HZ_MAPPINGS_MOST || reading->field < FIELD_INODE)
        map->is_whole = false;
    else
        map->all[map->count++] = reading->now;
    reading->now = (struct hz_mapping){0};
    reading->field = FIELD_BEGIN;
    reading->length = 0;
}

static uintptr_t hex_add(uintptr_t value, char digit) {
    return value << 4 | (uintptr_t)(digit <= '9' ? digit - '0' : (digit | ('a' - 'A')) - 'a' + 10);
}

static void map_character_take(struct map_reading *reading, char c) {
    switch (reading->field) {
    case FIELD_BEGIN:
        reading->now.begin = hex_add(reading->now.begin, c);
        break;
    case FIELD_END:
        reading->now.end = hex_add(reading->now.end, c);
        break;
    case FIELD_RIGHTS:
        reading->now.is_readable |= reading->length == 0 && c == 'r';
        reading->now.is_private |= reading->length == 3 && c == 'p';
        break;
    case FIELD_NAME:
        if (reading->length < MAP_NAME_ROOM - 1)
            reading->name[reading->length] = c;
        break;
    default:
        break;
    }
    reading->length++;
}

static bool map_text_take(void *context, const char *text, size_t length) {
    struct map_reading *reading = context;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        bool is_blank = c == ' ' || (c == '-' && reading->field == FIELD_BEGIN);
        if (c == '\n') {
            map_line_end(reading);
        } else if (!is_blank || (reading->field == FIELD_NAME && reading->length > 0)) {
            map_character_take(reading, c);
        } else if (reading->field != FIELD_NAME) { /* many blanks stand before the name */
            reading->field++;
            reading->length = 0;
        }
    }
    return true;
}

bool hz_memory_map_read(struct hz_memory_map *map, struct hz_mapping *all, uint32_t process) {
    *map = (struct hz_memory_map){.all = all, .process = process, .pagemap = -1, .is_whole = true};
    struct map_reading reading = {.map = map};
    hz_os_scan_file("/proc/self/maps", map_text_take, &reading);
    if (map->count == 0 || !map->is_whole)
        return false;
    map->pagemap = (int)HZ_SYSCALL6(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    return true;
}

void hz_memory_map_close(struct hz_memory_map *map) {
    if (map->pagemap >= 0)
        (void)HZ_SYSCALL(SYS_close, map->pagemap, 0, 0); /* it was only read */
    map->pagemap = -1;
}

const struct hz_mapping *hz_memory_map_find(const struct hz_memory_map *map, uintptr_t address) {
    uint32_t low = 0;
    uint32_t high = map->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (map->all[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < map->count && map->all[low].begin <= address ? &map->all[low] : NULL;
}

/* What the kernel says of a page: in memory, in swap, as it is in a file or shared. */
#define PAGE_PRESENT (UINT64_C(1) << 63)
#define PAGE_SWAPPED (UINT64_C(1) << 62)
#define PAGE_OF_FILE (UINT64_C(1) << 61)

enum { MAP_PAGES_MOST = 512 };

/* Stores what the kernel says of the next pages; if it says nothing, they count as written. */
static void pages_get(const struct hz_memory_map *map, uintptr_t address, size_t pages, uint64_t *words) {
    int64_t from = (int64_t)(address / hz_os_page_bytes() * sizeof(*words));
    size_t bytes = pages * sizeof(*words);
    long got = map->pagemap < 0 ? -1 : HZ_SYSCALL6(SYS_pread64, map->pagemap, words, bytes, from, 0, 0);
    for (size_t page = got > 0 ? (size_t)got / sizeof(*words) : 0; page < pages; page++)
        words[page] = PAGE_PRESENT;
}

size_t hz_memory_map_copy(const struct hz_memory_map *map, uintptr_t address, void *room, size_t bytes) {
    struct iovec here = {room, bytes};
    struct iovec there = {(void *)address, bytes}; /* NOLINT(performance-no-int-to-ptr) */
    long got = HZ_SYSCALL6(SYS_process_vm_readv, map->process, &here, 1, &there, 1, 0);
    return got > 0 ? (size_t)got : 0;
}

/* Pages that may hold what the program has written; and where the copies of them go. */
struct map_scan {
    const struct hz_memory_map *map;
    uint64_t unchanged; /* bits that a page has which is as it is in its file */
    uintptr_t *room;
    hz_memory_visit *visit;
    void *context;
};

static bool is_page_written(const struct map_scan *scan, uint64_t said) {
    return (said & (PAGE_PRESENT | PAGE_SWAPPED)) != 0 && (said & scan->unchanged) == 0;
}

/* Of written memory. A page in the middle that cannot be read is left out. */
static void written_scan(const struct map_scan *scan, uintptr_t begin, uintptr_t end) {
    size_t os_page = hz_os_page_bytes();
    while (begin < end) {
        size_t got = hz_memory_map_copy(scan->map, begin, scan->room, hz_min(end - begin, HZ_MEMORY_PIECE_BYTES));
        if (got >= sizeof(uintptr_t))
            scan->visit(scan->context, begin, scan->room, got / sizeof(uintptr_t));
        begin = got >= sizeof(uintptr_t) ? begin + got : (begin & ~(os_page - 1)) + os_page;
    }
}

void hz_memory_map_scan(const struct hz_memory_map *map, uintptr_t begin, uintptr_t end, uintptr_t *room,
                        hz_memory_visit *visit, void *context) {
    uint64_t pages[MAP_PAGES_MOST];
    size_t os_page = hz_os_page_bytes();
    const struct hz_mapping *mapping = hz_memory_map_find(map, begin);
    /* of private memory, pages of a file are unchanged; of shared memory the kernel calls all pages so */
    struct map_scan scan = {map, mapping != NULL && mapping->is_private ? PAGE_OF_FILE : 0, room, visit, context};
    begin = hz_round_up(begin, sizeof(uintptr_t));
    while (begin < end) {
        uintptr_t first = begin & ~(os_page - 1);
        uintptr_t behind = hz_min(first + MAP_PAGES_MOST * os_page, end);
        size_t count = (behind - first + os_page - 1) / os_page;
        pages_get(map, first, count, pages);
        for (size_t page = 0; page < count;) {
            size_t next = page + 1;
            while (next < count && is_page_written(&scan, pages[next]) == is_page_written(&scan, pages[page]))
                next++;
            if (is_page_written(&scan, pages[page]))
                written_scan(&scan, hz_max(first + page * os_page, begin), hz_min(first + next * os_page, behind));
            page = next;
        }
        begin = behind;
    }
}
