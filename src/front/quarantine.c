/*
 * quarantine.c - see quarantine.h.
 *
 * The places are in groups, each with a lock. A thread never waits for one: where another thread is in the group, or a
 * fork has left it locked in a child, the block leaves at once.
 */
#include "front/quarantine.h"

#include "base/lists/lock.h"
#include "base/os/os.h"

enum {
    GROUP_PLACES = 64,
    SMALL_GROUPS = 24, /* the first groups are for small blocks, */
    MID_GROUPS = 6,    /* the next ones for those up to MID_BYTES, the rest for longer ones */
    ALL_GROUPS = 32,
    SMALL_BYTES = 1024,
    MID_BYTES = 64 * 1024,
};

struct group {
    struct hz_lock lock;        /* a leaf */
    void *places[GROUP_PLACES]; /* lock: lock */
};

static struct group groups[ALL_GROUPS];
static HZ_TLS uint64_t random_state; /* owner; 0 before the first draw */
static HZ_TLS uint32_t newest_place; /* owner; its number counts through all groups */
static HZ_TLS void *newest_block;    /* owner */

/* A xorshift generator (Marsaglia 2003), a sequence for each thread. */
static uint32_t draw(uint32_t below) {
    if (random_state == 0)
        random_state = hz_os_seed() ^ (uintptr_t)&random_state;
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 32) * below >> 32);
}

/* Puts `block` into a place and returns what was there; `block` itself if the group cannot be entered. */
static void *place_swap(uint32_t place, void *block) {
    struct group *group = &groups[place / GROUP_PLACES];
    if (!hz_lock_try_acquire(&group->lock))
        return block;
    void *before = group->places[place % GROUP_PLACES];
    group->places[place % GROUP_PLACES] = block;
    hz_lock_release(&group->lock);
    return before;
}

void *hz_quarantine_put(void *block, size_t bytes) {
    uint32_t place;
    if (bytes <= SMALL_BYTES)
        place = draw(SMALL_GROUPS * GROUP_PLACES);
    else if (bytes <= MID_BYTES)
        place = SMALL_GROUPS * GROUP_PLACES + draw(MID_GROUPS * GROUP_PLACES);
    else
        place =
            (SMALL_GROUPS + MID_GROUPS) * GROUP_PLACES + draw((ALL_GROUPS - SMALL_GROUPS - MID_GROUPS) * GROUP_PLACES);
    newest_place = place;
    newest_block = block;
    return place_swap(place, block);
}

void *hz_quarantine_take(void) {
    for (uint32_t place = 0; place < ALL_GROUPS * GROUP_PLACES; place++) {
        void *block = place_swap(place, NULL);
        if (block != NULL)
            return block;
    }
    return NULL;
}

void *hz_quarantine_take_newest(void) {
    void *block = newest_block;
    if (block == NULL)
        return NULL;
    newest_block = NULL;
    struct group *group = &groups[newest_place / GROUP_PLACES];
    if (!hz_lock_try_acquire(&group->lock))
        return NULL;
    void **place = &group->places[newest_place % GROUP_PLACES];
    bool is_there = *place == block; /* the same address cannot have come again: the block is not in use */
    if (is_there)
        *place = NULL;
    hz_lock_release(&group->lock);
    return is_there ? block : NULL;
}

void hz_quarantine_walk(void *context, void (*visit)(void *context, const void *block)) {
    for (uint32_t place = 0; place < ALL_GROUPS * GROUP_PLACES; place++)
        visit(context, groups[place / GROUP_PLACES].places[place % GROUP_PLACES]);
}
