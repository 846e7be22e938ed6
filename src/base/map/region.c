/*
 * region.c - see region.h.
 *
 * Only the thread that has taken a unit's free bit changes the unit's bit in `accessible_units`; the free bit publishes
 * it (run-release).
 */
#include "base/map/region.h"

#include "base/map/space.h"
#include "base/os/os.h"

enum { TABLE_WORDS = 4 }; /* for each region, beside the runmap */

struct hz_runmap hz_region_units;

static uint32_t regions_max;                /* const after init */
static _Atomic(uintptr_t) *region_bases;    /* const after publish */
static _Atomic(uint64_t) *accessible_units; /* owner: the thread that has taken the unit's free bit */
static _Atomic(uint64_t) *once_units;       /* owner: the same; units that were accessible at some time */
static _Atomic(uint64_t) *hole_units;       /* counter: bits of units that are taken, and to be mapped again */
static _Atomic(uint32_t) region_count;      /* hint; written under the lock of the caller of hz_region_add_locked */

enum { EDGES_MAX = 4096 }; /* a process has 65,530 mappings, most of which the program should have */

static _Atomic(size_t) edges; /* counter: where accessible units meet others, so mappings; modulo 2^64 */

static _Atomic(uint32_t) vacant_count; /* hint; regions that were unmapped, whose base is 0 */

static char *unit_address(uint32_t region, unsigned unit) {
    /* sync: run-release, partner hz_region_add_locked, through the claimed unit */
    return (char *)hz_load_rlx(&region_bases[region]) + ((size_t)unit << HZ_UNIT_LOG2);
}

static unsigned unit_of(const char *address) {
    return (unsigned)((uintptr_t)address >> HZ_UNIT_LOG2) % HZ_REGION_UNITS;
}

/* Units have become accessible, or inaccessible. */
static void edges_count(uint64_t before, uint64_t after) {
    hz_add_rlx(&edges,
               (size_t)hz_bits_count(after ^ after << 1) - hz_bits_count(before ^ before << 1)); /* relaxed: counter */
}

/* Makes neighbouring units that the caller has claimed inaccessible. That gives their memory back, and ends what the
   program has told the kernel about it. False when refused: one mapping may become three, and their number is limited.
 */
static bool units_close(uint32_t region, uint64_t bits) {
    char *start = unit_address(region, (unsigned)__builtin_ctzll(bits));
    size_t bytes = (size_t)hz_bits_count(bits) << HZ_UNIT_LOG2;
    if (!hz_os_close(start, bytes))
        return false;
    hz_os_hide(start, bytes); /* a new mapping is in core files, and has no name */
    hz_os_name(start, bytes, HZ_NAME_BLOCKS);
    uint64_t before = hz_and_rlx(&accessible_units[region], ~bits); /* relaxed: owner of the units' bits */
    edges_count(before, before & ~bits);
    return true;
}

static bool units_give_back(uint32_t region, uint64_t bits, bool anew) {
    (void)anew; /* closed units are mapped anew in either case */
    char *start = unit_address(region, (unsigned)__builtin_ctzll(bits));
    return (hz_load_rlx(&edges) < EDGES_MAX && units_close(region, bits)) || /* relaxed: counter */
           hz_os_purge(start, (size_t)hz_bits_count(bits) << HZ_UNIT_LOG2);
}

size_t hz_region_table_bytes(uint32_t most) {
    return hz_runmap_bytes(most) + (size_t)most * TABLE_WORDS * sizeof(uint64_t);
}

void hz_region_init(void *memory, uint32_t most) {
    regions_max = most;
    region_bases = memory;
    accessible_units = (_Atomic(uint64_t) *)memory + most;
    once_units = accessible_units + most;
    hole_units = once_units + most;
    hz_runmap_init(&hz_region_units, hole_units + most, most, units_give_back);
}

const void *hz_region_table(size_t *bytes) {
    *bytes = hz_region_table_bytes(regions_max);
    return region_bases;
}

void hz_regions_walk(void (*visit)(void *context, const void *memory, size_t bytes), void *context) {
    for (uint32_t region = hz_region_count(); region-- > 0;) {
        uintptr_t base = hz_load_rlx(&region_bases[region]); /* relaxed: nobody adds one */
        if (base != 0)
            visit(context, (const void *)base, HZ_REGION_BYTES); /* NOLINT(performance-no-int-to-ptr) */
    }
}

uint32_t hz_region_count(void) {
    return hz_load_rlx(&region_count); /* relaxed: hint, or one thread */
}

