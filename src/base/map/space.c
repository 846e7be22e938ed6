/*
 * space.c - see space.h.
 */
#include "base/map/space.h"

#include "base/lists/table.h"
#include "base/map/pagetag.h"
#include "base/os/os.h"

enum {
    PART_BYTES = 1 << HZ_SPACE_LOG2,
    CHUNK_PARTS = 16, /* as many are reserved in one step */
    COLLISION_TRIES = 8,
    TAG_ROOM_LOG2 = 37,     /* addresses around ours whose tags stay when address space becomes scarce: 8 MiB of tags */
    NEAR_BYTES = 512 << 20, /* a limit that leaves less than this beyond what is mapped is near */
};

struct hz_space_table hz_space_addresses;

static _Atomic(uintptr_t) ever_from; /* sync: segment-publish; what was ever reserved is in [ever_from, ever_to) */
static _Atomic(uintptr_t) ever_to;   /* sync: segment-publish; both change under the arena lock */
static char *reserved_next;          /* lock: the arena's; address space that is reserved and not used yet */
static size_t reserved_parts;        /* lock: the arena's; what is left of it */
static _Atomic(bool) is_scarce;      /* hint; written under the arena lock */
static _Atomic(bool) is_near;        /* hint */
static _Atomic(size_t) limit_of;     /* hint: the limit for which `is_near` was found; 0: none was */

bool hz_space_init(void) {
    /* the mask drops the same high address bits as that of the page tags, so addresses with different entries in this
     * table have different tags */
    hz_space_addresses.mask = hz_pagetags.mask >> (HZ_SPACE_LOG2 - HZ_PAGE_LOG2);
    void *table = hz_space_addresses.entries; /* a retry after a failure keeps what it got */
    if (!hz_table_map(&table, (hz_space_addresses.mask + 1) * sizeof(hz_space_addresses.entries[0]), false))
        return false;
    hz_space_addresses.entries = table;
    hz_store_rlx(&ever_from, (uintptr_t)table); /* relaxed, both: the kernel maps in the neighbourhood */
    hz_store_rlx(&ever_to, (uintptr_t)table);
    return true;
}

static bool address_is_taken(const char *base) {
    /* relaxed: entries are taken under the lock; one that is being cleared only costs another try */
    return hz_load_rlx(hz_space_entry((uintptr_t)base)) != 0;
}

static char *space_get(size_t bytes, size_t alignment, bool open) {
    return open ? hz_os_map(bytes, alignment, false) : hz_os_reserve(bytes, alignment);
}

/* In a small table addresses share entries: space that collides is kept until other space is found, so that the OS does
   not offer it again. */
char *hz_space_get_locked(size_t bytes, size_t alignment, bool open) {
    char *rejected[COLLISION_TRIES];
    size_t rejected_count = 0;
    char *space = space_get(bytes, alignment, open);
    while (space != NULL && (!hz_pagetag_covers(space, bytes) || address_is_taken(space))) {
        rejected[rejected_count++] = space;
        space = rejected_count < COLLISION_TRIES ? space_get(bytes, alignment, open) : NULL;
    }
    while (rejected_count > 0)
        (void)hz_os_unmap(rejected[--rejected_count], bytes); /* if refused, address space is lost, but no memory */
    if (space != NULL) {
        /* relaxed, all: lock; a thread that has a block sees them through the program */
        hz_store_rlx(&ever_from, hz_min(hz_load_rlx(&ever_from), (uintptr_t)space));
        hz_store_rlx(&ever_to, hz_max(hz_load_rlx(&ever_to), (uintptr_t)space + bytes));
    }
    return space;
}

bool hz_space_tables_open_locked(const char *base, size_t bytes) {
    static uint64_t opened[HZ_TABLE_WORDS(sizeof(uint32_t) << (HZ_ADDRESS_BITS - HZ_SPACE_LOG2))];
    const struct hz_table addresses = {.start = (char *)(void *)hz_space_addresses.entries, .opened = opened};
    const void *entry = hz_space_entry((uintptr_t)base);
    return hz_pagetag_open(base, bytes) && hz_table_open_locked(&addresses, entry, entry);
}

bool hz_space_clip(uintptr_t *first, uintptr_t *behind) {
    uintptr_t from = hz_load_rlx(&ever_from), to = hz_load_rlx(&ever_to); /* relaxed, both: hz_space_get_locked */
    if (HZ_LIKELY(*first >= to || *behind <= from))
        return false;
    *first = hz_max(*first, from);
    *behind = hz_min(*behind, to);
    return *first < *behind;
}

