/*
 * profile_sites.c - see profile_sites.h.
 */
#include "base/profile/profile_sites.h"

#include "base/lists/growing.h"

#include <string.h>

enum {
    SITES_BYTES = 64 << 20,
    ADDRESSES_BYTES = 256 << 20,
    SITE_BUCKETS = 1 << 15,
};

static struct {
    struct hz_growing sites;     /* lock: the profile's, all but what a site says of itself */
    struct hz_growing addresses; /* as above */
    uint32_t site_count;
    uint32_t address_count;
    uint32_t buckets[SITE_BUCKETS]; /* number of a site; 0: none */
} site_tables;

bool hz_profile_sites_make(size_t share) {
    if (hz_growing_make(&site_tables.sites, SITES_BYTES / share) &&
        hz_growing_make(&site_tables.addresses, ADDRESSES_BYTES / share))
        return true;
    hz_profile_sites_drop();
    return false;
}

void hz_profile_sites_drop(void) {
    hz_growing_drop(&site_tables.sites);
    hz_growing_drop(&site_tables.addresses);
}

struct hz_profile_site *hz_profile_site_at(uint32_t number) {
    return (struct hz_profile_site *)(void *)site_tables.sites.start + (number - 1);
}

static const void **address_at(uint32_t number) {
    return (const void **)(void *)site_tables.addresses.start + number;
}

struct hz_profile_stack hz_profile_site_stack(const struct hz_profile_site *site) {
    return (struct hz_profile_stack){.depth = site->depth, .addresses = address_at(site->first)};
}

uint32_t hz_profile_site_count_locked(void) {
    return site_tables.site_count;
}

/* FNV-1a over words instead of bytes, and a last mix. */
uint64_t hz_profile_hash(const struct hz_profile_stack *stack, size_t weight) {
    uint64_t hash = UINT64_C(0xCBF29CE484222325) ^ weight;
    for (uint32_t i = 0; i < stack->depth; i++)
        hash = (hash ^ (uintptr_t)stack->addresses[i]) * UINT64_C(0x100000001B3);
    return hash ^ hash >> 29;
}

static bool is_site_of(const struct hz_profile_site *site, const struct hz_profile_stack *stack, size_t weight,
                       uint64_t hash) {
    return site->hash == hash && site->weight == weight && site->depth == stack->depth &&
           memcmp(address_at(site->first), stack->addresses, stack->depth * sizeof(void *)) == 0;
}

static uint32_t site_add_locked(const struct hz_profile_stack *stack, size_t weight, uint64_t hash) {
    uint32_t number = site_tables.site_count + 1;
    uint32_t first = site_tables.address_count;
    if (!hz_growing_reach_locked(&site_tables.sites, number * sizeof(struct hz_profile_site)) ||
        !hz_growing_reach_locked(&site_tables.addresses, (first + stack->depth) * sizeof(void *)))
        return 0;
    memcpy(address_at(first), stack->addresses, stack->depth * sizeof(void *));
    site_tables.address_count += stack->depth;
    uint32_t *bucket = &site_tables.buckets[hash % SITE_BUCKETS];
    struct hz_profile_site *site = hz_profile_site_at(number);
    *site = (struct hz_profile_site){
        .weight = weight, .hash = hash, .first = first, .depth = stack->depth, .next = *bucket};
    hz_signal_fence();
    site_tables.site_count = number;
    hz_signal_fence(); /* fork: a child must not make a site with a number that a bucket has */
    *bucket = number;
    return number;
}

uint32_t hz_profile_site_get_locked(const struct hz_profile_stack *stack, size_t weight, uint64_t hash) {
    uint32_t number = site_tables.buckets[hash % SITE_BUCKETS];
    while (number != 0 && !is_site_of(hz_profile_site_at(number), stack, weight, hash))
        number = hz_profile_site_at(number)->next;
    return number != 0 ? number : site_add_locked(stack, weight, hash);
}
