/*
 * shard.c - shards: who belongs to one, its lock, what it gives. Callers: thread.c (claim, release), refill.c, purge.c.
 *
 * Every consumer of a shard holds its `exclusive`: its own threads when they refill, a sender that finds no room, the
 * purger. So a sleeping owner's memory can be taken home by anybody, and more threads than shards can share. Senders to
 * the mailboxes take no lock.
 *
 * HZ_EXCLUSIVE_ALWAYS=0 (one thread to a shard, else the program ends): the thread takes what was sent without the
 * lock, while a purge may too, or who adopts pages. Each list is taken by an exchange, so it has one taker; leftovers
 * are put back by the shard's thread only, so none are overwritten. Pages need the lock still. Edge "carry-publish":
 * the links of leftovers are visible to a purge that takes them.
 */
#include "base/meta.h"
#include "base/os.h"
#include "core/core.h"

/* sync: shard-publish */
static _Atomic(struct hz_shard *) shards[HZ_NUM_SHARDS];

struct hz_shard *hz_shard_get(unsigned index) {
    return index < HZ_NUM_SHARDS ? hz_load_acq(&shards[index]) : NULL; /* sync: shard-publish, partner shard_make */
}

static struct hz_shard *shard_make(unsigned index) {
    struct hz_shard *made = hz_meta_alloc(sizeof(*made));
    if (made == NULL)
        return NULL;
    hz_lock_init(&made->exclusive, HZ_RANK_SHARD);
    made->index = index;
    struct hz_shard *seen = NULL;
    /* sync: shard-publish. The loser of a race wastes its shard: address space, hardly touched */
    return hz_cas_strong_ar_acq(&shards[index], &seen, made) ? made : seen;
}

/* How many shards threads are spread over: decided by who asks first, so by the CPUs it may run on then. */
static uint32_t shard_limit(void) {
    static _Atomic(uint32_t) limit; /* hint: 0 until somebody asked */
    uint32_t seen = hz_load_rlx(&limit);
    if (seen == 0) {
        seen = HZ_SHARDS_PER_CPU == 0 ? HZ_NUM_SHARDS
                                      : (uint32_t)hz_min((size_t)HZ_SHARDS_PER_CPU * hz_os_cpu_count(), HZ_NUM_SHARDS);
        hz_store_rlx(&limit, seen);
    }
    return seen;
}

/* The first shard without threads, made if need be. */
static struct hz_shard *claim_unused(void) {
    uint32_t limit = shard_limit();
    for (unsigned index = 0; index < limit; index++) {
        struct hz_shard *shard = hz_shard_get(index);
        if (shard == NULL)
            shard = shard_make(index);
        if (shard == NULL)
            return NULL;
        uint32_t expected = 0;
        if (hz_load_rlx(&shard->threads) == 0 &&                  /* relaxed: hint */
            hz_cas_strong_acq_rlx(&shard->threads, &expected, 1)) /* sync: shard-claim, partner hz_shard_release */
            return shard;
    }
    return NULL;
}

struct hz_shard *hz_shard_claim(void) {
    struct hz_shard *best = claim_unused();
    if (best != NULL)
        return best;
    if (HZ_SHARD_COLLISION_FAILFAST && hz_shard_get(HZ_NUM_SHARDS - 1) != NULL) /* else: no memory for another */
        hz_fail_number(HZ_TEXT_SHARDS, HZ_NUM_SHARDS);
    if (!HZ_EXCLUSIVE_ALWAYS)
        return NULL;
    for (unsigned index = 0; index < HZ_NUM_SHARDS; index++) {
        struct hz_shard *shard = hz_shard_get(index);
        if (shard != NULL &&
            (best == NULL || hz_load_rlx(&shard->threads) < hz_load_rlx(&best->threads))) /* relaxed: hint */
            best = shard;
    }
    if (best != NULL)
        hz_add_ar(&best->threads, 1); /* sync: shard-claim. All that is shared in the shard is behind `exclusive` */
    return best;
}

