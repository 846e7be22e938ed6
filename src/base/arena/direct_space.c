/*
 * direct_space.c - see direct_space.h.
 */
#include "base/arena/direct_space.h"

#include "base/arena/arena_dump.h"
#include "base/arena/arena_state.h"
#include "base/map/direct_cache.h"
#include "base/map/huge.h"
#include "base/map/pagetag.h"
#include "base/map/space.h"
#include "base/os/os.h"

enum { REGION_ALIGN_MAX = 16 << 20 }; /* for a larger alignment no region is added: few such blocks would fit into it */

/* Adds a region, unless another thread has done so since the caller read `seen_count`. Not where address space is
   limited: a region takes 256 MiB of it, and rounds blocks up to units. */
static bool region_add(uint32_t seen_count) {
    if (hz_space_is_scarce() || hz_space_limit_is_near())
        return false;
    hz_lock_acquire(&hz_arena.lock);
    bool done = hz_region_count() != seen_count;
    if (!done) {
        char *base = hz_space_get_locked(HZ_REGION_BYTES, HZ_REGION_BYTES, false);
        hz_dump_reserved(base, base != NULL ? HZ_REGION_BYTES : 0);
        done = base != NULL && hz_space_tables_open_locked(base, HZ_REGION_BYTES) && hz_region_add_locked(base);
        if (base != NULL && !done)
            (void)hz_os_unmap(base, HZ_REGION_BYTES); /* if refused, address space is lost */
    }
    hz_lock_release(&hz_arena.lock);
    return done;
}

/* Units for a block; NULL when the OS refuses, or such blocks are mapped alone. */
static char *region_space(size_t bytes, size_t alignment, struct hz_claim *claim) {
    if (hz_arena.tight || hz_direct_is_alone(bytes) || alignment > HZ_REGION_BYTES)
        return NULL;
    for (;;) {
        uint32_t seen_count = hz_region_count();
        bool is_full;
        char *base = hz_region_claim(hz_direct_units(bytes), hz_direct_units(alignment), claim, &is_full);
        if (base != NULL || !is_full || alignment > REGION_ALIGN_MAX || !region_add(seen_count))
            return base;
    }
}

/* A mapping of its own. */
static char *alone_space(size_t bytes, size_t alignment) {
    hz_lock_acquire(&hz_arena.lock);
    char *base = hz_space_get_locked(bytes, alignment, true);
    if (base != NULL && !hz_space_tables_open_locked(base, HZ_PAGE_BYTES)) {
        (void)hz_os_unmap(base, bytes); /* if refused, address space is lost, but no memory */
        base = NULL;
    }
    hz_lock_release(&hz_arena.lock);
    if (base != NULL)
        hz_os_name(base, bytes, HZ_NAME_BLOCKS);
    return base;
}

char *hz_direct_space(size_t bytes, size_t alignment, struct hz_claim *claim, uint32_t *region) {
    *claim = (struct hz_claim){.index = 0};
    *region = 0;
    bool is_huge = hz_huge_block_is_wanted(bytes, (hz_runmap_resting(&hz_region_units) << HZ_UNIT_LOG2) +
                                                      hz_direct_cache_unit_bytes());
    char *base = is_huge ? alone_space(bytes, alignment) : NULL;
    if (base != NULL)
        return base;
    base = region_space(bytes, alignment, claim);
    *region = base != NULL ? claim->index + 1 : 0;
    if (base != NULL)
        return base;
    *claim = (struct hz_claim){.index = 0};
    return is_huge ? NULL : alone_space(bytes, alignment);
}

void hz_direct_space_release(char *base, size_t bytes, uint32_t region, bool is_altered) {
    if (region != 0)
        hz_region_release(region - 1, base, hz_direct_units(bytes), is_altered);
    else if (!hz_os_unmap(base, bytes))
        (void)hz_os_purge(base, bytes); /* too many mappings to split one: address space is lost, but no memory */
}
