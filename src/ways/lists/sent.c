/*
 * sent.c - see sent.h.
 */
#include "sent.h"

#include "base/watch/report.h"
#include "block_link.h"
#include "box.h"
#include "heap/back/pressure.h"
#include "heap/pages/put.h"
#include "heap/pages/send.h"
#include "heap/seal.h"
#include "list_check.h"
#include "mail.h"
#include "put_list.h"
#include "takers.h"

/* ---- sending ------------------------------------------------------------------------------------------ */

/* Sends a list of one class. */
static void list_send(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class,
                      const struct hz_list *list) {
    if (HZ_LISTS_CHECKED)
        hz_list_check(size_class, list->head, list->count);
    /* relaxed: hint. A shard without threads would not look into its mailbox soon. Blocks of a sparse class, and
     * those that the keeper sends home, must not wait */
    if (shard != self->shard && hz_load_rlx(&shard->threads) > 0 && !hz_class_is_sparse(size_class) &&
        !self->is_keeper && hz_mail_send(self, &hz_box_of(shard, size_class)->mail, size_class, list)) {
        hz_count(&self->counters.mail_blocks, list->count);
        hz_box_mark_sent(shard, size_class);
    } else {
        hz_list_put(self, shard, list);
    }
}

void hz_shard_send(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class, void **blocks,
                   uint32_t count) {
    struct hz_list lists[HZ_HOME_COUNT];
    uint8_t classes[HZ_HOME_COUNT];
    uint8_t number_of[256] = {0}; /* by class: the number of its list, from 1; 0: none yet */
    uint8_t list_count = 0;
    hz_count(&self->counters.home_blocks, count);
    if (shard == self->shard) { /* own blocks need no list and are not touched */
        hz_shard_put(self, shard, blocks, count);
        return;
    }
    (void)size_class; /* of one class or several: the loop is the same */
    for (uint32_t i = 0; i < count; i++) {
        unsigned block_class = hz_pagetag_class(blocks[i]);
        if (number_of[block_class] == 0) {
            lists[list_count] = (struct hz_list){0};
            classes[list_count] = (uint8_t)block_class;
            number_of[block_class] = ++list_count;
        }
        struct hz_list *list = &lists[number_of[block_class] - 1];
        if (HZ_HAS_MID_HOME && hz_class_is_mid(block_class) && list->count == hz_mail_list_max(block_class)) {
            list_send(self, shard, block_class, list);
            *list = (struct hz_list){0};
        }
        hz_list_push(list, blocks[i]);
    }
    for (uint32_t i = 0; i < list_count; i++)
        list_send(self, shard, classes[i], &lists[i]);
}

/* ---- the carry: leftovers of the list that was last taken --------------------------------------------- */

/* If takers always hold the shard's lock, the leftovers stay in the carry until carry_keep, so a fork's copy never
 * lacks them. A thread that takes without the lock (HZ_TAKES_UNLOCKED) exchanges them for nothing first, so that a
 * purge or an adopting thread, which may take at the same time, cannot have them too. */

/* The leftovers; 0: none. */
static hz_list_word carry_read(_Atomic(hz_list_word) *carry) {
    hz_list_word word = hz_load_rlx(carry); /* relaxed: lock; without the lock, a hint */
    if (HZ_TAKES_UNLOCKED && word != 0)
        word = hz_xchg_acq(carry, 0); /* sync: carry-publish, partner carry_keep */
    return word;
}

/* Makes `word` the leftovers. */
static void carry_keep(_Atomic(hz_list_word) *carry, hz_list_word word) {
    hz_store_rel(carry, word); /* sync: carry-publish, partner carry_read */
}

/* A drain has taken the leftovers, under the lock. If the shard's thread takes without it, carry_read has cleared
   them. */
static void carry_clear_locked(_Atomic(hz_list_word) *carry) {
    if (!HZ_TAKES_UNLOCKED)
        hz_store_rlx(carry, 0); /* relaxed: lock */
    hz_signal_fence();
}

/* ---- taking ------------------------------------------------------------------------------------------- */

uint32_t hz_sent_count(struct hz_shard *shard, unsigned size_class) {
    struct hz_box *box = hz_box_of(shard, size_class);
    return hz_list_word_count(hz_load_rlx(&box->carry)) + hz_mail_count(&box->mail); /* relaxed: figure */
}

