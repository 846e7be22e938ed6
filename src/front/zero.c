/*
 * zero.c - see zero.h. A bit for each address says whether it is in use. Addresses are handed out in a circle, so that
 * one that was given back is used again late.
 */
#include "front/zero.h"

#include "base/os/atomic.h"
#include "base/os/os.h"
#include "heap/misuse.h"

enum {
    GRANULE = 16,
    RANGE_BYTES = 1 << 20,
    COUNT = RANGE_BYTES / GRANULE,
};

static _Atomic(char *) range_base;           /* cas; only an address: nothing is behind it */
static _Atomic(uint64_t) in_use[COUNT / 64]; /* relaxed: the program orders a free after its malloc */
static _Atomic(uint32_t) next_index;         /* hint */

static char *range_get(void) {
    char *made = hz_load_rlx(&range_base); /* relaxed: only an address */
    if (made != NULL)
        return made;
    char *fresh = hz_os_reserve(RANGE_BYTES, RANGE_BYTES);
    if (fresh == NULL || hz_cas_strong_acq_rlx(&range_base, &made, fresh)) /* cas */
        return fresh;
    (void)hz_os_unmap(fresh, RANGE_BYTES); /* another thread was quicker. If refused, address space is lost */
    return made;
}

void *hz_zero_alloc(void) {
    char *base = range_get();
    if (base == NULL)
        return NULL;
    for (uint32_t tries = 0; tries < COUNT; tries++) {
        uint32_t index = hz_add_rlx(&next_index, 1) % COUNT; /* relaxed: hint */
        uint64_t bit = UINT64_C(1) << (index % 64);
        if ((hz_or_rlx(&in_use[index / 64], bit) & bit) == 0) /* relaxed: the program orders */
            return base + (size_t)index * GRANULE;
    }
    return NULL;
}

bool hz_zero_has(const void *block) {
    char *base = hz_load_rlx(&range_base); /* relaxed: only an address */
    return base != NULL && (uintptr_t)block - (uintptr_t)base < RANGE_BYTES;
}

bool hz_zero_free(const void *block, const char *function) {
    if (!hz_zero_has(block))
        return false;
    uintptr_t offset = (uintptr_t)block % RANGE_BYTES;
    uint64_t bit = UINT64_C(1) << (offset / GRANULE % 64);
    if (offset % GRANULE != 0)
        hz_misuse(HZ_TEXT_INTERIOR, block, function);
    if ((hz_and_rlx(&in_use[offset / GRANULE / 64], ~bit) & bit) == 0) /* relaxed: the program orders */
        hz_misuse(HZ_TEXT_DOUBLE_FREE, block, function);
    return true;
}