bool hz_region_add_locked(char *base) {
    uint32_t count = hz_load_rlx(&region_count); /* relaxed, all: lock; hz_runmap_add publishes the base */
    uint32_t region = hz_load_rlx(&vacant_count) > 0 ? 0 : count;
    /* sync: region-vacant, partner region_unmap */
    while (region < count && hz_load_acq(&region_bases[region]) != 0)
        region++;
    if (region == regions_max)
        return false;
    hz_store_rlx(&region_bases[region], (uintptr_t)base);
    hz_signal_fence(); /* fork: the region is complete before it counts */
    if (region < count)
        hz_sub_rlx(&vacant_count, 1);
    else
        hz_store_rlx(&region_count, region + 1);
    hz_runmap_add(&hz_region_units, region); /* sync: run-release, partner unit_address */
    return true;
}

/* Makes claimed units accessible. */
static bool open_units(uint32_t region, uint64_t bits) {
    uint64_t closed = bits & ~hz_load_rlx(&accessible_units[region]); /* relaxed, both: owner of the units' bits */
    if (closed == 0)
        return true;
    /* relaxed: owner of the units' bits */
    if (hz_space_limit_is_near() && (closed & ~hz_load_rlx(&once_units[region])) != 0)
        return false;
    unsigned first = (unsigned)__builtin_ctzll(closed);
    unsigned last = 63 - (unsigned)__builtin_clzll(closed);
    if (!hz_os_commit(unit_address(region, first), (size_t)(last - first + 1) << HZ_UNIT_LOG2))
        return false;
    hz_os_show(unit_address(region, first), (size_t)(last - first + 1) << HZ_UNIT_LOG2);
    uint64_t before = hz_or_rlx(&accessible_units[region], closed);
    edges_count(before, before | closed);
    hz_or_rlx(&once_units[region], closed);
    return true;
}

/* Gives claimed units back of which `dirty` may hold memory. */
static void units_put(uint32_t region, uint64_t bits, uint64_t dirty) {
    hz_runmap_clean(&hz_region_units, region, bits & ~dirty);
    hz_runmap_release(&hz_region_units, region, bits);
}

char *hz_region_claim(unsigned units, unsigned align, struct hz_claim *claim, bool *is_full) {
    *is_full = !hz_runmap_claim(&hz_region_units, units, align, true, claim);
    if (*is_full)
        return NULL;
    if (open_units(claim->index, claim->bits))
        return unit_address(claim->index, claim->first);
    units_put(claim->index, claim->bits, claim->dirty);
    return NULL;
}

bool hz_region_grow(uint32_t region, const char *base, unsigned units, unsigned more) {
    unsigned first = unit_of(base) + units;
    struct hz_claim claim;
    if (first + more > HZ_REGION_UNITS ||
        !hz_runmap_claim_bits(&hz_region_units, region, hz_run_bits(first, more), &claim))
        return false;
    if (open_units(region, claim.bits))
        return true;
    units_put(region, claim.bits, claim.dirty);
    return false;
}

/* Closes altered units. If that is refused, they must at least be accessible: the program may have ended that. */
static bool units_heal(uint32_t region, char *start, unsigned units, uint64_t bits) {
    if (units_close(region, bits)) {
        hz_runmap_clean(&hz_region_units, region, bits);
        return true;
    }
    (void)hz_os_purge(start, (size_t)units << HZ_UNIT_LOG2);
    return hz_os_commit(start, (size_t)units << HZ_UNIT_LOG2);
}

void hz_region_release(uint32_t region, char *start, unsigned units, bool is_altered) {
    uint64_t bits = hz_run_bits(unit_of(start), units);
    if (!is_altered || units_heal(region, start, units, bits)) /* else address space is lost */
        hz_runmap_release(&hz_region_units, region, bits);
}

/* Neighbouring ones, beginning with the lowest. */
static uint64_t lowest_run(uint64_t bits) {
    unsigned first = (unsigned)__builtin_ctzll(bits);
    uint64_t after = ~(bits >> first);
    return hz_run_bits(first, after == 0 ? 64 - first : (unsigned)__builtin_ctzll(after));
}

static void hole_fill(uint32_t region, uint64_t bits) {
    char *start = unit_address(region, (unsigned)__builtin_ctzll(bits));
    size_t bytes = (size_t)hz_bits_count(bits) << HZ_UNIT_LOG2;
    if (hz_os_fill(start, bytes)) {
        hz_os_name(start, bytes, HZ_NAME_BLOCKS);
        units_put(region, bits, 0);
        return;
    }
    hz_or_rlx(&hole_units[region], bits); /* relaxed: the units stay taken; whoever takes their bits fills them */
}

