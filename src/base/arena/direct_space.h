/*
 * direct_space.h - address space for direct blocks: units of a region, or a mapping of its own. Any thread.
 */
#ifndef HZ_BASE_ARENA_DIRECT_SPACE_H
#define HZ_BASE_ARENA_DIRECT_SPACE_H

#include "base/arena/arena_state.h"
#include "base/map/region.h"
#include "base/os/compiler.h"

HZ_INLINE unsigned hz_direct_units(size_t bytes) {
    return (unsigned)((bytes + HZ_UNIT_BYTES - 1) >> HZ_UNIT_LOG2);
}

/* Whether a block of so many bytes is mapped alone. */
HZ_INLINE bool hz_direct_is_alone(size_t bytes) {
    return bytes >= hz_load_rlx(&hz_arena.alone_bytes); /* relaxed: hint */
}

/* Space for a block at a multiple of `alignment`; NULL when the OS refuses. *region: 1 + the number of its region, 0 if
   it is mapped alone; then *claim has no units. Can take the arena lock. */
char *hz_direct_space(size_t bytes, size_t alignment, struct hz_claim *claim, uint32_t *region);

/* Gives it back. Its units rest, unless the program has told the kernel something about them. */
void hz_direct_space_release(char *base, size_t bytes, uint32_t region, bool is_altered);

#endif
