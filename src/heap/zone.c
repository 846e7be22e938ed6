/*
 * zone.c - see zone.h. Called by malloc.c, free.c, resize.c, fork.c and the front.
 */
#include "heap/zone.h"

#include "base/large.h"
#include "base/livemap.h"
#include "base/meta.h"
#include "heap/misuse.h"
#include "heap/pages/page.h"
#include "heap/pages/put.h"
#include "heap/seal.h"

#include <string.h>

/* A large block of a zone. It lies behind the unused description of the run's first page. A direct block has no
   description: its segment notes where it is. */
struct zone_large {
    struct hz_zone *zone; /* const after publish */
    void *block;          /* lock, all */
    struct zone_large *next;
    struct zone_large *previous;
};

/* A destroyed zone keeps some of its pages for the next zone, because making and retiring a page takes longer than
   thirty allocations. The kept pages age like all free pages (page_purge.c). */
enum {
    KEPT_PAGES_MAX = 16, /* arena pages that a spare zone keeps */
    WARM_ZONES_MAX = 4,  /* spare zones that keep pages; can be a few more when threads drop zones at the same time */
};

struct hz_zone {
    struct hz_shard shard;
    struct zone_large *large;   /* lock: the large blocks. A fork may copy it at any instant: `next` is always whole */
    struct zone_large *unused;  /* lock: for the next direct blocks */
    struct hz_zone *next_made;  /* const after publish */
    struct hz_zone *next_spare; /* lock: spare_zones_lock */
};

_Static_assert(offsetof(struct hz_zone, shard) == 0, "a page leads to the shard, and so to the zone");
_Static_assert(sizeof(struct hz_page) + sizeof(struct zone_large) <= HZ_PAGE_META_BYTES, "both fit into a page's meta");

static const bool is_watched = HZ_CONFIG_CHECKS || HZ_CONFIG_FENCES || HZ_BLOCKS_SEALED;

static struct hz_zone *all_zones;       /* lock: spare_zones_lock; the newest first; a fork's child reads it alone */
static struct hz_lock spare_zones_lock; /* a leaf */
static struct hz_zone *spare_zones[2]; /* lock: spare_zones_lock; zones that were dropped; [1]: those that keep pages */
static _Atomic(uint32_t) warm_zones;   /* lock: spare_zones_lock, length of spare_zones[1]; atomic for a hint */

static void zone_lock(struct hz_zone *zone) {
    hz_shard_lock(&hz_thread_none, &zone->shard, HZ_TO_GET);
}

static void zone_unlock(struct hz_zone *zone) {
    hz_shard_unlock(&zone->shard);
}

/* ---- zones ----------------------------------------------------------------------------------------- */

static struct hz_zone *spare_take(void) {
    hz_lock_acquire(&spare_zones_lock);
    bool is_warm = spare_zones[true] != NULL;
    uint32_t warm = hz_load_rlx(&warm_zones); /* relaxed, both: lock */
    struct hz_zone *zone = spare_zones[is_warm];
    if (zone != NULL)
        spare_zones[is_warm] = zone->next_spare;
    hz_store_rlx(&warm_zones, warm - (is_warm && warm > 0)); /* a fork's copy of the count may be too low */
    hz_lock_release(&spare_zones_lock);
    return zone;
}

static void spare_put(struct hz_zone *zone, bool is_warm) {
    hz_lock_acquire(&spare_zones_lock);
    zone->next_spare = spare_zones[is_warm];
    hz_signal_fence(); /* fork: the list is whole before the next store, and after it */
    spare_zones[is_warm] = zone;
    hz_store_rlx(&warm_zones, hz_load_rlx(&warm_zones) + is_warm); /* relaxed: lock */
    hz_lock_release(&spare_zones_lock);
}

struct hz_zone *hz_zone_make(void) {
    struct hz_zone *zone = spare_take();
    if (zone != NULL)
        return zone;
    zone = hz_meta_alloc(sizeof(*zone));
    if (zone == NULL)
        return NULL;
    hz_lock_init(&zone->shard.exclusive, HZ_RANK_OUTER);
    zone->shard.index = HZ_SHARD_OF_ZONE;
    hz_lock_acquire(&spare_zones_lock);
    zone->next_made = all_zones;
    hz_signal_fence(); /* fork: the zone is complete before it is listed */
    all_zones = zone;
    hz_lock_release(&spare_zones_lock);
    return zone;
}

static void large_unlink(struct hz_zone *zone, struct zone_large *large) {
    if (large->previous != NULL)
        large->previous->next = large->next;
    else
        zone->large = large->next;
    if (large->next != NULL)
        large->next->previous = large->previous;
}

