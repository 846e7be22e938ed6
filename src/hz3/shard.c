/*
 * shard.c - shards: who belongs to one, what is sent to one, what one gives. Callers: thread.c (claim, release),
 * refill.c, home.c, purge.c.
 *
 * Every consumer of a shard holds its `exclusive`: its own threads when they refill, a sender that finds no room, the
 * purger. So a sleeping owner's memory can be taken home by anybody, and more threads than shards can share. Senders to
 * stash, transfer and central take no lock. What may wait for a shard, per class: HZ3_STASH_BYTES + 8 lists +
 * HZ3_CENTRAL_BYTES (one batch at least in each), and once more what was last drained of it (carry).
 */
#include "base/meta.h"
#include "hz3/hz3.h"

/* sync: shard-publish */
static _Atomic(struct hz3_shard *) shards[HZ3_NUM_SHARDS];

struct hz3_shard *hz3_shard_get(unsigned index) {
    return index < HZ3_NUM_SHARDS ? hz_load_acq(&shards[index]) : NULL; /* sync: shard-publish, partner shard_make */
}

static struct hz3_shard *shard_make(unsigned index) {
    struct hz3_shard *made = hz_meta_alloc(sizeof(*made));
    if (made == NULL)
        return NULL;
    hz_lock_init(&made->exclusive, HZ_RANK_SHARD);
    made->index = index;
    struct hz3_shard *seen = NULL;
    /* sync: shard-publish. The loser of a race wastes its shard: address space, hardly touched */
    return hz_cas_strong_ar_acq(&shards[index], &seen, made) ? made : seen;
}

/* The first shard without threads, made if need be. */
static struct hz3_shard *claim_unused(void) {
    for (unsigned index = 0; index < HZ3_NUM_SHARDS; index++) {
        struct hz3_shard *shard = hz3_shard_get(index);
        if (shard == NULL)
            shard = shard_make(index);
        if (shard == NULL)
            return NULL;
        uint32_t expected = 0;
        if (hz_load_rlx(&shard->threads) == 0 &&                  /* relaxed: hint */
            hz_cas_strong_acq_rlx(&shard->threads, &expected, 1)) /* sync: shard-claim, partner hz3_shard_release */
            return shard;
    }
    return NULL;
}

struct hz3_shard *hz3_shard_claim(void) {
    struct hz3_shard *best = claim_unused();
    if (best != NULL)
        return best;
    for (unsigned index = 0; index < HZ3_NUM_SHARDS; index++) {
        struct hz3_shard *shard = hz3_shard_get(index);
        if (shard != NULL &&
            (best == NULL || hz_load_rlx(&shard->threads) < hz_load_rlx(&best->threads))) /* relaxed: hint */
            best = shard;
    }
    if (best != NULL)
        hz_add_ar(&best->threads, 1); /* sync: shard-claim. All that is shared in the shard is behind `exclusive` */
    return best;
}

static bool was_sent(struct hz3_shard *shard, unsigned size_class) {
    return (hz_load_rlx(&shard->sent[size_class / 64]) >> (size_class % 64) & 1) != 0; /* relaxed: hint */
}

/* Relaxed: a mark that a drain at the same time overlooks is found by the next thread's refill, or by purge, which asks
 * no marks. */
static void mark_sent(struct hz3_shard *shard, unsigned size_class) {
    if (!was_sent(shard, size_class))
        hz_or_rlx(&shard->sent[size_class / 64], UINT64_C(1) << (size_class % 64));
}

void hz3_shard_release(struct hz3_thread *self, struct hz3_shard *shard) {
    if (hz_load_rlx(&shard->threads) == 1) { /* relaxed: hint; what is missed here waits for the next thread or purge */
        for (unsigned size_class = 1; size_class < HZ3_CLASS_COUNT; size_class++) {
            if (!was_sent(shard, size_class))
                continue;
            hz_lock_acquire(&shard->exclusive);
            hz3_shard_drain_locked(self, shard, size_class);
            hz_lock_release(&shard->exclusive);
        }
    }
    hz_sub_ar(&shard->threads, 1); /* sync: shard-claim, partner claim_unused */
}

uint32_t hz3_shard_waiting(struct hz3_shard *shard, unsigned size_class) {
    struct hz3_shard_class *home = &shard->classes[size_class];
    return hz_list_word_count(hz_load_rlx(&home->carry)) + hz_mpsc_count(&home->stash) + /* relaxed: figure */
           hz3_transfer_count(home) + hz3_central_count(home);
}

/* ---- what the shard gives ------------------------------------------------------------------------ */

/* The next list that was sent to the shard, counted where it came from; 0 when there is none. */
static hz_list_word take_sent(struct hz3_thread *self, struct hz3_shard_class *home) {
    hz_list_word word = hz_mpsc_take(&home->stash); /* sync: stash-publish, partner hz3_shard_send */
    _Atomic(uint64_t) *counter = &self->counters.refill_stash;
    if (word == 0) {
        word = hz3_transfer_take(home);
        counter = &self->counters.refill_transfer;
    }
    if (word == 0) {
        word = hz3_central_take(home);
        counter = &self->counters.refill_central;
    }
    if (word != 0)
        hz3_count(counter, 1);
    return word;
}

