/*
 * mailbox.h - what of one class is sent to a shard of hz3: stash, and behind it transfer and central. Each has its own
 * line.
 */
#ifndef HZ3_MAILBOX_H
#define HZ3_MAILBOX_H

#include "base/atomic.h"
#include "base/mpsc.h"

enum { HZ3_TRANSFER_SLOTS = HZ_CACHE_LINE_BYTES / sizeof(hz_list_word) };

struct hz_mailbox {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_mpsc stash;                               /* sync: stash-publish */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) _Atomic(hz_list_word) transfer[HZ3_TRANSFER_SLOTS]; /* sync: transfer-publish */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_mpsc central;                             /* sync: central-publish */
};

/* ---- transfer.c: whole lists handed over in a few slots ---- */
bool hz3_transfer_send(struct hz_mailbox *mail, const struct hz_list *list);
hz_list_word hz3_transfer_take(struct hz_mailbox *mail);
uint32_t hz3_transfer_count(struct hz_mailbox *mail);

/* ---- central.c: the overflow behind it ---- */
bool hz3_central_send(struct hz_mailbox *mail, unsigned size_class, const struct hz_list *list);
hz_list_word hz3_central_take(struct hz_mailbox *mail);
uint32_t hz3_central_count(struct hz_mailbox *mail);

#endif