uint32_t hz_sent_count_in_page(struct hz_page *page) {
    return hz_list_word_count(hz_load_rlx(&page->remote)); /* relaxed: figure */
}

static void sent_list_walk(unsigned size_class, hz_list_word word, void (*visit)(void *context, const void *block),
                           void *context) {
    const void *block = hz_list_word_head(word);
    for (uint32_t left = hz_list_word_count(word); left > 0 && hz_pagetag_class(block) == size_class; left--) {
        visit(context, block);
        block = left > 1 ? hz_block_next(block) : NULL;
    }
}

/* Whom a walk calls. */
struct sent_walk {
    void (*visit)(void *context, const void *block);
    void *context;
};

static void sent_page_walk(void *of, struct hz_page *page) {
    const struct sent_walk *walk = of;
    sent_list_walk(hz_load_rlx(&page->size_class), hz_load_rlx(&page->remote), walk->visit,
                   walk->context); /* relaxed: figures */
}

void hz_sent_walk(void (*visit)(void *context, const void *block), void *context) {
    struct sent_walk walk = {visit, context};
    struct hz_shard *shard;
    for (unsigned index = 0; (shard = hz_shard_get(index)) != NULL; index++)
        for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
            struct hz_box *box = hz_box_of(shard, size_class);
            sent_list_walk(size_class, hz_load_rlx(&box->carry), visit, context); /* relaxed: figure */
            for (unsigned i = 0; i < HZ_MAIL_LISTS; i++)
                sent_list_walk(size_class, hz_mail_list(&box->mail, i), visit, context);
        }
    if (HZ_WAY_IS_QUEUES)
        hz_pages_walk(sent_page_walk, &walk);
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

static hz_list_word mail_take(struct hz_thread_block *self, struct hz_box *box, unsigned size_class) {
    hz_list_word word = hz_mail_take(self, &box->mail);
    if (HZ_LISTS_CHECKED)
        hz_list_check(size_class, hz_list_word_head(word), hz_list_word_count(word));
    return word;
}

static hz_list_word carry_take(struct hz_box *box, unsigned size_class) {
    hz_list_word word = carry_read(&box->carry);
    if (HZ_LISTS_CHECKED)
        hz_list_check(size_class, hz_list_word_head(word), hz_list_word_count(word));
    return word;
}

/* Takes blocks of one list: of the leftovers, or else of the next list that was sent. */
static uint32_t take_once(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want) {
    struct hz_box *box = hz_box_of(self->shard, size_class);
    hz_list_word word = carry_take(box, size_class);
    bool carried = word != 0;
    if (!carried)
        word = mail_take(self, box, size_class);
    if (word == 0)
        return 0;
    uint32_t got;
    hz_list_word rest = list_split(size_class, word, out, want, &got);
    carry_keep(&box->carry, rest);
    if (HZ_BLOCKS_SEALED) /* no list has them any more, not even in a fork's copy */
        hz_seals_mend(out, got);
    if (carried)
        hz_count(&self->counters.refill_carry, 1);
    else
        count_max(&self->counters.inbox_stash_max, hz_list_word_count(rest));
    return got;
}

uint32_t hz_sent_take(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want) {
    uint32_t got = 0;
    uint32_t sent;
    while (got < want && (sent = take_once(self, size_class, out + got, want - got)) > 0)
        got += sent;
    return got;
}

void hz_sent_count_leftovers(struct hz_thread_block *self, unsigned size_class) {
    bool carried = hz_load_rlx(&hz_box_of(self->shard, size_class)->carry) != 0; /* relaxed: lock */
    hz_count(carried ? &self->counters.carry_hit : &self->counters.carry_miss, 1);
}

/* ---- draining ----------------------------------------------------------------------------------------- */

