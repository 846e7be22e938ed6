/*
 * mailbox.h - where blocks of one class wait for a shard of hz3: the stash, and behind it transfer and central. Each
 * has its own line.
 */
#ifndef HZ3_MAILBOX_H
#define HZ3_MAILBOX_H

#include "base/lock.h"
#include "base/mpsc.h"
#include "heap/pages/page_queue.h"

enum { HZ3_TRANSFER_SLOTS = HZ_CACHE_LINE_BYTES / sizeof(hz_list_word) };

/* A transfer slot has a list, or 0. The locks are used only with HZ_TRANSFER_LOCKFREE=0 and HZ_CENTRAL_LOCKFREE=0. */
struct hz_mailbox {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_mpsc stash; /* sync: stash-publish */
    struct hz_page_queue pages;                           /* replaces all others with HZ_PAGE_LOCAL_REMOTE=1 */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES)
    _Atomic(hz_list_word) transfer[HZ3_TRANSFER_SLOTS];     /* sync: transfer-publish, or its lock */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_mpsc central; /* sync: central-publish, or its lock */
    struct hz_lock transfer_lock;
    struct hz_lock central_lock;
};

_Static_assert(sizeof(struct hz_mailbox) == 3 * HZ_CACHE_LINE_BYTES, "one line each");

/* Blocks waiting in transfer, at some recent moment. */
HZ_INLINE uint32_t hz3_transfer_count(struct hz_mailbox *mail) {
    uint32_t count = 0;
    for (unsigned slot = 0; slot < HZ3_TRANSFER_SLOTS; slot++)
        count += hz_list_word_count(hz_load_rlx(&mail->transfer[slot])); /* relaxed: figure */
    return count;
}

/* Blocks waiting on central, at some recent moment. */
HZ_INLINE uint32_t hz3_central_count(struct hz_mailbox *mail) {
    return hz_mpsc_count(&mail->central);
}

#endif
