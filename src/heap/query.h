/*
 * query.h - what can be asked about an address. Any thread; takes no lock.
 */
#ifndef HZ_HEAP_QUERY_H
#define HZ_HEAP_QUERY_H

#include "base/profile/profile.h"
#include "heap/misuse.h"
#include "heap/sizeclass.h"

/* The class of a block, or HZ_CLASS_LARGE, by its page tag. Ends the program if the page is not ours. `function`: one
   of HZ_IN_*, names the calling function. */
unsigned hz_query_class(const void *block, const char *function);

/* Ends the program, as above, if the heap profile found no live block at an address of its pool. */
void hz_query_profiled(const void *block, enum hz_profile_answer answer, const char *function);

/* Usable bytes of a live block. Ends the program as above. */
size_t hz_query_usable(const void *block, const char *function);

/* How far a live block begins behind its place (base/arena/spread.h): so many bytes more than are usable were taken for
 * it.
 */
size_t hz_query_offset(const void *block);

/* Bytes of a block for `size` from its place on; 0 when no block can be that large. */
size_t hz_query_bytes_for(size_t size);

/* Usable bytes that each such block has, wherever it begins; 0 as above. */
size_t hz_query_good_size(size_t size);

/* Start of the memory of the block, live or free, that an address lies in; NULL when it lies in no block of ours. */
const void *hz_query_place(const void *address);

/* Whether an address lies in such a block, but is none at which the block can begin. */
bool hz_query_is_inside(const void *address);

#endif