void hz_sent_drain(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class) {
    struct hz_box *box = hz_box_of(shard, size_class);
    struct hz_list strays = {0};
    size_t left = hz_class_blocks(size_class); /* senders may never stop, so stop after this many blocks */
    hz_shard_lock(self, shard, HZ_TO_GIVE);
    hz_box_forget_sent(shard, size_class);
    hz_list_word word = carry_take(box, size_class);
    carry_clear_locked(&box->carry); /* before the blocks are anywhere else */
    for (word = word != 0 ? word : mail_take(self, box, size_class); word != 0;
         word = mail_take(self, box, size_class)) {
        uint32_t count = hz_list_word_count(word);
        hz_count(&self->counters.page_retire, hz_list_put_locked(shard, word, &strays));
        if (count > left) {
            hz_box_mark_sent(shard, size_class);
            break;
        }
        left -= count;
    }
    hz_shard_unlock(shard);
    hz_strays_put(self, &strays);
}

void hz_sent_drain_all(struct hz_thread_block *self) {
    for (struct hz_shard *shard = hz_shard_get(0); shard != NULL; shard = hz_shard_next(shard))
        for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
            hz_sent_drain(self, shard, size_class);
    hz_mail_gather(self);
}

bool hz_sent_waits(void) {
    uint64_t marks = 0;
    for (unsigned index = 0; hz_shard_get(index) != NULL; index++) /* shards are made in order */
        for (unsigned word = 0; word < HZ_CLASS_WORDS; word++)     /* relaxed, both: hints */
            marks |= hz_load_rlx(&hz_boxes[index].sent[word]) | hz_load_rlx(&hz_boxes[index].waiting[word]);
    return marks != 0;
}

void hz_sent_age(struct hz_thread_block *self) {
    for (struct hz_shard *shard = hz_shard_get(0); shard != NULL; shard = hz_shard_next(shard))
        hz_box_age_sent(shard);
    hz_mail_gather(self);
}

bool hz_sent_drain_due(struct hz_thread_block *self, uint32_t classes) {
    for (struct hz_shard *shard = hz_shard_get(0); shard != NULL; shard = hz_shard_next(shard)) {
        unsigned size_class;
        for (; (size_class = hz_box_due(shard)) != HZ_CLASS_NONE; classes--) {
            if (classes == 0)
                return true;
            hz_sent_drain(self, shard, size_class);
        }
    }
    return false;
}

bool hz_sent_may_wait(struct hz_shard *shard, unsigned size_class) {
    return hz_box_was_sent(shard, size_class) ||
           hz_load_rlx(&hz_box_of(shard, size_class)->carry) != 0; /* relaxed: hint */
}

void hz_sent_drain_class(struct hz_thread_block *self, unsigned size_class) {
    for (struct hz_shard *shard = hz_shard_get(0); shard != NULL; shard = hz_shard_next(shard))
        if (hz_sent_may_wait(shard, size_class))
            hz_sent_drain(self, shard, size_class);
}

void hz_sent_leave(struct hz_thread_block *self, struct hz_shard *shard) {
    if (hz_load_rlx(&shard->threads) != 1) /* relaxed: hint */
        return;
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        if (hz_sent_may_wait(shard, size_class))
            hz_sent_drain(self, shard, size_class);
}

/* ---- statistics and forks ----------------------------------------------------------------------------- */

void hz_sent_report(struct hz_report *report) {
    size_t in_parts[HZ_MAIL_PARTS] = {0};
    size_t in_carries = 0;
    for (struct hz_shard *shard = hz_shard_get(0); shard != NULL; shard = hz_shard_next(shard))
        for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
            struct hz_box *box = hz_box_of(shard, size_class);
            size_t block_bytes = hz_class_bytes(size_class);
            for (unsigned part = 0; part < HZ_MAIL_PARTS && hz_mail_parts[part].figure != NULL; part++)
                in_parts[part] += hz_mail_parts[part].count(&box->mail) * block_bytes;
            in_carries += hz_list_word_count(hz_load_rlx(&box->carry)) * block_bytes; /* relaxed: figure */
        }
    for (unsigned part = 0; part < HZ_MAIL_PARTS && hz_mail_parts[part].figure != NULL; part++)
        hz_report_number(report, hz_mail_parts[part].figure, in_parts[part]);
    hz_report_number(report, "carry_bytes", in_carries);
}

void hz_sent_after_fork(void) {
    hz_mail_after_fork();
}

void hz_sent_settle_fork(void) {
    hz_mail_settle_fork();
}