void hz_shard_release(struct hz_thread_block *self, struct hz_shard *shard) {
    if (hz_load_rlx(&shard->threads) == 1) { /* relaxed: hint; what is missed here waits for the next thread or purge */
        for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
            if (!hz_shard_was_sent(shard, size_class) &&
                hz_load_rlx(&shard->classes[size_class].carry) == 0) /* relaxed: hint */
                continue;
            hz_shard_lock(self, shard, HZ_TO_GIVE);
            struct hz_list strays = hz_shard_drain_locked(self, shard, size_class);
            hz_shard_unlock(shard);
            hz_blocks_put_home(self, &strays);
        }
    }
    hz_sub_ar(&shard->threads, 1); /* sync: shard-claim, partner claim_unused */
}

/* ---- its lock -------------------------------------------------------------------------------------- */

void hz_shard_lock(struct hz_thread_block *self, struct hz_shard *shard, enum hz_lock_purpose purpose) {
    bool waits = !hz_lock_try_acquire(&shard->exclusive);
    if (HZ_UNLIKELY(waits))
        hz_lock_acquire(&shard->exclusive);
    if (!hz_is_attached(self))
        return;
    struct hz_counters *count = &self->counters;
    bool gets = purpose == HZ_TO_GET;
    if (shard == self->shard)
        hz_count(gets ? &count->ls_acq_self : &count->ls_rel_self, 1);
    else
        hz_count(gets ? &count->ls_acq_steal : &count->ls_rel_steal, 1);
    if (waits)
        hz_count(gets ? &count->ls_acq_miss : &count->ls_rel_miss, 1);
}

void hz_shard_unlock(struct hz_shard *shard) {
    hz_lock_release(&shard->exclusive);
}

/* ---- what the shard gives ------------------------------------------------------------------------ */

