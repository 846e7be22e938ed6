/*
 * mailbox.h - what of one class is sent to a shard of hz4: the inbox, or, with HZ_REMOTE_INBOX=0, the queue of pages
 * that were sent something. Each (shard, class) has its own line.
 */
#ifndef HZ4_MAILBOX_H
#define HZ4_MAILBOX_H

#include "base/atomic.h"
#include "base/mpsc.h"
#include "core/pageq.h"

struct hz_mailbox {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_mpsc inbox; /* sync: inbox-publish */
    struct hz_pageq pages;
};

#endif