static bool block_is_direct(const struct hz_segment *segment) {
    return hz_load_rlx(&segment->kind) == HZ_SEGMENT_DIRECT; /* relaxed: constant while the caller has the block */
}

/* Takes a block off the list, before it is freed. */
static void large_forget(struct hz_zone *zone, struct zone_large *large) {
    large_unlink(zone, large);
    if (block_is_direct(hz_segment_get(large->block))) {
        hz_signal_fence(); /* fork: a copy must not have it in both lists */
        large->next = zone->unused;
        zone->unused = large;
    }
}

/* Frees the blocks of all pages. Keeps pages that have up to `keep` arena pages together, and retires the others. */
static void pages_drop_locked(struct hz_zone *zone, unsigned keep) {
    for (struct hz_page *page = zone->shard.zone_pages, *next; page != NULL; page = next) {
        unsigned run_pages = hz_load_rlx(&page->run_pages); /* relaxed: lock */
        next = page->zone_next;
        if (is_watched)
            hz_livemap_forget(page->start, (size_t)page->capacity * page->block_bytes);
        if (run_pages <= keep) {
            hz_page_empty_locked(&zone->shard, page);
            keep -= run_pages;
        } else {
            hz_page_retire_locked(&zone->shard, page);
        }
    }
}

void hz_zone_drop(struct hz_zone *zone) {
    bool is_warm = hz_load_rlx(&warm_zones) < WARM_ZONES_MAX && !hz_arena_is_over_soft(); /* relaxed: hint */
    zone_lock(zone); /* the keeper may look at its pages */
    while (zone->large != NULL) {
        void *block = zone->large->block;
        large_forget(zone, zone->large);
        if (is_watched)
            hz_livemap_forget(block, HZ_GRANULE_BYTES);
        hz_large_free(block);
    }
    pages_drop_locked(zone, is_warm ? KEPT_PAGES_MAX : 0);
    is_warm = zone->shard.zone_pages != NULL;
    zone_unlock(zone);
    spare_put(zone, is_warm);
}

/* ---- blocks ---------------------------------------------------------------------------------------- */

static void *zone_class_alloc(struct hz_zone *zone, unsigned size_class) {
    if (hz_arena_is_over_hard()) /* pages that were given back in parts could fill again without the arena */
        return NULL;
    zone_lock(zone);
    void *block = hz_pages_take_locked(&zone->shard, size_class);
    if (HZ_UNLIKELY(block == NULL) && hz_page_create_locked(&zone->shard, size_class))
        block = hz_pages_take_locked(&zone->shard, size_class);
    zone_unlock(zone);
    return block;
}

/* Room to describe a large block; NULL when there is no memory. */
static struct zone_large *large_make_locked(struct hz_zone *zone, struct hz_segment *segment, const void *block) {
    if (!block_is_direct(segment)) {
        unsigned char *meta = segment->meta[hz_segment_page(block)].bytes;
        return (struct zone_large *)(void *)(meta + sizeof(struct hz_page));
    }
    struct zone_large *large = zone->unused;
    if (large != NULL)
        zone->unused = large->next;
    else
        large = hz_meta_alloc(sizeof(*large));
    segment->note = large;
    return large;
}

static struct zone_large *zone_large_of(const void *block) {
    struct hz_segment *segment = hz_segment_get(block);
    if (HZ_UNLIKELY((uintptr_t)block % HZ_PAGE_BYTES != 0))
        hz_misuse(HZ_TEXT_INTERIOR, block, HZ_IN_FREE);
    if (block_is_direct(segment))
        return segment->note;
    unsigned char *meta = segment->meta[hz_segment_page(block)].bytes;
    return (struct zone_large *)(void *)(meta + sizeof(struct hz_page));
}

static void *zone_large_alloc(struct hz_zone *zone, size_t alignment, size_t size, bool zeroed) {
    void *block = hz_large_alloc(size, alignment, zeroed);
    if (block == NULL)
        return NULL;
    zone_lock(zone);
    struct zone_large *large = large_make_locked(zone, hz_segment_get(block), block);
    if (large != NULL) {
        *large = (struct zone_large){.zone = zone, .block = block, .next = zone->large};
        if (large->next != NULL)
            large->next->previous = large;
        hz_signal_fence(); /* fork: the list is whole before and after this store */
        zone->large = large;
        hz_pagetag_owner_set(block, 1, HZ_SHARD_OF_ZONE);
    }
    zone_unlock(zone);
    if (large != NULL)
        return block;
    hz_large_free(block);
    return NULL;
}

