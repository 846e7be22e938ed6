/*
 * next.h - the malloc family that the recorder calls, and memory for calls that come before it can be found.
 */
#ifndef TRACE_NEXT_H
#define TRACE_NEXT_H

#include <stdbool.h>
#include <stddef.h>

struct next {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*memalign)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    void (*free)(void *);
};

/* Any thread. NULL while the functions are being looked up (the dynamic linker may allocate meanwhile), and before the
   C library has set up `environ`; the caller then uses next_early. */
const struct next *next_get(void);

/* Zeroed memory that is never reused and never recorded; NULL when its fixed amount is used up. */
void *next_early(size_t alignment, size_t size);

bool next_is_early(const void *block);

/* The size that next_early was called with. */
size_t next_early_size(const void *block);

#endif /* TRACE_NEXT_H */
