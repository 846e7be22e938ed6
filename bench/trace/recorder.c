/*
 * recorder.c - libhakotrace.so: the malloc family in front of another one, with every call recorded (record.h).
 *
 * The library is preloaded; if an allocator is preloaded too, the library stands in front of it. HAKOTRACE_FILE names
 * the file; without it the library only forwards calls. The C++ operators of the standard library call malloc and
 * free. glibc itself calls these names (strdup, fopen, thread creation), so its blocks are recorded like the program's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "next.h"
#include "record.h"

#define EXPORT __attribute__((visibility("default")))

static void *begin(unsigned function, size_t alignment, void *block, size_t size) {
    record_write(record_order(), block != NULL ? function : function | TRACE_FAILED, alignment, block, size);
    return block;
}

static void *early_or_fail(size_t alignment, size_t size) {
    void *block = next_early(alignment, size);
    if (block == NULL) {
        errno = ENOMEM;
    }
    return block;
}

EXPORT void *malloc(size_t size) {
    const struct next *next = next_get();
    if (next == NULL) {
        return early_or_fail(0, size);
    }
    return begin(TRACE_MALLOC, 0, next->malloc(size), size);
}

EXPORT void *calloc(size_t count, size_t size) {
    const struct next *next = next_get();
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        bytes = SIZE_MAX;
    }
    if (next == NULL) {
        return early_or_fail(0, bytes);
    }
    return begin(TRACE_CALLOC, 0, next->calloc(count, size), bytes);
}

EXPORT void free(void *block) {
    const struct next *next = next_get();
    if (next == NULL || next_is_early(block)) {
        return;
    }
    record_write(record_order(), TRACE_FREE, 0, block, 0);
    next->free(block);
}

/* Moves a block from the early memory to the allocator; the recording shows it as a new block. */
static void *move_early(const struct next *next, unsigned function, void *block, size_t size) {
    size_t old_size = next_early_size(block);
    void *moved = next == NULL ? early_or_fail(0, size) : begin(function, 0, next->malloc(size), size);
    if (moved != NULL) {
        memcpy(moved, block, old_size < size ? old_size : size);
    }
    return moved;
}

static void *resize(unsigned function, void *block, size_t size) {
    const struct next *next = next_get();
    if (next_is_early(block)) {
        return move_early(next, function, block, size);
    }
    if (next == NULL) {
        return early_or_fail(0, size);
    }
    if (block == NULL) {
        return begin(function, 0, next->realloc(NULL, size), size);
    }
    struct trace_record *second = record_pair(record_order(), function | TRACE_OLD, block);
    void *moved = next->realloc(block, size);
    unsigned operation = function | TRACE_NEW | (moved != NULL ? 0U : (unsigned)TRACE_FAILED);
    if (second != NULL) {
        record_fill(second, record_order(), operation, 0, moved, size);
    }
    return moved;
}

EXPORT void *realloc(void *block, size_t size) {
    return resize(TRACE_REALLOC, block, size);
}

/* Does not call glibc's reallocarray, which would call realloc and so be recorded twice. */
EXPORT void *reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        record_write(record_order(), TRACE_REALLOCARRAY | TRACE_FAILED, 0, NULL, SIZE_MAX);
        errno = ENOMEM;
        return NULL;
    }
    return resize(TRACE_REALLOCARRAY, block, bytes);
}

EXPORT void *memalign(size_t alignment, size_t size) {
    const struct next *next = next_get();
    if (next == NULL) {
        return early_or_fail(alignment, size);
    }
    return begin(TRACE_MEMALIGN, alignment, next->memalign(alignment, size), size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    const struct next *next = next_get();
    if (next == NULL) {
        return early_or_fail(alignment, size);
    }
    return begin(TRACE_ALIGNED_ALLOC, alignment, next->aligned_alloc(alignment, size), size);
}

EXPORT int posix_memalign(void **result, size_t alignment, size_t size) {
    const struct next *next = next_get();
    if (next == NULL) {
        *result = next_early(alignment, size);
        return *result == NULL ? ENOMEM : 0;
    }
    int error = next->posix_memalign(result, alignment, size);
    begin(TRACE_POSIX_MEMALIGN, alignment, error == 0 ? *result : NULL, size);
    return error;
}

EXPORT void *valloc(size_t size) {
    const struct next *next = next_get();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return next == NULL ? early_or_fail(page, size) : begin(TRACE_VALLOC, page, next->valloc(size), size);
}

EXPORT void *pvalloc(size_t size) {
    const struct next *next = next_get();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return next == NULL ? early_or_fail(page, size) : begin(TRACE_PVALLOC, page, next->pvalloc(size), size);
}

__attribute__((destructor)) static void at_exit(void) {
    record_end();
}
