/*
 * zone.c - see zone.h.
 */
#include "heap/threads/zone.h"

#include "base/arena/attributes.h"
#include "base/arena/large.h"
#include "base/map/meta.h"
#include "base/os/anatomy.h"
#include "base/watch/livemap.h"
#include "heap/misuse.h"
#include "heap/pages/page.h"
#include "heap/pages/put.h"
#include "heap/seal.h"
#include "policy.h"

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
   thirty allocations: each page from which only a cursor has taken blocks, and others as long as all together have at
   most HZ_ZONE_KEPT_PAGES arena pages. The kept pages age like all free pages (page_purge.c). */
enum {
    WANT_MIN = 1 << 12,    /* bytes that a cursor takes at first; twice as much after each time, */
    CURSOR_COUNT_MAX = 64, /* but no more than so many blocks, or HZ_ZONE_WANT_MAX bytes */
    STRANGERS_MIN = 64,    /* blocks that other threads take before one of them becomes the user, the first time; */
    STRANGERS_GROWTH = 4,  /* so many times as many the next time, */
    STRANGERS_MAX = 1 << 20,
    RELIEVED_AT_ONCE = 64, /* users, with one barrier */
    LOOK_ZONES = 64,       /* zones that a step of a look looks at */
};

_Static_assert(offsetof(struct hz_zone, shard) % HZ_CACHE_LINE_BYTES == 0, "the shard's fields keep their lines");
_Static_assert(sizeof(struct hz_page) + sizeof(struct zone_large) <= HZ_PAGE_META_BYTES, "both fit into a page's meta");

static const bool is_watched = HZ_CONFIG_CHECKS || HZ_CONFIG_FENCES || HZ_BLOCKS_SEALED;

static struct hz_zone *all_zones;       /* lock: spare_zones_lock; the newest first; a fork's child reads it alone */
static struct hz_lock spare_zones_lock; /* a leaf */
static struct hz_zone *spare_zones[2]; /* lock: spare_zones_lock; zones that were dropped; [1]: those that keep pages */
static _Atomic(uint32_t) warm_zones;   /* lock: spare_zones_lock, length of spare_zones[1]; atomic for a hint */

HZ_ANATOMY(zone, HZ_ANATOMY_OBJECT(zones, all_zones), HZ_ANATOMY_FIELD(hz_zone, next_made),
           HZ_ANATOMY_FIELD(hz_zone, cursors), HZ_ANATOMY_SIZE(hz_zone_cursor), HZ_ANATOMY_FIELD(hz_zone_cursor, start),
           HZ_ANATOMY_FIELD(hz_zone_cursor, next), HZ_ANATOMY_FIELD(hz_zone_cursor, end),
           HZ_ANATOMY_NUMBER(HZ_ZONE_CURSORS));

static struct hz_lock zones_look_lock =
    HZ_LOCK_INIT(HZ_RANK_LOOK);           /* for the one thread that looks, or relieves users */
static _Atomic(struct hz_zone *) look_at; /* lock: zones_look_lock; where the look goes on; NULL: nowhere */

static void zone_lock(struct hz_zone *zone) {
    hz_shard_lock(&hz_thread_none, &zone->shard, HZ_TO_GET);
}

static void zone_unlock(struct hz_zone *zone) {
    hz_shard_unlock(&zone->shard);
}

static struct hz_zone *zone_from(struct hz_shard *shard) {
    return (struct hz_zone *)(void *)((char *)shard - offsetof(struct hz_zone, shard));
}

/* ---- cursors --------------------------------------------------------------------------------------- */

static void mix_locked(struct hz_zone *zone, unsigned size_class) {
    zone->mixed[size_class / 64] |= UINT64_C(1) << (size_class % 64);
    zone->is_mixed = true;
    hz_signal_fence(); /* fork: before the page changes */
}

static bool is_mixed(const struct hz_zone *zone, unsigned size_class) {
    return (zone->mixed[size_class / 64] >> (size_class % 64) & 1) != 0;
}