uint32_t hz_shard_waiting(struct hz_shard *shard, unsigned size_class) {
    struct hz_shard_class *home = &shard->classes[size_class];
    return hz_list_word_count(hz_load_rlx(&home->carry)) + hz_mail_count(&home->mail); /* relaxed: figure */
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

static void count_max(_Atomic(uint64_t) *counter, uint64_t value) {
    if (value > hz_load_rlx(counter)) /* relaxed: counter, written by its owner only */
        hz_store_rlx(counter, value);
}

static hz_list_word mail_take(struct hz_thread_block *self, struct hz_shard_class *home, unsigned size_class) {
    hz_list_word word = hz_mail_take(self, &home->mail);
    if (HZ_LISTS_CHECKED)
        hz_list_check(size_class, hz_list_word_head(word), hz_list_word_count(word));
    return word;
}

/* Leftovers. Under the lock they stay there too until carry_put: a fork's copy has them in one place or the other. */
static hz_list_word carry_take(struct hz_shard_class *home, unsigned size_class) {
    hz_list_word word = hz_load_rlx(&home->carry); /* relaxed: lock; without it, a hint */
    if (!HZ_EXCLUSIVE_ALWAYS && word != 0)
        word = hz_xchg_acq(&home->carry, 0); /* sync: carry-publish, partner carry_put */
    if (HZ_LISTS_CHECKED)
        hz_list_check(size_class, hz_list_word_head(word), hz_list_word_count(word));
    return word;
}

static void carry_put(struct hz_shard_class *home, hz_list_word word) {
    hz_store_rel(&home->carry, word); /* sync: carry-publish, partner carry_take */
}

/* What was left over, else what was sent. Under the lock, or by a shard's only thread. */
static uint32_t take_sent(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want) {
    struct hz_shard_class *home = &self->shard->classes[size_class];
    hz_list_word word = carry_take(home, size_class);
    bool carried = word != 0;
    if (!carried)
        word = mail_take(self, home, size_class);
    if (word == 0)
        return 0;
    uint32_t got;
    hz_list_word rest = list_take(word, out, want, &got);
    carry_put(home, rest);
    if (carried)
        hz_count(&self->counters.refill_carry, 1);
    else
        count_max(&self->counters.inbox_stash_max, hz_list_word_count(rest));
    return got;
}

static uint32_t refill_sent(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want) {
    uint32_t got = 0;
    uint32_t sent;
    while (got < want && (sent = take_sent(self, size_class, out + got, want - got)) > 0)
        got += sent;
    return got;
}

static uint32_t refill_locked(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want) {
    uint32_t got = refill_sent(self, size_class, out, want);
    uint32_t from_pages = hz_pages_take_locked(self->shard, size_class, out + got, want - got);
    if (from_pages > 0)
        hz_count(&self->counters.refill_page, 1);
    return got + from_pages;
}

static uint32_t refill_from_new_page_locked(struct hz_thread_block *self, unsigned size_class, void **out,
                                            uint32_t want) {
    if (!hz_page_create_locked(self->shard, size_class))
        return 0;
    hz_count(&self->counters.page_create, 1);
    hz_count(&self->counters.refill_page, 1);
    if (hz_class_is_mid(size_class))
        hz_count(&self->counters.mid_page_create, 1);
    return hz_pages_take_locked(self->shard, size_class, out, want);
}

/* *hit: without taking over or making a page. */
static uint32_t refill_by_lock(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want,
                               bool *hit) {
    hz_shard_lock(self, self->shard, HZ_TO_GET);
    bool carried = hz_load_rlx(&self->shard->classes[size_class].carry) != 0; /* relaxed: lock */
    hz_count(carried ? &self->counters.carry_hit : &self->counters.carry_miss, 1);
    uint32_t got = refill_locked(self, size_class, out, want);
    hz_shard_unlock(self->shard);
    *hit = got > 0;
    if (!*hit) {
        hz_pages_adopt(self, size_class); /* holds another shard's lock meanwhile, never two */
        hz_shard_lock(self, self->shard, HZ_TO_GET);
        got = refill_locked(self, size_class, out, want); /* what was adopted, or has come home meanwhile */
        if (got == 0)
            got = refill_from_new_page_locked(self, size_class, out, want);
        hz_shard_unlock(self->shard);
    }
    return got;
}

uint32_t hz_shard_refill(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want) {
    bool hit = true;
    uint32_t got = HZ_EXCLUSIVE_ALWAYS ? 0 : refill_sent(self, size_class, out, want);
    if (got == 0)
        got = refill_by_lock(self, size_class, out, want, &hit);
    if (hz_class_is_mid(size_class) && got > 0) {
        hz_count(&self->counters.mid_lock_path, 1);
        hz_count(hit ? &self->counters.mid_bin_hit : &self->counters.mid_bin_miss, 1);
    }
    return got;
}

struct hz_list hz_shard_drain_locked(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class) {
    struct hz_shard_class *home = &shard->classes[size_class];
    struct hz_list strays = {0};
    size_t left = hz_class_blocks(size_class); /* senders may go on for ever; there is no more than this at once */
    hz_assert(hz_lock_is_mine(&shard->exclusive));
    hz_shard_forget_sent(shard, size_class);
    hz_list_word word = carry_take(home, size_class);
    if (HZ_EXCLUSIVE_ALWAYS)
        hz_store_rlx(&home->carry, 0); /* relaxed: lock; before the blocks are anywhere else */
    hz_signal_fence();
    for (word = word != 0 ? word : mail_take(self, home, size_class); word != 0;
         word = mail_take(self, home, size_class)) {
        uint32_t count = hz_list_word_count(word);
        uint32_t retired = hz_pages_put_list_locked(shard, hz_list_word_head(word), count, &strays);
        hz_count(&self->counters.page_retire, retired);
        if (count > left) {
            hz_shard_mark_sent(shard, size_class);
            break;
        }
        left -= count;
    }
    return strays;
}