static unsigned class_of(size_t alignment, size_t size) {
    if (size > HZ_CLASS_BYTES_MAX)
        return HZ_CLASS_NONE;
    return alignment <= HZ_GRANULE_BYTES ? hz_class_of(size) : hz_class_of_aligned(size, alignment);
}

void *hz_zone_alloc(struct hz_zone *zone, size_t alignment, size_t size, bool zeroed) {
    unsigned size_class = class_of(alignment, size);
    if (size_class == HZ_CLASS_NONE)
        return zone_large_alloc(zone, alignment, hz_max(size, 1), zeroed);
    void *block = zone_class_alloc(zone, size_class);
    if (HZ_BLOCKS_SEALED)
        block = hz_seal_break(block);
    return zeroed && block != NULL ? memset(block, 0, size) : block;
}

struct hz_zone *hz_zone_of_block(const void *block) {
    if (hz_pagetag_class(block) == HZ_CLASS_LARGE)
        return zone_large_of(block)->zone;
    return (struct hz_zone *)(void *)hz_page_shard(hz_page_of(block));
}

void hz_zone_put(void *block) {
    if (hz_pagetag_class(block) != HZ_CLASS_LARGE) {
        hz_block_put(&hz_thread_none, block);
        return;
    }
    struct zone_large *large = zone_large_of(block);
    struct hz_zone *zone = large->zone;
    zone_lock(zone);
    large_forget(zone, large);
    zone_unlock(zone);
    hz_large_free(block);
}

void *hz_zone_large_resize(void *block, size_t size, bool may_move) {
    struct zone_large *large = zone_large_of(block);
    struct hz_zone *zone = large->zone;
    zone_lock(zone); /* figures read the block's size */
    void *resized = hz_large_resize(block, size, may_move);
    large->block = resized != NULL ? resized : block;
    hz_pagetag_owner_set(large->block, 1, HZ_SHARD_OF_ZONE); /* the tag was set anew */
    zone_unlock(zone);
    return resized;
}

/* ---- figures --------------------------------------------------------------------------------------- */

void hz_zone_figures_get(struct hz_zone *zone, struct hz_zone_figures *figures) {
    *figures = (struct hz_zone_figures){0};
    zone_lock(zone);
    for (struct hz_page *page = zone->shard.zone_pages; page != NULL; page = page->zone_next) {
        size_t unused = hz_load_rlx(&page->free_count); /* relaxed, both: lock */
        figures->live_blocks += page->capacity - unused;
        figures->live_bytes += (page->capacity - unused) * page->block_bytes;
        figures->free_bytes += unused * page->block_bytes;
        figures->held_bytes += (size_t)hz_load_rlx(&page->run_pages) << HZ_PAGE_LOG2;
    }
    for (struct zone_large *large = zone->large; large != NULL; large = large->next) {
        figures->live_blocks++;
        figures->live_bytes += hz_large_usable(large->block);
        figures->held_bytes += hz_large_usable(large->block);
    }
    zone_unlock(zone);
}

/* ---- fork ------------------------------------------------------------------------------------------ */

/* Makes the list of large blocks whole. A block that a vanished thread was resizing may be elsewhere by now, and then
   is lost. */
static void large_relink(struct hz_zone *zone) {
    struct zone_large *whole = NULL;
    for (struct zone_large *large = zone->large, *next; large != NULL; large = next) {
        next = large->next;
        if (hz_pagetag_class(large->block) != HZ_CLASS_LARGE || zone_large_of(large->block) != large) {
            if (whole != NULL)
                whole->next = next;
            else
                zone->large = next;
            continue;
        }
        hz_pagetag_owner_set(large->block, 1, HZ_SHARD_OF_ZONE);
        large->previous = whole;
        whole = large;
    }
}

void hz_zones_after_fork(void) {
    hz_lock_settle(&spare_zones_lock); /* at worst the zone that was just dropped, or just taken, is lost */
    uint32_t warm = 0;
    for (struct hz_zone *zone = spare_zones[true]; zone != NULL; zone = zone->next_spare)
        warm++;
    hz_store_rlx(&warm_zones, warm); /* relaxed: one thread */
    for (struct hz_zone *zone = all_zones; zone != NULL; zone = zone->next_made) {
        if (!hz_lock_abandoned(&zone->shard.exclusive))
            continue;
        hz_pages_relink_locked(&zone->shard); /* no other thread exists, which is as good as holding the lock */
        large_relink(zone);
        hz_lock_reset(&zone->shard.exclusive);
    }
}
