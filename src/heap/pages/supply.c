/*
 * supply.c - see supply.h.
 *
 * Order: in lanes with mailboxes leftovers and what was sent; pages with free blocks; then pages of shards without
 * threads; then a new page.
 */
#include "heap/pages/supply.h"

#include "heap/pages/adopt.h"
#include "heap/pages/page.h"
#include "sent.h"
#include "takers.h"

/* `shard`: the thread's own, as a rule (hz_shard_lock_to_get). */
static uint32_t refill_locked(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class, void **out,
                              uint32_t want, uint64_t *fresh_units) {
    uint32_t got = shard == self->shard ? hz_sent_take(self, size_class, out, want) : 0;
    uint32_t from_pages = hz_pages_carve_locked(shard, size_class, out + got, want - got, fresh_units);
    if (from_pages > 0)
        hz_count(&self->counters.refill_page, 1);
    return got + from_pages;
}

static uint32_t refill_from_new_page_locked(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class,
                                            void **out, uint32_t want, uint64_t *fresh_units) {
    if (!hz_page_create_locked(shard, size_class))
        return 0;
    hz_count(&self->counters.page_create, 1);
    hz_count(&self->counters.refill_page, 1);
    if (hz_class_is_mid(size_class))
        hz_count(&self->counters.mid_page_create, 1);
    return hz_pages_carve_locked(shard, size_class, out, want, fresh_units);
}

/* *hit: no page had to be adopted or made. */
static uint32_t refill_by_lock(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want, bool *hit,
                               uint64_t *fresh_units) {
    struct hz_shard *shard = hz_shard_lock_to_get(self, size_class);
    hz_sent_count_leftovers(self, size_class);
    uint32_t got = refill_locked(self, shard, size_class, out, want, fresh_units);
    hz_shard_unlock(shard);
    *hit = got > 0;
    if (!*hit) {
        /* without the lock: adopting takes another shard's lock, and no thread holds two */
        if (shard == self->shard)
            hz_pages_adopt(self, size_class);
        shard = hz_shard_lock_to_get(self, size_class);
        /* what was adopted, or has come home meanwhile */
        got = refill_locked(self, shard, size_class, out, want, fresh_units);
        if (got == 0)
            got = refill_from_new_page_locked(self, shard, size_class, out, want, fresh_units);
        hz_shard_unlock(shard);
    }
    return got;
}

uint32_t hz_supply_refill(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want,
                          uint64_t *fresh_units) {
    bool hit = true;
    uint32_t got = HZ_TAKES_UNLOCKED ? hz_sent_take(self, size_class, out, want) : 0;
    if (got == 0)
        got = refill_by_lock(self, size_class, out, want, &hit, fresh_units);
    if (hz_class_is_mid(size_class) && got > 0) {
        hz_count(&self->counters.mid_lock_path, 1);
        hz_count(hit ? &self->counters.mid_bin_hit : &self->counters.mid_bin_miss, 1);
    }
    return got;
}
