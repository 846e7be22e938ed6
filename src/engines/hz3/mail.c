/*
 * mail.c - hz3's way to send blocks home: stash, then transfer, then central. Called by heap/pages/send.c and drain.c.
 *
 * Per class, a shard's stash holds up to HZ_STASH_BYTES, its central up to HZ_CENTRAL_BYTES (each at least one batch),
 * its transfer up to 8 lists, and its carry what is left of the list last taken. Without a stash (HZ_STASH_BYTES=0)
 * transfer comes first. No sender takes the shard's lock. Transfer and central use locks of their own only in lanes
 * with the mutex variants. Edge "stash-publish" is mpsc.h's send-take.
 *
 * HZ_PAGE_LOCAL_REMOTE=1 replaces all that: blocks go to their pages (heap/pages/page_local.c), and only the pages' own
 * size bounds what waits.
 */
#include "heap/pages/mail.h"

#include "central.h"
#include "heap/pages/page_local.h"
#include "heap/pages/shard.h"
#include "transfer.h"

_Static_assert(
    HZ_EXCLUSIVE_ALWAYS || !HZ_PAGE_LOCAL_REMOTE,
    "HZ_PAGE_LOCAL_REMOTE=1: needs HZ_EXCLUSIVE_ALWAYS=1, because the queue of pages allows one taker at a time");

enum { HAS_STASH = HZ_STASH_BYTES > 0 };

/* The number of blocks that fit into `bytes`, but at least a batch. */
static uint32_t mail_cap(size_t bytes, unsigned size_class) {
    return (uint32_t)hz_min(hz_max(bytes / hz_class_bytes(size_class), hz_batch_count(size_class)), HZ_LIST_COUNT_MAX);
}

static bool stash_send(struct hz_mailbox *mail, unsigned size_class, const struct hz_list *list) {
    /* sync: stash-publish, partner stash_take */
    return HAS_STASH && hz_mpsc_send(&mail->stash, list, mail_cap(HZ_STASH_BYTES, size_class));
}

static hz_list_word stash_take(struct hz_mailbox *mail) {
    return HAS_STASH ? hz_mpsc_take(&mail->stash) : 0; /* sync: stash-publish, partner stash_send */
}

bool hz_mail_send(struct hz_thread_block *self, struct hz_mailbox *mail, unsigned size_class,
                  const struct hz_list *list) {
    if (HZ_PAGE_LOCAL_REMOTE) {
        hz_page_local_send(self, &mail->pages, list);
        return true;
    }
    if (stash_send(mail, size_class, list))
        hz_count(&self->counters.stash_send, 1);
    else if (hz3_transfer_send(mail, list))
        hz_count(&self->counters.transfer_send, 1);
    else if (hz3_central_send(mail, list, mail_cap(HZ_CENTRAL_BYTES, size_class)))
        hz_count(&self->counters.central_send, 1);
    else
        return false;
    return true;
}

hz_list_word hz_mail_take(struct hz_thread_block *self, struct hz_mailbox *mail) {
    if (HZ_PAGE_LOCAL_REMOTE)
        return hz_page_local_take(self, &mail->pages);
    hz_list_word word = stash_take(mail);
    _Atomic(uint64_t) *counter = &self->counters.refill_stash;
    if (word == 0) {
        word = hz3_transfer_take(mail);
        counter = &self->counters.refill_transfer;
    }
    if (word == 0) {
        word = hz3_central_take(mail);
        counter = &self->counters.refill_central;
    }
    if (word != 0)
        hz_count(counter, 1);
    return word;
}

static uint32_t stash_count(struct hz_mailbox *mail) {
    return hz_mpsc_count(&mail->stash);
}

uint32_t hz_mail_count(struct hz_mailbox *mail) {
    return stash_count(mail) + hz3_transfer_count(mail) + hz3_central_count(mail);
}

const struct hz_mail_part hz_mail_parts[HZ_MAIL_PARTS] = {
    {"stash_bytes", stash_count},
    {"transfer_bytes", hz3_transfer_count},
    {"central_bytes", hz3_central_count},
};

/* Lists and slots are sound at each instant, but threads that vanished may have held locks. */
void hz_mail_after_fork(void) {
    if (HZ_TRANSFER_LOCKFREE && HZ_CENTRAL_LOCKFREE)
        return;
    for (unsigned index = 0; index < HZ_NUM_SHARDS; index++) {
        struct hz_shard *shard = hz_shard_get(index);
        for (unsigned size_class = 1; shard != NULL && size_class < HZ_CLASS_COUNT; size_class++) {
            hz_lock_settle(&shard->classes[size_class].mail.transfer_lock);
            hz_lock_settle(&shard->classes[size_class].mail.central_lock);
        }
    }
}

void hz_mail_settle_fork(void) {
    if (HZ_PAGE_LOCAL_REMOTE)
        hz_page_local_settle_fork();
}
