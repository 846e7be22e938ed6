/*
 * mailbox.h - what of one class is sent to a shard of hz3: stash, and behind it transfer and central. Each has its own
 * line.
 */
#ifndef HZ3_MAILBOX_H
#define HZ3_MAILBOX_H

#include "base/lock.h"
#include "base/mpsc.h"
#include "core/pageq.h"

enum { HZ3_TRANSFER_SLOTS = HZ_CACHE_LINE_BYTES / sizeof(hz_list_word) };

/* A slot has a list, or 0. The locks are used with HZ_TRANSFER_LOCKFREE=0 and HZ_CENTRAL_LOCKFREE=0 only. */
struct hz_mailbox {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_mpsc stash; /* sync: stash-publish */
    struct hz_pageq pages;                                /* instead of all others: HZ_PAGE_LOCAL_REMOTE=1 */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES)
    _Atomic(hz_list_word) transfer[HZ3_TRANSFER_SLOTS];     /* sync: transfer-publish, or its lock */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_mpsc central; /* sync: central-publish, or its lock */
    struct hz_lock transfer_lock;
    struct hz_lock central_lock;
};

_Static_assert(sizeof(struct hz_mailbox) == 3 * HZ_CACHE_LINE_BYTES, "one line each");

#endif
