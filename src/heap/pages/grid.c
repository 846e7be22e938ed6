/*
 * grid.c - see grid.h.
 */
#include "heap/pages/grid.h"

/* Newton's method: each step doubles the number of low bits in which odd * inverse equals 1. At first 3 are right. */
static uint16_t odd_inverse(uint32_t odd) {
    uint32_t inverse = odd;
    for (int bits = 3; bits < HZ_PAGE_LOG2; bits *= 2)
        inverse *= 2 - odd * inverse;
    return (uint16_t)inverse;
}

struct hz_grid hz_grid_make(unsigned size_class, unsigned run_pages) {
    uint32_t block_bytes = (uint32_t)hz_class_bytes(size_class);
    unsigned twos = (unsigned)__builtin_ctz(block_bytes);
    unsigned shift = (unsigned)hz_min(twos, HZ_PAGE_LOG2);
    size_t blocks = ((size_t)run_pages << HZ_PAGE_LOG2) / block_bytes;
    return (struct hz_grid){.inverse = odd_inverse(block_bytes >> twos),
                            .places = (uint16_t) ~(hz_class_grid(size_class) - 1),
                            .capacity = (uint16_t)hz_min(blocks, (size_t)HZ_PAGE_BYTES >> shift),
                            .shift = (uint16_t)shift};
}
