/*
 * sizeclass.c - the one question about size classes that needs a search.
 */
#include "heap/sizeclass.h"

unsigned hz_class_of_aligned(size_t size, size_t alignment) {
    if (size > HZ_CLASS_BYTES_MAX || alignment > HZ_PAGE_BYTES)
        return HZ_CLASS_NONE;
    size_t wanted = hz_round_up(size == 0 ? 1 : size, alignment);
    if (wanted > HZ_CLASS_BYTES_MAX)
        return HZ_CLASS_NONE;
    /* the search is short, since each doubling ends with a power of two */
    for (unsigned size_class = hz_class_of(wanted); size_class < HZ_CLASS_COUNT; size_class++)
        if ((hz_class_bytes(size_class) & (alignment - 1)) == 0)
            return size_class;
    return HZ_CLASS_NONE;
}
