/*
 * grid.c - see grid.h.
 */
#include "heap/pages/grid.h"

#include "base/arena/spread.h"
#include "base/map/pagetag.h"

static struct hz_grid grids[HZ_CLASS_COUNT]; /* const after publish */

/* Newton's method: each step doubles the number of low bits in which odd * inverse equals 1. At first 3 are right. */
static uint16_t odd_inverse(uint32_t odd) {
    uint32_t inverse = odd;
    for (int bits = 3; bits < HZ_PAGE_LOG2; bits *= 2)
        inverse *= 2 - odd * inverse;
    return (uint16_t)inverse;
}

static struct hz_grid grid_make(unsigned size_class, unsigned run_pages) {
    uint32_t block_bytes = (uint32_t)hz_class_bytes(size_class);
    unsigned twos = (unsigned)__builtin_ctz(block_bytes);
    unsigned shift = (unsigned)hz_min(twos, HZ_PAGE_LOG2);
    size_t blocks = ((size_t)run_pages << HZ_PAGE_LOG2) / block_bytes;
    return (struct hz_grid){.inverse = odd_inverse(block_bytes >> twos),
                            .places = (uint16_t) ~(hz_class_grid(size_class) - 1),
                            .capacity = (uint16_t)hz_min(blocks, (size_t)HZ_PAGE_BYTES >> shift),
                            .shift = (uint16_t)shift};
}

void hz_grid_set(unsigned size_class, unsigned run_pages) {
    grids[size_class] = grid_make(size_class, run_pages);
}

/* Whether a block can begin at the address, which lies so far behind its place: less than the class's grid. */
static bool may_begin_behind(const void *address, size_t behind) {
    return HZ_LIKELY(behind == 0) ||
           (!HZ_BLOCKS_SEALED && hz_spread_may_be(hz_spread_key((const char *)address - behind), behind));
}

bool hz_class_may_have_start(unsigned size_class, const void *address) {
    struct hz_grid grid = grids[size_class];
    size_t behind = (uintptr_t)address & (uint16_t)~grid.places;
    return hz_grid_number(grid, (uint16_t)(uintptr_t)address) < grid.capacity && may_begin_behind(address, behind);
}

enum { GRID_LANES = 8 }; /* lanes of the vectors into which compilers turn the two loops of grid_look */

/* What grid_look has found in the addresses so far, for each vector lane. */
struct grid_look {
    uintptr_t bits[GRID_LANES]; /* of all addresses in the lane */
    uint16_t wrong[GRID_LANES]; /* not 0: one of them is no block's start */
};

static void grid_look(struct grid_look *look, struct hz_grid grid, void *const *addresses) {
    uint16_t offsets[GRID_LANES];
    for (int lane = 0; lane < GRID_LANES; lane++) {
        look->bits[lane] |= (uintptr_t)addresses[lane];
        offsets[lane] = (uint16_t)(uintptr_t)addresses[lane];
    }
    for (int lane = 0; lane < GRID_LANES; lane++)
        look->wrong[lane] |= hz_grid_number(grid, offsets[lane]) >= grid.capacity;
}

bool hz_class_may_have_starts(unsigned size_class, void *const *addresses, uint32_t count) {
    struct hz_grid grid = grids[size_class];
    struct grid_look look = {0};
    uintptr_t bits = 0; /* of all addresses: the tags' mask is one less than a power of two */
    bool all = true;
    for (; count >= GRID_LANES; count -= GRID_LANES, addresses += GRID_LANES)
        grid_look(&look, grid, addresses);
    for (int lane = 0; lane < GRID_LANES; lane++) {
        bits |= look.bits[lane];
        all &= look.wrong[lane] == 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        bits |= (uintptr_t)addresses[i];
        all &= hz_grid_number(grid, (uint16_t)(uintptr_t)addresses[i]) < grid.capacity;
    }
    all &= grid.places == UINT16_MAX || bits % HZ_SPREAD_STEP == 0;
    return all && !hz_pagetag_is_beyond((const void *)bits);
}
