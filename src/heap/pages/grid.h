/*
 * grid.h - where in an arena page the blocks of a class can begin, without a look at the page's description. Pure
 * functions; any thread.
 */
#ifndef HZ_HEAP_PAGES_GRID_H
#define HZ_HEAP_PAGES_GRID_H

#include "heap/class_policy.h"
#include "heap/seal.h"

/* Where the places of blocks of 2^shift times an odd number of bytes are in the run's pages. */
struct hz_grid {
    uint16_t inverse;  /* of the odd number, modulo 2^16 */
    uint16_t places;   /* the bits of an offset that tell places apart (base/arena/spread.h) */
    uint16_t capacity; /* different offsets in a page, at most one for each block of the run */
    uint16_t shift;    /* 4..16: all sizes are multiples of HZ_GRANULE_BYTES */
};

_Static_assert(HZ_PAGE_LOG2 == 16, "hz_grid_number treats an offset in a page as a number modulo 2^16");

/* Makes known the grid of a class whose runs have `run_pages` arena pages, for the two functions below. Once for each
 * class, before the first page is made. */
void hz_grid_set(unsigned size_class, unsigned run_pages);

/* Whether the address, or each of the addresses, looks like the start of a block of the class. These read no page
   description: in a class whose runs are longer than a page, what is right in one page of a run passes in all of them.
   The second one also finds addresses that are too high to be ours. */
bool hz_class_may_have_start(unsigned size_class, const void *address);
bool hz_class_may_have_starts(unsigned size_class, void *const *addresses, uint32_t count);

/* The bits that are 0 in the distance of each block of the class from its place. If blocks begin at their places: all.
 */
HZ_INLINE uint32_t hz_grid_wrong_bits(unsigned size_class) {
    size_t grid = HZ_BLOCKS_SEALED ? 1 : hz_class_grid(size_class);
    return grid == 1 ? UINT32_MAX : ~(uint32_t)(grid - HZ_SPREAD_STEP);
}

/* Divides the offset of a block's place in an arena page by the bytes of a block, modulo 2^16. `offset`: of the place,
   or of a byte less than hz_class_grid behind it. Multiplying by the inverse divides by the odd number; the rotation
   divides by 2^shift. Both map the 2^16 possible values one to one. The places of blocks yield all results below the
   capacity, so no other address yields one of these. In a run of several pages an offset that is right for one page can
   be wrong for another. */
HZ_INLINE uint16_t hz_grid_number(struct hz_grid grid, uint16_t offset) {
    uint16_t product = (uint16_t)((offset & grid.places) * (uint32_t)grid.inverse);
    return (uint16_t)(product >> grid.shift | product << (HZ_PAGE_LOG2 - grid.shift));
}

#endif
