/*
 * page_queue.h - the queue through which pages reach their owner when blocks were sent to them. Only the structure, so
 * that the mailbox can contain it; page_local.c works on it.
 */
#ifndef HZ_WAYS_QUEUES_PAGE_QUEUE_H
#define HZ_WAYS_QUEUES_PAGE_QUEUE_H

#include "base/os/atomic.h"

struct hz_page;

struct hz_page_queue {
    _Atomic(struct hz_page *) head; /* sync: pageq-publish; linked by the pages' queue_next */
    struct hz_page *pending;        /* lock: taken from the queue, not drained yet */
};

#endif
