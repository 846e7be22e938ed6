/*
 * mailbox.h - where blocks of one class wait for a shard: in the inbox, which is one list. Each (shard, class) has its
 * own line.
 */
#ifndef HZ_WAYS_INBOX_MAILBOX_H
#define HZ_WAYS_INBOX_MAILBOX_H

#include "mpsc.h"
#include "way.h"

_Static_assert(!HZ_WAY_IS_QUEUES && !HZ_WAY_IS_STAGES && !HZ_WAY_IS_DIRECT,
               "the build compiled ways/inbox, but the knobs choose another way home");

struct hz_mailbox {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_mpsc inbox; /* sync: inbox-publish */
};

/* The lists in a mailbox, for walks. */
enum { HZ_MAIL_LISTS = 1 };

HZ_INLINE hz_list_word hz_mail_list(struct hz_mailbox *mail, unsigned index) {
    (void)index;
    return hz_load_rlx(&mail->inbox.word); /* relaxed: figure */
}

#endif
