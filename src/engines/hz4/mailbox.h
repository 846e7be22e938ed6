/*
 * mailbox.h - where blocks of one class wait for a shard of hz4: in the inbox, or, with HZ_REMOTE_INBOX=0, in pages on
 * a queue. Each (shard, class) has its own line.
 */
#ifndef HZ4_MAILBOX_H
#define HZ4_MAILBOX_H

#include "base/atomic.h"
#include "base/mpsc.h"
#include "heap/pages/page_queue.h"

struct hz_mailbox {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_mpsc inbox; /* sync: inbox-publish */
    struct hz_page_queue pages;
};

#endif
