/*
 * next.h - the malloc family behind the recorder's, and memory for calls that come too early for it.
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

/* NULL while the functions are being looked up (the dynamic linker may allocate for that) and before the C library
   has its environment: then next_early serves. Any thread. */
const struct next *next_get(void);

/* Zeroed memory that is never reused and never recorded; NULL when the little there is has been used up. */
void *next_early(size_t alignment, size_t size);

bool next_is_early(const void *block);

/* The size that was asked for. */
size_t next_early_size(const void *block);

#endif /* TRACE_NEXT_H */
