/*
 * mailbox.h - where blocks of one class wait for a shard: in the stash, and behind it in transfer and central. Each has
 * its own line.
 */
#ifndef HZ_WAYS_STAGES_MAILBOX_H
#define HZ_WAYS_STAGES_MAILBOX_H

#include "base/lists/lock.h"
#include "mpsc.h"
#include "way.h"

_Static_assert(HZ_WAY_IS_STAGES, "the build compiled ways/stages, but the knobs choose another way home");

enum { HZ_TRANSFER_SLOTS = HZ_CACHE_LINE_BYTES / sizeof(hz_list_word) };

/* A transfer slot has a list, or 0. The locks are used only with HZ_TRANSFER_LOCKFREE=0 and HZ_CENTRAL_LOCKFREE=0. */
struct hz_mailbox {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_mpsc stash; /* sync: stash-publish */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES)
    _Atomic(hz_list_word) transfer[HZ_TRANSFER_SLOTS];      /* sync: transfer-publish, or its lock */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_mpsc central; /* sync: central-publish, or its lock */
    struct hz_lock transfer_lock;
    struct hz_lock central_lock;
};

_Static_assert(sizeof(struct hz_mailbox) == 3 * HZ_CACHE_LINE_BYTES, "one line each");

/* Blocks waiting in transfer, at some recent moment. */
HZ_INLINE uint32_t hz_transfer_count(struct hz_mailbox *mail) {
    uint32_t count = 0;
    for (unsigned slot = 0; slot < HZ_TRANSFER_SLOTS; slot++)
        count += hz_list_word_count(hz_load_rlx(&mail->transfer[slot])); /* relaxed: figure */
    return count;
}

/* Blocks waiting on central, at some recent moment. */
HZ_INLINE uint32_t hz_central_count(struct hz_mailbox *mail) {
    return hz_mpsc_count(&mail->central);
}

/* The lists in a mailbox, for walks. */
enum { HZ_MAIL_LISTS = HZ_TRANSFER_SLOTS + 2 };

HZ_INLINE hz_list_word hz_mail_list(struct hz_mailbox *mail, unsigned index) {
    if (index < HZ_TRANSFER_SLOTS)
        return hz_load_rlx(&mail->transfer[index]); /* relaxed, all: figure */
    return hz_load_rlx(index == HZ_TRANSFER_SLOTS ? &mail->stash.word : &mail->central.word);
}

#endif
