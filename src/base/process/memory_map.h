/*
 * memory_map.h - which memory the process has, and what the program may have written into it.
 *
 * For a moment at which the map does not change: no other thread runs (base/os/os_stop.h), or there is none. Allocates
 * nothing from the heap and takes no lock. Memory is read through the kernel, so that a page which cannot be read is
 * left out, and ends nothing.
 */
#ifndef HZ_BASE_PROCESS_MEMORY_MAP_H
#define HZ_BASE_PROCESS_MEMORY_MAP_H

#include "base/os/compiler.h"

enum { HZ_MAPPINGS_MOST = 70000 }; /* the kernel allows 65,530, unless it is told otherwise */

struct hz_mapping {
    uintptr_t begin, end;
    bool is_readable;
    bool is_private;
    bool is_plain;       /* private, or shared without a file or a device behind it: anonymous, System V's, POSIX's */
    bool is_first_stack; /* the stack of the process's first thread */
};

struct hz_memory_map {
    struct hz_mapping *all; /* by address; room for HZ_MAPPINGS_MOST */
    uint32_t count;
    uint32_t process; /* its number, for reads */
    int pagemap;      /* descriptor of /proc/self/pagemap; -1: none */
    bool is_whole;    /* all mappings had room, and all lines could be read */
};

/* Reads the map into `all`. False when that is not possible. hz_memory_map_close ends what it has opened. */
bool hz_memory_map_read(struct hz_memory_map *map, struct hz_mapping *all, uint32_t process);
void hz_memory_map_close(struct hz_memory_map *map);

/* The mapping that has the address; NULL when none has it. */
const struct hz_mapping *hz_memory_map_find(const struct hz_memory_map *map, uintptr_t address);

/* Copies memory of the process. Returns the bytes that could be read, from the first one on. */
size_t hz_memory_map_copy(const struct hz_memory_map *map, uintptr_t address, void *room, size_t bytes);

enum { HZ_MEMORY_PIECE_BYTES = 64 << 10 };

/* A copy of what is at `address`. */
typedef void hz_memory_visit(void *context, uintptr_t address, const uintptr_t *words, size_t count);

/* Calls `visit` for all memory in [begin, end), which lies in one mapping, that the program may have written: not for
   pages that were never touched, or that are as they are in a file. `room`: HZ_MEMORY_PIECE_BYTES. */
void hz_memory_map_scan(const struct hz_memory_map *map, uintptr_t begin, uintptr_t end, uintptr_t *room,
                        hz_memory_visit *visit, void *context);

#endif