/* Copies up to `want` blocks of a list; the rest of it is returned. Never goes past the count: the last link may be
 * anything. */
static hz_list_word list_take(hz_list_word word, void **out, uint32_t want, uint32_t *got) {
    uint32_t count = hz_list_word_count(word);
    uint32_t take = (uint32_t)hz_min(count, want);
    void *block = hz_list_word_head(word);
    for (uint32_t i = 0; i < take; i++) {
        void *next = i + 1 < count ? hz_block_next(block) : NULL;
        HZ_PREFETCH(next);
        out[i] = block;
        block = next;
    }
    *got = take;
    return take < count ? hz_list_word_make(block, count - take) : 0;
}

uint32_t hz3_shard_refill_locked(struct hz3_thread *self, struct hz3_shard *shard, unsigned size_class, void **out,
                                 uint32_t want) {
    struct hz3_shard_class *home = &shard->classes[size_class];
    hz_assert(hz_lock_is_mine(&shard->exclusive));
    hz_list_word word = hz_load_rlx(&home->carry); /* relaxed: lock */
    if (word != 0)
        hz3_count(&self->counters.refill_carry, 1);
    else
        word = take_sent(self, home);
    uint32_t got = 0;
    if (word != 0) {
        hz_store_rlx(&home->carry, list_take(word, out, want, &got)); /* relaxed: lock */
        return got;
    }
    hz3_count(&self->counters.refill_page, 1);
    got = hz3_pages_take_locked(shard, size_class, out, want);
    if (got == 0 && hz3_page_create_locked(shard, size_class)) {
        hz3_count(&self->counters.page_create, 1);
        got = hz3_pages_take_locked(shard, size_class, out, want);
    }
    return got;
}

/* ---- what is sent to it ---------------------------------------------------------------------------- */

static uint32_t stash_cap(unsigned size_class) {
    return (uint32_t)hz_min(hz_max(HZ3_STASH_BYTES / hz_class_bytes(size_class), hz3_batch_count(size_class)),
                            HZ_LIST_COUNT_MAX);
}

void hz3_shard_put(struct hz3_thread *self, struct hz3_shard *shard, void *const *blocks, uint32_t count) {
    uint32_t retired = 0;
    hz_lock_acquire(&shard->exclusive);
    for (uint32_t i = 0; i < count; i++)
        retired += hz3_page_put_locked(shard, blocks[i]);
    hz_lock_release(&shard->exclusive);
    hz3_count(&self->counters.home_blocks, count);
    hz3_count(&self->counters.page_retire, retired);
}

static void put_list(struct hz3_thread *self, struct hz3_shard *shard, const struct hz_list *list) {
    hz_lock_acquire(&shard->exclusive);
    uint32_t retired = hz3_pages_put_list_locked(shard, list->head, list->count);
    hz_lock_release(&shard->exclusive);
    hz3_count(&self->counters.direct_home, 1);
    hz3_count(&self->counters.page_retire, retired);
}

void hz3_shard_send(struct hz3_thread *self, struct hz3_shard *shard, unsigned size_class, struct hz_list *list) {
    struct hz3_shard_class *home = &shard->classes[size_class];
    hz3_count(&self->counters.home_blocks, list->count);
    if (shard == self->shard ||
        hz_load_rlx(&shard->threads) == 0) { /* relaxed: hint; nobody would drain the stash soon */
        put_list(self, shard, list);
        return;
    }
    if (hz_mpsc_send(&home->stash, list, stash_cap(size_class))) /* sync: stash-publish, partner take_sent */
        hz3_count(&self->counters.stash_send, 1);
    else if (hz3_transfer_send(home, list))
        hz3_count(&self->counters.transfer_send, 1);
    else if (hz3_central_send(home, size_class, list))
        hz3_count(&self->counters.central_send, 1);
    else {
        put_list(self, shard, list);
        return;
    }
    mark_sent(shard, size_class);
}

void hz3_shard_drain_locked(struct hz3_thread *self, struct hz3_shard *shard, unsigned size_class) {
    struct hz3_shard_class *home = &shard->classes[size_class];
    hz_assert(hz_lock_is_mine(&shard->exclusive));
    if (was_sent(shard, size_class))
        hz_and_rlx(&shard->sent[size_class / 64], ~(UINT64_C(1) << (size_class % 64))); /* relaxed: as in mark_sent */
    hz_list_word word = hz_load_rlx(&home->carry);                                      /* relaxed: lock */
    hz_store_rlx(&home->carry, 0); /* relaxed: lock; before the blocks are anywhere else */
    hz_signal_fence();
    for (word = word != 0 ? word : take_sent(self, home); word != 0; word = take_sent(self, home)) {
        uint32_t retired = hz3_pages_put_list_locked(shard, hz_list_word_head(word), hz_list_word_count(word));
        hz3_count(&self->counters.page_retire, retired);
    }
}