void hz_region_release_hole(uint32_t region, char *start, unsigned units) {
    hole_fill(region, hz_run_bits(unit_of(start), units));
}

static void holes_fill(uint32_t region) {
    uint64_t holes = hz_load_rlx(&hole_units[region]) != 0 ? hz_xchg_ar(&hole_units[region], 0) : 0; /* relaxed: hint */
    while (holes != 0) {
        uint64_t run = lowest_run(holes);
        holes &= ~run;
        hole_fill(region, run);
    }
}

/* Unmaps a region if none of its units is in use. */
static bool region_unmap(uint32_t region) {
    struct hz_claim claim;
    if (!hz_runmap_claim_bits(&hz_region_units, region, UINT64_MAX, &claim))
        return false;
    if (!hz_os_unmap(unit_address(region, 0), HZ_REGION_BYTES)) {
        units_put(region, UINT64_MAX, claim.dirty);
        return false;
    }
    hz_runmap_remove(&hz_region_units, region);
    edges_count(hz_load_rlx(&accessible_units[region]), 0); /* relaxed, all: owner of the units' bits */
    hz_store_rlx(&accessible_units[region], 0);
    hz_store_rlx(&once_units[region], 0);
    hz_store_rel(&region_bases[region], 0); /* sync: region-vacant, partner hz_region_add_locked */
    hz_add_rlx(&vacant_count, 1);           /* relaxed: hint */
    return true;
}

static size_t free_close(uint32_t region) {
    size_t bytes = 0;
    for (;;) { /* one run of free accessible units after the other */
        /* relaxed, both: hints, checked by the claim */
        uint64_t bits = hz_load_rlx(&hz_region_units.free_masks[region]) & hz_load_rlx(&accessible_units[region]);
        if (bits == 0)
            break;
        uint64_t run = lowest_run(bits);
        struct hz_claim claim;
        if (!hz_runmap_claim_bits(&hz_region_units, region, run, &claim))
            continue;
        size_t run_bytes = (size_t)hz_bits_count(run) << HZ_UNIT_LOG2;
        bool done = units_close(region, run);
        bytes += done ? run_bytes : 0;
        units_put(region, run, done ? 0 : claim.dirty);
        if (!done)
            break;
    }
    return bytes;
}

size_t hz_region_withdraw(void) {
    size_t bytes = 0;
    uint32_t regions = hz_region_count();
    bool can_end = regions > 0 && !hz_space_limit_is_near(); /* the limit has counted all of a region */
    for (uint32_t region = 0; region < regions; region++) {
        holes_fill(region);
        bytes += can_end && region_unmap(region) ? HZ_REGION_BYTES : free_close(region);
    }
    return bytes;
}

/* Whether all units are free, but for those in holes, and hold no memory. Hint. */
static bool region_is_idle(uint32_t region) {
    uint64_t free_units = hz_load_rlx(&hz_region_units.free_masks[region]); /* relaxed, all: hints */
    uint64_t resting = free_units & hz_load_rlx(&hz_region_units.dirty_masks[region]);
    return (free_units | hz_load_rlx(&hole_units[region])) == UINT64_MAX && resting == 0;
}

size_t hz_region_trim(void) {
    size_t bytes = 0;
    uint32_t regions = hz_region_count();
    bool can_end = regions > 0 && !hz_space_limit_is_near(); /* the limit has counted all of a region */
    for (uint32_t region = 0; can_end && region < regions; region++) {
        if (!region_is_idle(region))
            continue;
        holes_fill(region);
        bytes += region_unmap(region) ? HZ_REGION_BYTES : 0;
    }
    return bytes;
}

void hz_regions_show(void) {
    uint32_t regions = hz_region_count();
    for (uint32_t region = 0; region < regions; region++) {
        char *base = (char *)hz_load_acq(&region_bases[region]); /* sync: region-vacant, partner hz_region_add_locked */
        if (base != NULL)
            hz_os_show(base, HZ_REGION_BYTES);
    }
}

void hz_region_close_free(void) {
    uint32_t regions = hz_region_count();
    for (uint32_t region = 0; region < regions && hz_load_rlx(&edges) < EDGES_MAX; region++) /* relaxed: counter */
        (void)free_close(region);
}
