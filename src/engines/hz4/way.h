/*
 * way.h - which way home hz4's knobs choose, and hz4's names for the mailbox that is one list: the inbox.
 */
#ifndef HZ4_WAY_H
#define HZ4_WAY_H

#include "heap/knobs.h"

enum {
    HZ_WAY_IS_QUEUES = !HZ_REMOTE_INBOX,
    HZ_WAY_IS_STAGES = 0,
    HZ_WAY_IS_DIRECT = HZ_REMOTE_INBOX && HZ_INBOX_BYTES == 0,
    HZ_INBOX_MAX_BYTES = HZ_INBOX_BYTES,
};

/* The figure of the mailbox in statistics. */
#define HZ_INBOX_FIGURE "inbox_bytes"

#endif
