/*
 * way.h - which way home hz3's knobs choose, and hz3's names for the mailbox that is one list: the stash.
 */
#ifndef HZ3_WAY_H
#define HZ3_WAY_H

#include "heap/knobs.h"

enum {
    HZ_WAY_IS_QUEUES = HZ_PAGE_LOCAL_REMOTE,
    HZ_WAY_IS_STAGES = HZ_TRANSFER_CENTRAL,
    HZ_WAY_IS_DIRECT = !HZ_PAGE_LOCAL_REMOTE && !HZ_TRANSFER_CENTRAL && HZ_STASH_BYTES == 0,
    HZ_INBOX_MAX_BYTES = HZ_STASH_BYTES,
};

/* Figures of the parts of a mailbox in statistics. */
#define HZ_INBOX_FIGURE    "stash_bytes"
#define HZ_TRANSFER_FIGURE "transfer_bytes"
#define HZ_CENTRAL_FIGURE  "central_bytes"

_Static_assert(!(HZ_PAGE_LOCAL_REMOTE == 1 && HZ_TRANSFER_CENTRAL == 1),
               "HZ_TRANSFER_CENTRAL=1: needs HZ_PAGE_LOCAL_REMOTE=0, because a library has one way home");
_Static_assert(HZ_TRANSFER_CENTRAL == 1 || (HZ_TRANSFER_LOCKFREE == 1 && HZ_CENTRAL_LOCKFREE == 1 &&
                                            HZ_TRANSFER_FAILFAST == 0 && HZ_CENTRAL_SHADOW == 0),
               "HZ_TRANSFER_LOCKFREE=0, HZ_CENTRAL_LOCKFREE=0, HZ_TRANSFER_FAILFAST=1, HZ_CENTRAL_SHADOW=1: need "
               "HZ_TRANSFER_CENTRAL=1, or there is no transfer and no central");

#endif