/* Whether the caller may use the cursors until it releases the lock. Makes it the user if it may become that. */
static bool use_locked(struct hz_zone *zone, struct hz_thread_block *self, bool may_use) {
    struct hz_thread_block *user = hz_load_rlx(&zone->user); /* relaxed, all: lock */
    struct hz_thread_block *left_by = hz_load_rlx(&zone->left_by);
    if ((user != NULL && user != self) || (left_by != NULL && left_by != self))
        return false;
    hz_store_rlx(&zone->left_by, NULL);
    hz_store_rlx(&zone->user, may_use ? self : NULL);
    return true;
}

static void cursor_clear(struct hz_zone_cursor *cur) {
    hz_store_rlx(&cur->end, 0); /* relaxed: user */
    hz_signal_fence();          /* fork: before the blocks are in the page */
}

static bool cursor_fill_locked(struct hz_zone *zone, unsigned size_class) {
    struct hz_zone_cursor *cur = &zone->cursors[size_class];
    uint32_t bytes = (uint32_t)hz_class_bytes(size_class);
    bool is_spent = hz_load_rlx(&cur->end) != 0; /* relaxed, all: user */
    uint32_t want = (uint32_t)hz_max(hz_max(cur->want, WANT_MIN), bytes);
    uint32_t most = (uint32_t)hz_min(want / bytes, CURSOR_COUNT_MAX);
    uint32_t count;
    bool is_first;
    cursor_clear(cur);
    if (is_spent)
        mix_locked(zone, size_class);
    char *start = hz_pages_reserve_locked(&zone->shard, size_class, most, &count, &is_first);
    if (start == NULL && hz_page_create_locked(&zone->shard, size_class))
        start = hz_pages_reserve_locked(&zone->shard, size_class, most, &count, &is_first);
    if (start == NULL)
        return false;
    if (!is_first)
        mix_locked(zone, size_class);
    cur->start = start;
    cur->bytes = (uint16_t)bytes;
    cur->want = (uint16_t)hz_min(is_spent ? 2 * want : want, HZ_ZONE_WANT_MAX);
    hz_store_rlx(&cur->next, 0);
    hz_signal_fence(); /* fork: the cursor has no blocks before it is complete */
    hz_store_rlx(&cur->end, (uint16_t)(count * bytes));
    hz_store_rlx(&zone->has_reserves, true);
    return true;
}

static bool cursor_has_block(struct hz_zone *zone, unsigned size_class) {
    struct hz_zone_cursor *cur = &zone->cursors[size_class];
    return hz_load_rlx(&cur->next) < hz_load_rlx(&cur->end); /* relaxed, both: user */
}

static void *cursor_take_locked(struct hz_zone *zone, unsigned size_class) {
    struct hz_zone_cursor *cur = &zone->cursors[size_class];
    if (!cursor_has_block(zone, size_class) && !cursor_fill_locked(zone, size_class))
        return NULL;
    unsigned next = hz_load_rlx(&cur->next); /* relaxed, both: user */
    hz_store_rlx(&cur->next, (uint16_t)(next + cur->bytes));
    return cur->start + next;
}

/* Blocks that the cursor has not handed out. Any thread. */
static uint32_t reserve_of(struct hz_zone *zone, unsigned size_class) {
    uint32_t next = hz_load_rlx(&zone->cursors[size_class].next); /* relaxed, both: figures */
    uint32_t behind = hz_load_rlx(&zone->cursors[size_class].end);
    return next < behind ? (behind - next) / (uint32_t)hz_class_bytes(size_class) : 0;
}

/* Puts what the cursors have not handed out into the pages. The caller may use the cursors. */
static void reserves_put_locked(struct hz_zone *zone) {
    for (unsigned size_class = 1; size_class < HZ_ZONE_CURSORS; size_class++) {
        struct hz_zone_cursor *cur = &zone->cursors[size_class];
        uint32_t count = reserve_of(zone, size_class);
        uint32_t next = hz_load_rlx(&cur->next); /* relaxed: user */
        if (hz_load_rlx(&cur->end) == 0)         /* relaxed: user */
            continue;
        cur->want = 0;
        if (next > 0)
            mix_locked(zone, size_class);
        cursor_clear(cur);
        if (count > 0)
            hz_pages_unreserve_locked(&zone->shard, cur->start + next, count);
    }
    hz_store_rlx(&zone->has_reserves, false); /* relaxed: hint */
}

