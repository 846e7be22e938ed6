/*
 * mail.h - the way home: how a list of one class is sent to another shard. Each mail.c below src/ways implements it,
 * over its own struct hz_mailbox (mailbox.h). The knobs choose one of them (way.h of the engine).
 */
#ifndef HZ_WAYS_LISTS_MAIL_H
#define HZ_WAYS_LISTS_MAIL_H

#include "heap/pages/send.h"
#include "list.h"
#include "mailbox.h"

/* Most blocks of a list that hz_blocks_send sends. */
HZ_INLINE uint32_t hz_mail_list_max(unsigned size_class) {
    if (!hz_class_is_home(size_class))
        return hz_batch_count(size_class);
    if (!hz_class_is_mid(size_class))
        return HZ_HOME_COUNT;
    return (uint32_t)hz_min(hz_bin_capacity(size_class), HZ_HOME_COUNT);
}

/* Most blocks that may wait in a part of a mailbox that is bounded by `bytes`: at least one list. */
HZ_INLINE uint32_t hz_mail_cap(size_t bytes, unsigned size_class) {
    size_t blocks = hz_max(bytes / hz_class_bytes(size_class), hz_mail_list_max(size_class));
    return (uint32_t)hz_min(blocks, HZ_LIST_COUNT_MAX);
}

/* Sends the list. False when there is no room; in that case nothing but links has changed. Any thread; takes no shard's
   lock. */
bool hz_mail_send(struct hz_thread_block *self, struct hz_mailbox *mail, unsigned size_class,
                  const struct hz_list *list);

/* Takes some of what was sent, as one list; 0 when there is nothing. Needs the shard's exclusive, unless
   takers.h says that the shard's only thread may do without. */
hz_list_word hz_mail_take(struct hz_thread_block *self, struct hz_mailbox *mail);

/* Blocks waiting, at some recent moment: in all parts of the mailbox together. */
uint32_t hz_mail_count(struct hz_mailbox *mail);

/* The parts of a mailbox, in the order in which lists come into them. Unused ones have no figure. */
enum { HZ_MAIL_PARTS = 3 };

struct hz_mail_part {
    const char *figure;                         /* the figure in statistics: bytes waiting in this part */
    uint32_t (*count)(struct hz_mailbox *mail); /* blocks waiting in it, at some recent moment */
};

extern HZ_HIDDEN const struct hz_mail_part hz_mail_parts[HZ_MAIL_PARTS];

/* Puts blocks that wait outside the mailboxes, if the way has such, into their pages. Any thread, holding no lock. */
void hz_mail_gather(struct hz_thread_block *self);

/* In a fork's child, after the shards' locks and lists were repaired: makes the mailboxes' locks usable again. */
void hz_mail_after_fork(void);

/* In a fork's child, while its thread is outside the heap: repairs the mailboxes themselves. */
void hz_mail_settle_fork(void);

#endif