/* Whether the OS grants so much more address space. */
static bool can_reserve(size_t bytes) {
    void *probe = hz_os_reserve(bytes, hz_os_page_bytes());
    if (probe != NULL)
        (void)hz_os_unmap(probe, bytes); /* if refused, address space is lost, but no memory */
    return probe != NULL;
}

bool hz_space_can_map(size_t bytes) {
    void *probe = hz_os_map(bytes, hz_os_page_bytes(), false);
    if (probe != NULL)
        (void)hz_os_unmap(probe, bytes); /* as in can_reserve */
    return probe != NULL;
}

/* Finds out, once for each limit, whether it is near. */
static void limit_judge(size_t limit) {
    bool near = limit != SIZE_MAX && limit >= hz_pagetag_bytes() && !can_reserve(NEAR_BYTES);
    hz_store_rlx(&is_near, near); /* relaxed, both: hint. Threads that judge the same limit find the same */
    hz_store_rlx(&limit_of, limit);
}

bool hz_space_limit_is_near(void) {
    if (!hz_pagetags.flat)
        return false;
    if (hz_os_is_unfiltered()) {
        size_t limit = hz_os_address_space_limit();
        if (HZ_UNLIKELY(limit != hz_load_rlx(&limit_of))) /* relaxed, both: hint */
            limit_judge(limit);
    }
    return hz_load_rlx(&is_near);
}

bool hz_space_is_scarce(void) {
    return hz_load_rlx(&is_scarce); /* relaxed: hint */
}

bool hz_space_should_give_up(void) {
    if (!hz_pagetags.flat || hz_space_is_scarce())
        return false;
    if (hz_os_is_unfiltered() && hz_os_address_space_limit() == SIZE_MAX)
        return false;
    if (can_reserve(hz_pagetag_bytes()))
        return false;
    size_t limit = hz_os_address_space_limit(); /* not before: a sandbox may forbid the call */
    if (limit != hz_load_rlx(&limit_of))        /* relaxed, both: hint */
        limit_judge(limit);
    return limit != SIZE_MAX && !hz_load_rlx(&is_near);
}

bool hz_space_give_up_locked(void) {
    if (hz_space_is_scarce())
        return false;
    uintptr_t room = (uintptr_t)1 << TAG_ROOM_LOG2;
    uintptr_t from = hz_load_rlx(&ever_from), to = hz_load_rlx(&ever_to); /* relaxed, both: lock */
    uintptr_t first = from > room ? from - room : 0;
    uintptr_t after = hz_min(to + room, ((hz_pagetags.mask + 1) << HZ_PAGE_LOG2) - 1);
    hz_store_rlx(&is_scarce, true); /* relaxed: hint. First: a fork's child must not unmap the same addresses again */
    hz_signal_fence();
    hz_pagetag_shrink(first, after);
    hz_os_unmap_within(&hz_space_addresses.entries[1], hz_space_entry(first)); /* NULL keeps its entry */
    hz_os_unmap_within(hz_space_entry(after) + 1, &hz_space_addresses.entries[hz_space_addresses.mask + 1]);
    return true;
}

/* ---- what is reserved in advance ------------------------------------------------------------------------- */

char *hz_space_next_locked(void) {
    if (hz_space_limit_is_near())
        return NULL;
    if (reserved_parts == 0) {
        char *reserved = hz_space_get_locked((size_t)CHUNK_PARTS * PART_BYTES, PART_BYTES, false);
        if (reserved == NULL)
            return NULL;
        hz_os_hide(reserved, (size_t)CHUNK_PARTS * PART_BYTES);
        hz_os_name(reserved, (size_t)CHUNK_PARTS * PART_BYTES, HZ_NAME_BLOCKS);
        reserved_next = reserved;
        hz_signal_fence(); /* fork: the chunk is there before it counts */
        reserved_parts = CHUNK_PARTS;
    }
    return reserved_next;
}

void hz_space_take_locked(void) {
    reserved_parts--; /* fork: first, so that the child does not hand out this space again */
    hz_signal_fence();
    reserved_next += PART_BYTES;
}

size_t hz_space_reserved_locked(void) {
    return reserved_parts;
}

void hz_space_show_reserved(void) {
    if (reserved_parts > 0)
        hz_os_show(reserved_next, reserved_parts * PART_BYTES);
}

/* Where space is scarce, what is reserved may be all that can still be had. Near a limit it has been counted. */
void hz_space_drop_locked(void) {
    size_t bytes = reserved_parts * PART_BYTES;
    if (bytes == 0 || hz_space_is_scarce() || hz_space_limit_is_near())
        return;
    reserved_parts = 0; /* fork: first, so that the child does not use what is unmapped */
    hz_signal_fence();
    (void)hz_os_unmap(reserved_next, bytes); /* if refused, address space is lost, but no memory */
}
