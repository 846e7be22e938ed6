/*
 * profile_sites.h - the sites of the heap profile: where sampled blocks were allocated, and how much.
 *
 * A site is a call stack together with a weight, the bytes with which its blocks count in the sampling. All blocks of a
 * site were sampled with the same probability, so the site's exact sums can be scaled to unbiased estimates by a
 * reader. Sites are never removed. Memory comes from tables of their own, not from the heap.
 */
#ifndef HZ_BASE_PROFILE_PROFILE_SITES_H
#define HZ_BASE_PROFILE_PROFILE_SITES_H

#include "base/os/atomic.h"
#include "base/os/compiler.h"

enum { HZ_PROFILE_DEPTH = 64 }; /* calls of a call stack that are kept, the innermost ones */

struct hz_profile_stack {
    uint32_t depth;
    const void *const *addresses; /* return addresses, the innermost first */
};

struct hz_profile_site {
    size_t weight;                      /* const after publish */
    uint64_t hash;                      /* const after publish */
    uint32_t first;                     /* const after publish; number of its first address */
    uint32_t depth;                     /* const after publish */
    uint32_t next;                      /* const after publish; number of another site of its bucket */
    _Atomic(uint64_t) allocated_blocks; /* counter, all */
    _Atomic(uint64_t) allocated_bytes;  /* as requested */
    _Atomic(uint64_t) freed_blocks;
    _Atomic(uint64_t) freed_bytes;
    _Atomic(uint64_t) passed_blocks; /* of those freed: freed by another thread than the one that allocated them */
    _Atomic(uint64_t) passed_bytes;
};

/* Reserves the tables; `share`: 1, or a power of two to make them smaller. False when there is no address space. */
bool hz_profile_sites_make(size_t share);
void hz_profile_sites_drop(void);

/* The hash of a site. */
uint64_t hz_profile_hash(const struct hz_profile_stack *stack, size_t weight);

/* The number of the site with this call stack and weight, which is made if necessary; 0 when there is no memory. Under
   the profile's lock. */
uint32_t hz_profile_site_get_locked(const struct hz_profile_stack *stack, size_t weight, uint64_t hash);

/* Sites so far. They have the numbers 1 to this. Under the profile's lock. */
uint32_t hz_profile_site_count_locked(void);

/* A site by its number, which the thread has got under the profile's lock. Any thread. */
struct hz_profile_site *hz_profile_site_at(uint32_t number);

/* A site's call stack. Any thread. */
struct hz_profile_stack hz_profile_site_stack(const struct hz_profile_site *site);

#endif
