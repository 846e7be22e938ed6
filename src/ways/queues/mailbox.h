/*
 * mailbox.h - where blocks of one class wait for a shard when each block is sent to its page: a queue of pages. Each
 * (shard, class) has its own line.
 */
#ifndef HZ_WAYS_QUEUES_MAILBOX_H
#define HZ_WAYS_QUEUES_MAILBOX_H

#include "base/os/compiler.h"
#include "page_queue.h"
#include "way.h"

_Static_assert(HZ_WAY_IS_QUEUES, "the build compiled ways/queues, but the knobs choose another way home");
_Static_assert(HZ_EXCLUSIVE_ALWAYS, "HZ_PAGE_LOCAL_REMOTE=1, HZ_REMOTE_INBOX=0: need HZ_EXCLUSIVE_ALWAYS=1, because "
                                    "the queue of pages allows one taker at a time");

struct hz_mailbox {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_page_queue pages;
};

/* A mailbox has no lists, since they are in the pages: one that is always empty. */
enum { HZ_MAIL_LISTS = 1 };

HZ_INLINE uint64_t hz_mail_list(struct hz_mailbox *mail, unsigned index) {
    (void)mail, (void)index;
    return 0;
}

#endif