/* After a barrier that came after relieve_locked: whether the former user takes no block now. Otherwise, or without a
   barrier, it becomes the user again. Nothing to do if it already has. */
static bool user_is_gone_locked(struct hz_zone *zone, bool barrier) {
    struct hz_thread_block *left_by = hz_load_rlx(&zone->left_by); /* relaxed, all: lock */
    if (left_by == NULL)
        return false;
    /* sync: park, partner hz_zone_pop. Acquire: what it has taken from the cursors */
    bool is_gone = barrier && hz_load_acq(&left_by->popping) == 0;
    hz_store_rlx(&zone->left_by, NULL);
    if (!is_gone)
        hz_store_rlx(&zone->user, left_by);
    return is_gone;
}

/* False if the zone has no other user than the caller. */
static bool relieve_locked(struct hz_zone *zone, const struct hz_thread_block *self) {
    struct hz_thread_block *user = hz_load_rlx(&zone->user); /* relaxed, all: lock */
    if (user == NULL || user == self)
        return false;
    hz_store_rlx(&zone->left_by, user);
    hz_signal_fence();               /* fork: the cursors always belong to somebody */
    hz_store_rlx(&zone->user, NULL); /* sync: park, partner hz_zone_pop */
    return true;
}

/* Makes room for another user. */
static HZ_NOINLINE void user_relieve(struct hz_zone *zone, const struct hz_thread_block *self) {
    if (!hz_lock_try_acquire(&zones_look_lock))
        return;
    zone_lock(zone);
    zone->strangers = 0;
    zone->strangers_most = (uint32_t)hz_min((size_t)zone->strangers_most * STRANGERS_GROWTH, STRANGERS_MAX);
    bool relieved = relieve_locked(zone, self);
    zone_unlock(zone);
    if (relieved) {
        bool barrier = hz_os_barrier();
        zone_lock(zone);
        (void)user_is_gone_locked(zone, barrier);
        zone_unlock(zone);
    }
    hz_lock_release(&zones_look_lock);
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
    if (zone != NULL) {
        zone_lock(zone);                                           /* a thread may look at it */
        hz_store_rlx(&zone->makes, hz_load_rlx(&zone->makes) + 1); /* relaxed: lock */
        zone->strangers = 0;
        zone->strangers_most = STRANGERS_MIN;
        zone_unlock(zone);
        return zone;
    }
    zone = hz_meta_alloc(sizeof(*zone));
    if (zone == NULL)
        return NULL;
    hz_lock_init(&zone->shard.exclusive, HZ_RANK_OUTER);
    zone->shard.index = HZ_SHARD_OF_ZONE;
    zone->strangers_most = STRANGERS_MIN;
    for (size_t size = 0; size <= HZ_SMALL_MAX; size += HZ_GRANULE_BYTES)
        zone->class_of[size / HZ_GRANULE_BYTES] = (uint8_t)hz_class_of(size);
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

/* Whether only the class's cursor has taken blocks from the class's page. */
static bool is_plain(const struct hz_zone *zone, struct hz_page *page) {
    unsigned size_class = hz_load_rlx(&page->size_class); /* relaxed: lock */
    return size_class < HZ_ZONE_CURSORS && !is_mixed(zone, size_class);
}

/* Frees the blocks of a page: retires it, or keeps it with all its blocks. A plain page already has all blocks but its
   cursor's. */
static void page_drop_locked(struct hz_zone *zone, struct hz_page *page, bool keeps) {
    if (is_watched)
        hz_livemap_forget(page->start, (size_t)page->capacity * page->block_bytes);
    if (!keeps)
        hz_page_retire_locked(&zone->shard, page);
    else if (!is_plain(zone, page))
        hz_page_empty_locked(&zone->shard, page);
}

/* How many arena pages are kept beside those of plain pages. */
static unsigned pages_kept(const struct hz_zone *zone) {
    unsigned keep = HZ_ZONE_KEPT_PAGES;
    for (struct hz_page *page = zone->shard.zone_pages; page != NULL && keep > 0; page = page->zone_next)
        keep -= is_plain(zone, page) ? 1 : 0;
    return keep;
}

/* Frees the blocks of all pages, and keeps pages if `is_warm`. The page of a cursor of a mixed class may be gone. */
static void pages_drop_locked(struct hz_zone *zone, bool is_warm) {
    for (unsigned size_class = 1; size_class < HZ_ZONE_CURSORS; size_class++)
        if (!is_warm || is_mixed(zone, size_class))
            cursor_clear(&zone->cursors[size_class]);
    unsigned keep = pages_kept(zone);
    for (struct hz_page *page = zone->shard.zone_pages, *next; page != NULL; page = next) {
        unsigned run_pages = hz_load_rlx(&page->run_pages); /* relaxed: lock */
        bool plain = is_plain(zone, page);
        bool keeps = is_warm && (plain || run_pages <= keep);
        next = page->zone_next;
        keep -= keeps && !plain ? run_pages : 0;
        page_drop_locked(zone, page, keeps);
    }
}

/* Each cursor hands out its blocks anew. */
static void cursors_reset(struct hz_zone *zone) {
    struct hz_zone_cursor *behind = zone->cursors + HZ_ARRAY_LENGTH(zone->cursors);
    for (struct hz_zone_cursor *cur = zone->cursors; cur < behind; cur += HZ_ZONE_STRIDE) {
        hz_store_rlx(&cur[0].next, 0); /* relaxed, all: lock, and no other thread uses the zone */
        hz_store_rlx(&cur[1].next, 0);
        hz_store_rlx(&cur[2].next, 0);
        hz_store_rlx(&cur[3].next, 0);
    }
}

static void blocks_drop_locked(struct hz_zone *zone, bool is_warm) {
    hz_store_rlx(&zone->left_by, NULL); /* relaxed, all: lock; no other thread uses the zone */
    hz_store_rlx(&zone->user, NULL);
    if (!is_warm || zone->is_mixed || is_watched)
        pages_drop_locked(zone, is_warm);
    cursors_reset(zone);
    if (!zone->is_mixed)
        return;
    hz_signal_fence(); /* fork: a class is mixed until its pages have all blocks */
    for (unsigned word = 0; word < HZ_CLASS_WORDS; word++)
        zone->mixed[word] = 0;
    zone->is_mixed = false;
}

void hz_zone_drop(struct hz_zone *zone) {
    /* relaxed: hint. What the program may have told the kernel about the blocks ends when their pages are retired */
    bool is_warm = hz_load_rlx(&warm_zones) < HZ_ZONE_WARM_MAX && !hz_arena_is_over_soft() && !hz_attributes_are_set();
    zone_lock(zone); /* the keeper may look at its pages */
    while (HZ_UNLIKELY(zone->large != NULL)) {
        void *block = zone->large->block;
        large_forget(zone, zone->large);
        if (is_watched)
            hz_livemap_forget(block, HZ_GRANULE_BYTES);
        hz_large_free(block);
    }
    blocks_drop_locked(zone, is_warm);
    is_warm = zone->shard.zone_pages != NULL;
    zone_unlock(zone);
    spare_put(zone, is_warm);
}

/* ---- blocks ---------------------------------------------------------------------------------------- */

/* A block for a thread that cannot use the cursors, or of a class that has none. */
static void *page_take_locked(struct hz_zone *zone, unsigned size_class) {
    mix_locked(zone, size_class);
    void *block = hz_pages_take_locked(&zone->shard, size_class);
    if (HZ_UNLIKELY(block == NULL) && hz_page_create_locked(&zone->shard, size_class))
        block = hz_pages_take_locked(&zone->shard, size_class);
    return block;
}

static void *zone_class_alloc(struct hz_zone *zone, struct hz_thread_block *self, bool may_use, unsigned size_class) {
    if (hz_arena_is_over_hard()) /* pages that were given back in parts could fill again without the arena */
        return NULL;
    bool has_cursor = size_class < HZ_ZONE_CURSORS;
    bool is_late = false;
    zone_lock(zone);
    bool is_user = has_cursor && use_locked(zone, self, may_use);
    void *block = is_user ? cursor_take_locked(zone, size_class) : page_take_locked(zone, size_class);
    if (is_user)
        zone->strangers = 0;
    else if (has_cursor && may_use)
        is_late = ++zone->strangers >= zone->strangers_most;
    zone_unlock(zone);
    if (HZ_UNLIKELY(is_late))
        user_relieve(zone, self);
    return block;
}

void *hz_zone_claim(struct hz_zone *zone, struct hz_thread_block *self, bool may_use, unsigned size_class) {
    if (hz_load_rlx(&zone->user) != NULL || !cursor_has_block(zone, size_class)) /* relaxed: hints */
        return NULL;
    zone_lock(zone);
    bool has_block = use_locked(zone, self, may_use) && cursor_has_block(zone, size_class);
    void *block = has_block ? cursor_take_locked(zone, size_class) : NULL;
    zone_unlock(zone);
    return HZ_BLOCKS_SEALED ? hz_seal_break(block) : block;
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

static struct zone_large *zone_large_at(const void *block) {
    struct hz_segment *segment = hz_segment_get(block);
    if (block_is_direct(segment))
        return segment->note;
    unsigned char *meta = segment->meta[hz_segment_page(block)].bytes;
    return (struct zone_large *)(void *)(meta + sizeof(struct hz_page));
}

static struct zone_large *zone_large_of(const void *block) {
    if (HZ_UNLIKELY(!hz_large_may_begin(block)))
        hz_misuse(HZ_TEXT_INTERIOR, block, HZ_IN_FREE);
    return zone_large_at(block);
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

void *hz_zone_alloc(struct hz_zone *zone, struct hz_thread_block *self, bool may_use, size_t alignment, size_t size,
                    bool zeroed) {
    unsigned size_class = hz_zone_class(alignment, size);
    if (size_class == HZ_CLASS_NONE)
        return zone_large_alloc(zone, alignment, hz_max(size, 1), zeroed);
    void *block = zone_class_alloc(zone, self, may_use, size_class);
    if (HZ_BLOCKS_SEALED)
        block = hz_seal_break(block);
    return zeroed && block != NULL ? memset(block, 0, size) : block;
}

struct hz_zone *hz_zone_of_block(const void *block) {
    if (hz_pagetag_class(block) == HZ_CLASS_LARGE)
        return zone_large_of(block)->zone;
    return zone_from(hz_page_shard(hz_page_of(block)));
}

/* Ends the program if the block is one that the class's cursor has not handed out. */
static void check_out_locked(struct hz_zone *zone, unsigned size_class, const void *block) {
    struct hz_zone_cursor *cur = &zone->cursors[size_class];
    unsigned behind = hz_load_rlx(&cur->end); /* relaxed, both: what the block's owner has seen */
    if (behind == 0 || (uintptr_t)block - (uintptr_t)cur->start >= behind ||
        (uintptr_t)block - (uintptr_t)cur->start < hz_load_rlx(&cur->next))
        return;
    (void)hz_page_has_block_locked(hz_page_of(block), block); /* it may not be the start of one either */
    hz_misuse(HZ_TEXT_DOUBLE_FREE, block, HZ_FOUND_LATER);
}

static void small_put(void *block) {
    struct hz_shard *shard = hz_block_home_lock(&hz_thread_none, block);
    unsigned size_class = hz_pagetag_class(block);
    if (HZ_LIKELY(shard->index == HZ_SHARD_OF_ZONE && size_class < HZ_CLASS_COUNT)) {
        struct hz_zone *zone = zone_from(shard);
        if (size_class < HZ_ZONE_CURSORS)
            check_out_locked(zone, size_class, block);
        mix_locked(zone, size_class);
    }
    (void)hz_page_put_locked(shard, block);
    hz_shard_unlock(shard);
}

void hz_zone_put(void *block) {
    if (hz_pagetag_class(block) != HZ_CLASS_LARGE) {
        small_put(block);
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
    for (unsigned size_class = 1; size_class < HZ_ZONE_CURSORS; size_class++) {
        size_t unused = reserve_of(zone, size_class);
        figures->live_blocks -= unused;
        figures->live_bytes -= unused * hz_class_bytes(size_class);
        figures->free_bytes += unused * hz_class_bytes(size_class);
    }
    for (struct zone_large *large = zone->large; large != NULL; large = large->next) {
        figures->live_blocks++;
        figures->live_bytes += hz_large_bytes(large->block);
        figures->held_bytes += hz_large_bytes(large->block);
    }
    zone_unlock(zone);
}

static struct hz_zone *newest_zone(void) {
    hz_lock_acquire(&spare_zones_lock);
    struct hz_zone *zone = all_zones;
    hz_lock_release(&spare_zones_lock);
    return zone;
}

void hz_zones_count_reserves(size_t *blocks) {
    for (struct hz_zone *zone = newest_zone(); zone != NULL; zone = zone->next_made)
        for (unsigned size_class = 1; size_class < HZ_ZONE_CURSORS && hz_load_rlx(&zone->has_reserves); size_class++)
            blocks[size_class] += reserve_of(zone, size_class); /* relaxed: hint */
}

/* ---- walks ----------------------------------------------------------------------------------------- */

void hz_zones_walk(void (*visit)(void *context, const void *block), void *context) {
    for (struct hz_zone *zone = all_zones; zone != NULL; zone = zone->next_made)
        for (unsigned size_class = 1; size_class < HZ_ZONE_CURSORS; size_class++) {
            const struct hz_zone_cursor *cur = &zone->cursors[size_class];
            uint32_t first = hz_load_rlx(&cur->next),
                     left = reserve_of(zone, size_class); /* relaxed: nobody takes one */
            for (uint32_t i = 0; i < left; i++)
                visit(context, cur->start + first + i * hz_class_bytes(size_class));
        }
}

void hz_zones_memory_walk(void (*visit)(void *context, const void *memory, size_t bytes), void *context) {
    for (struct hz_zone *zone = all_zones; zone != NULL; zone = zone->next_made) {
        visit(context, zone, sizeof(*zone));
        for (struct zone_large *large = zone->large; large != NULL; large = large->next)
            visit(context, large, sizeof(*large));
        for (struct zone_large *large = zone->unused; large != NULL; large = large->next)
            visit(context, large, sizeof(*large));
    }
}

/* ---- ageing ---------------------------------------------------------------------------------------- */

/* Zones whose users are being relieved. */
struct relief {
    uint32_t count;
    struct hz_zone *zones[RELIEVED_AT_ONCE];
};

static void relief_end(struct relief *relief) {
    bool barrier = relief->count > 0 && hz_os_barrier();
    for (uint32_t i = 0; i < relief->count; i++) {
        zone_lock(relief->zones[i]);
        if (user_is_gone_locked(relief->zones[i], barrier))
            reserves_put_locked(relief->zones[i]);
        zone_unlock(relief->zones[i]);
    }
    relief->count = 0;
}

static void zone_relieve(struct hz_zone *zone, struct hz_thread_block *self, struct relief *relief) {
    zone_lock(zone);
    if (relieve_locked(zone, self))
        relief->zones[relief->count++] = zone;
    else if (use_locked(zone, self, false))
        reserves_put_locked(zone);
    zone_unlock(zone);
    if (relief->count == RELIEVED_AT_ONCE)
        relief_end(relief);
}

/* Whether the cursors have moved since this was last asked. */
static bool have_moved(struct hz_zone *zone) {
    uint64_t digest = hz_load_rlx(&zone->makes); /* relaxed, both: hint */
    for (unsigned size_class = 1; size_class < HZ_ZONE_CURSORS; size_class++)
        digest = digest * 31 + hz_load_rlx(&zone->cursors[size_class].next);
    bool moved = digest != zone->seen;
    zone->seen = digest;
    return moved;
}

/* Looks at up to `most` zones from this one on, and returns the one that comes next. */
static struct hz_zone *look_locked(struct hz_zone *zone, struct hz_thread_block *self, bool at_once, uint32_t most,
                                   bool *moved) {
    struct relief relief = {.count = 0};
    for (; zone != NULL && most > 0; zone = zone->next_made, most--) {
        if (!hz_load_rlx(&zone->has_reserves)) /* relaxed: hint */
            continue;
        if (!at_once && have_moved(zone))
            *moved = true;
        else
            zone_relieve(zone, self, &relief);
    }
    relief_end(&relief);
    return zone;
}

bool hz_zones_look(struct hz_thread_block *self) {
    bool moved = false;
    struct hz_zone *first_zone = newest_zone();
    if (first_zone == NULL || !hz_lock_try_acquire(&zones_look_lock))
        return false;
    (void)look_locked(first_zone, self, false, UINT32_MAX, &moved);
    hz_lock_release(&zones_look_lock);
    return moved;
}

void hz_zones_look_begin(void) {
    struct hz_zone *first_zone = newest_zone();
    if (first_zone == NULL || !hz_lock_try_acquire(&zones_look_lock))
        return;
    hz_store_rlx(&look_at, first_zone); /* relaxed: lock */
    hz_lock_release(&zones_look_lock);
}

bool hz_zones_look_step(struct hz_thread_block *self) {
    bool moved = false;
    if (hz_load_rlx(&look_at) == NULL) /* relaxed, all: hint; lock */
        return false;
    if (!hz_lock_try_acquire(&zones_look_lock))
        return true;
    struct hz_zone *next = look_locked(hz_load_rlx(&look_at), self, false, LOOK_ZONES, &moved);
    hz_store_rlx(&look_at, next);
    hz_lock_release(&zones_look_lock);
    return next != NULL;
}

void hz_zones_settle(struct hz_thread_block *self) {
    bool moved = false;
    struct hz_zone *first_zone = newest_zone();
    if (first_zone == NULL)
        return;
    hz_lock_acquire(&zones_look_lock);
    (void)look_locked(first_zone, self, true, UINT32_MAX, &moved);
    hz_lock_release(&zones_look_lock);
}

/* ---- fork ------------------------------------------------------------------------------------------ */

/* Makes the list of large blocks whole. A block that a vanished thread was resizing may be elsewhere by now, and then
   is lost. */
static void large_relink(struct hz_zone *zone) {
    struct zone_large *whole = NULL;
    for (struct zone_large *large = zone->large, *next; large != NULL; large = next) {
        next = large->next;
        if (hz_pagetag_class(large->block) != HZ_CLASS_LARGE || zone_large_at(large->block) != large) {
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

/* A user that has vanished takes no more blocks. If it was taking one, that block may be lost. */
static void user_forget(struct hz_zone *zone, const struct hz_thread_block *self) {
    struct hz_thread_block *user = hz_load_rlx(&zone->user); /* relaxed, all: one thread; writes only where needed */
    struct hz_thread_block *left_by = hz_load_rlx(&zone->left_by);
    if (user != NULL && user != self)
        hz_store_rlx(&zone->user, NULL);
    if (left_by != NULL && left_by != self)
        hz_store_rlx(&zone->left_by, NULL);
}

void hz_zones_after_fork(const struct hz_thread_block *self) {
    hz_lock_settle(&spare_zones_lock); /* at worst the zone that was just dropped, or just taken, is lost */
    hz_lock_settle(&zones_look_lock);
    uint32_t warm = 0;
    for (struct hz_zone *zone = spare_zones[true]; zone != NULL; zone = zone->next_spare)
        warm++;
    hz_store_rlx(&warm_zones, warm); /* relaxed: one thread */
    for (struct hz_zone *zone = all_zones; zone != NULL; zone = zone->next_made) {
        user_forget(zone, self);
        if (!hz_lock_abandoned(&zone->shard.exclusive))
            continue;
        hz_pages_relink_locked(&zone->shard); /* no other thread exists, which is as good as holding the lock */
        large_relink(zone);
        for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
            mix_locked(zone, size_class); /* blocks between a cursor and a page are in neither */
        hz_lock_reset(&zone->shard.exclusive);
    }
}
