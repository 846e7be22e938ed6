/*
 * inspect.c - see inspect.h.
 *
 * All pushes of a new thread come here until it has made HZ_FREES_WATCHED of them, since its bins' limits stay 0. So
 * all frees of a short program or a test are inspected. Then each visit raises the bin's limit to one block and a
 * quarter more than the bin holds, so a long program pays a few visits for each bin. Later the fast path notices only a
 * second free of the bin's newest block. Other misuse is then found only by chance, because the limits are lowered ten
 * times a second (room.c), or when blocks leave the bin.
 */
#include "heap/cache/inspect.h"

#include "heap/misuse.h"
#include "heap/pages/grid.h"
#include "heap/pages/page.h"
#include "heap/pages/put.h"

#include <string.h>

enum {
    PAIRS_LOOKED_AT = 64, /* newest blocks of a bin that are compared with each other */
    FILTER_LOG2 = 10,     /* bits of the filter that finds equal pointers */
    FEW = 8,              /* so few pointers are compared with each other sooner than the filter is zeroed */
    BATCHES_BETWEEN =
        16, /* one batch in this many is searched for blocks that occur twice, and looked up in its pages */
};

/* Whether two pointers are of one block: a block can be freed under two, less than `grid` behind one place. `grid`: of
   the class of either. Blocks of other classes are in other pages. */
static bool is_same(const void *block, const void *other, size_t grid) {
    return ((uintptr_t)block ^ (uintptr_t)other) < grid;
}

/* A block that occurs twice in the array; NULL if there is none. `grid`: of the blocks' class. */
static void *twice_in_few(void *const *blocks, uint32_t count, size_t grid) {
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t j = 0; j < i; j++)
            if (HZ_UNLIKELY(is_same(blocks[j], blocks[i], grid)) && blocks[i] != NULL)
                return blocks[i];
    return NULL;
}

/* The same. */
static void *twice_in(void *const *blocks, uint32_t count, size_t grid) {
    if (count <= FEW)
        return twice_in_few(blocks, count, grid);
    uint64_t filter[(1 << FILTER_LOG2) / 64] = {0};
    for (uint32_t i = 0; i < count; i++) {
        uintptr_t place = (uintptr_t)blocks[i] & ~(grid - 1);
        uint32_t hash = (uint32_t)(place / HZ_GRANULE_BYTES) * UINT32_C(0x9e3779b1) >> (32 - FILTER_LOG2);
        uint64_t bit = UINT64_C(1) << (hash % 64);
        if (HZ_UNLIKELY((filter[hash / 64] & bit) != 0)) /* rarely true if the blocks differ */
            for (uint32_t j = 0; j < i; j++)
                if (is_same(blocks[j], blocks[i], grid) && blocks[i] != NULL)
                    return blocks[i];
        filter[hash / 64] |= bit;
    }
    return NULL;
}

/* Copies the bin's newest blocks. Returns their number. While the owner is in a slow path others only read its slots.
 */
static uint32_t newest_of(struct hz_cache *cache, unsigned index, void **out) {
    void **base = hz_bin_base(cache, index);
    uint32_t held = hz_bin_held(cache, index);
    if (held == 0)
        return 0;
    uint32_t older = (uint32_t)hz_min(held, PAIRS_LOOKED_AT) - 1;
    memcpy(out, base + (held - older), older * sizeof(out[0]));
    out[older] = hz_slot_load_rlx(&cache->bins[index].newest); /* relaxed: owner */
    return older + 1;
}

bool hz_inspect_bin_has(struct hz_cache *cache, unsigned index, const void *block) {
    void **base = hz_bin_base(cache, index);
    size_t grid = hz_class_grid(hz_pagetag_class(block));
    for (void **slot = base + hz_bin_held(cache, index); slot > base + 1;)
        if (is_same(hz_slot_load_rlx(--slot), block, grid)) /* relaxed, both: owner */
            return true;
    return is_same(hz_slot_load_rlx(&cache->bins[index].newest), block, grid);
}

/* Ends the program if the bin or the block's page has the block already. */
static void watch_free(struct hz_thread_block *self, unsigned index, void *block) {
    self->frees_watched++;
    if (hz_inspect_bin_has(&self->cache, index, block))
        hz_misuse(HZ_TEXT_DOUBLE_FREE, block, HZ_FOUND_IN_BIN);
    if (hz_block_is_home(block))
        hz_misuse(HZ_TEXT_DOUBLE_FREE, block, HZ_FOUND_IN_PAGE);
}

bool hz_inspect_free(struct hz_thread_block *self, unsigned index, void *block) {
    void *blocks[PAIRS_LOOKED_AT + 1];
    uint32_t held = hz_bin_held(&self->cache, index);
    uint32_t room = hz_bin_room(&self->cache, index);
    unsigned size_class = hz_pagetag_class(block);
    bool is_thorough = hz_frees_are_watched(self) || hz_class_is_long(size_class);
    bool is_start = is_thorough ? hz_class_has_start(size_class, block) : hz_class_may_have_start(size_class, block);
    if (!is_start)
        hz_misuse(HZ_TEXT_INTERIOR, block, HZ_IN_FREE);
    size_t grid = hz_class_grid(size_class);
    const void *latest = hz_slot_load_rlx(&self->cache.bins[index].newest); /* relaxed: owner */
    if (held > 0 && is_same(latest, block, grid))
        hz_misuse(HZ_TEXT_DOUBLE_FREE, block, HZ_FOUND_IN_BIN);
    if (hz_frees_are_watched(self)) {
        watch_free(self, index, block);
        return held < room;
    }
    if (held < hz_bin_limit(&self->cache, index)) /* in tight mode every free comes here */
        return true;
    if (held == room)
        return false;
    uint32_t count = newest_of(&self->cache, index, blocks);
    blocks[count++] = block;
    /* the remote buffer has blocks of several classes: they are compared as pointers */
    void *twice = twice_in(blocks, count, index == HZ_REMOTE_BIN ? 1 : grid);
    if (twice != NULL)
        hz_misuse(HZ_TEXT_DOUBLE_FREE, twice, HZ_FOUND_IN_BIN);
    if (hz_block_is_home(block))
        hz_misuse(HZ_TEXT_DOUBLE_FREE, block, HZ_FOUND_IN_PAGE);
    hz_bin_limit_raise(&self->cache, index);
    return true;
}

/* Ends the program if one of the addresses is not a block's start. */
static void inspect_each(unsigned size_class, void *const *blocks, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (HZ_UNLIKELY(hz_pagetag_is_beyond(blocks[i])))
            hz_misuse(HZ_TEXT_FOREIGN, blocks[i], HZ_FOUND_LATER);
        if (HZ_UNLIKELY(!hz_class_has_start(size_class, blocks[i])))
            hz_misuse(HZ_TEXT_INTERIOR, blocks[i], HZ_FOUND_LATER);
    }
}

void hz_inspect_batch(struct hz_thread_block *self, unsigned size_class, void *const *blocks, uint32_t count) {
    bool is_thorough = ++self->batches_inspected % BATCHES_BETWEEN == 0;
    if (HZ_UNLIKELY(is_thorough || !hz_class_may_have_starts(size_class, blocks, count)))
        inspect_each(size_class, blocks, count);
    if (!is_thorough)
        return;
    void *twice = twice_in(blocks, count, hz_class_grid(size_class));
    if (HZ_UNLIKELY(twice != NULL))
        hz_misuse(HZ_TEXT_DOUBLE_FREE, twice, HZ_FOUND_LATER);
}
