/*
 * drain.c - see drain.h.
 */
#include "heap/pages/drain.h"

#include "heap/pages/link.h"
#include "heap/pages/list_check.h"
#include "heap/pages/mail.h"
#include "heap/pages/page.h"
#include "heap/pages/put.h"
#include "heap/seal.h"
#include "takers.h"

uint32_t hz_shard_waiting(struct hz_shard *shard, unsigned size_class) {
    struct hz_shard_class *home = &shard->classes[size_class];
    return hz_list_word_count(hz_load_rlx(&home->carry)) + hz_mail_count(&home->mail); /* relaxed: figure */
}

/* Copies up to `want` blocks of a list and returns the rest of it. Ends the program if a link, which the program may
 * have overwritten, points outside the class's pages. Never goes past the count: the last link may hold anything. */
static hz_list_word list_split(unsigned size_class, hz_list_word word, void **out, uint32_t want, uint32_t *got) {
    uint32_t count = hz_list_word_count(word);
    uint32_t take = (uint32_t)hz_min(count, want);
    void *block = hz_list_word_head(word);
    for (uint32_t i = 0; i < take; i++) {
        void *next = i + 1 < count ? hz_link_follow(size_class, block) : NULL;
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

static hz_list_word carry_take(struct hz_shard_class *home, unsigned size_class) {
    hz_list_word word = hz_carry_take(&home->carry);
    if (HZ_LISTS_CHECKED)
        hz_list_check(size_class, hz_list_word_head(word), hz_list_word_count(word));
    return word;
}

/* Takes blocks of one list: of the leftovers, or else of the next list that was sent. */
static uint32_t take_once(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want) {
    struct hz_shard_class *home = &self->shard->classes[size_class];
    hz_list_word word = carry_take(home, size_class);
    bool carried = word != 0;
    if (!carried)
        word = mail_take(self, home, size_class);
    if (word == 0)
        return 0;
    uint32_t got;
    hz_list_word rest = list_split(size_class, word, out, want, &got);
    hz_carry_keep(&home->carry, rest);
    if (HZ_BLOCKS_SEALED) /* no list has them any more, not even in a fork's copy */
        hz_seals_mend(out, got);
    if (carried)
        hz_count(&self->counters.refill_carry, 1);
    else
        count_max(&self->counters.inbox_stash_max, hz_list_word_count(rest));
    return got;
}

uint32_t hz_shard_refill_sent(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want) {
    uint32_t got = 0;
    uint32_t sent;
    while (got < want && (sent = take_once(self, size_class, out + got, want - got)) > 0)
        got += sent;
    return got;
}

struct hz_list hz_shard_drain_locked(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class) {
    struct hz_shard_class *home = &shard->classes[size_class];
    struct hz_list strays = {0};
    size_t left = hz_class_blocks(size_class); /* senders may never stop, so stop after this many blocks */
    hz_assert(hz_lock_is_mine(&shard->exclusive));
    hz_shard_forget_sent(shard, size_class);
    hz_list_word word = carry_take(home, size_class);
    hz_carry_clear_locked(&home->carry); /* before the blocks are anywhere else */
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

static void drain_class(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class) {
    hz_shard_lock(self, shard, HZ_TO_GIVE);
    struct hz_list strays = hz_shard_drain_locked(self, shard, size_class);
    hz_shard_unlock(shard);
    hz_blocks_put(self, &strays);
}

void hz_shard_drain(struct hz_thread_block *self, struct hz_shard *shard) {
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        drain_class(self, shard, size_class);
}

bool hz_shards_were_sent(void) {
    struct hz_shard *shard;
    uint64_t marks = 0;
    for (unsigned index = 0; (shard = hz_shard_get(index)) != NULL; index++) /* shards are made in order */
        for (unsigned word = 0; word < HZ_CLASS_WORDS; word++)
            marks |= hz_load_rlx(&shard->sent[word]) | hz_load_rlx(&shard->waiting[word]); /* relaxed, both: hints */
    return marks != 0;
}

void hz_shards_age_sent(void) {
    struct hz_shard *shard;
    for (unsigned index = 0; (shard = hz_shard_get(index)) != NULL; index++) /* shards are made in order */
        hz_shard_age_sent(shard);
}

bool hz_shards_drain_due(struct hz_thread_block *self, uint32_t classes) {
    struct hz_shard *shard;
    for (unsigned index = 0; (shard = hz_shard_get(index)) != NULL; index++) {
        unsigned size_class;
        for (; (size_class = hz_shard_due(shard)) != HZ_CLASS_NONE; classes--) {
            if (classes == 0)
                return true;
            drain_class(self, shard, size_class);
        }
    }
    return false;
}

static void drain_if_marked(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class) {
    if (hz_shard_was_sent(shard, size_class) || hz_load_rlx(&shard->classes[size_class].carry) != 0) /* relaxed: hint */
        drain_class(self, shard, size_class);
}

void hz_shards_drain_class(struct hz_thread_block *self, unsigned size_class) {
    struct hz_shard *shard;
    for (unsigned index = 0; (shard = hz_shard_get(index)) != NULL; index++) /* shards are made in order */
        drain_if_marked(self, shard, size_class);
}

static void drain_marked(struct hz_thread_block *self, struct hz_shard *shard) {
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        drain_if_marked(self, shard, size_class);
}

void hz_shard_leave(struct hz_thread_block *self, struct hz_shard *shard) {
    if (hz_load_rlx(&shard->threads) == 1) /* relaxed: hint */
        drain_marked(self, shard);
    hz_shard_release(shard);
}
