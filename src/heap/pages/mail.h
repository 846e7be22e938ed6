/*
 * mail.h - what an engine provides: its way to send a list of one class to another shard. Each engine implements it in
 * its mail.c, over its own struct hz_mailbox (mailbox.h).
 */
#ifndef HZ_HEAP_PAGES_MAIL_H
#define HZ_HEAP_PAGES_MAIL_H

#include "base/list.h"
#include "heap/thread_block.h"
#include "mailbox.h"

/* Sends the list. False when there is no room; in that case nothing but links has changed. Any thread; takes no shard's
   lock. */
bool hz_mail_send(struct hz_thread_block *self, struct hz_mailbox *mail, unsigned size_class,
                  const struct hz_list *list);

/* Takes some of what was sent, as one list; 0 when there is nothing. Needs the shard's exclusive, unless the shard has
   one thread only (HZ_EXCLUSIVE_ALWAYS=0) and that thread calls. */
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

/* In a fork's child, after the shards' locks and lists were repaired: makes the mailboxes' locks usable again. */
void hz_mail_after_fork(void);

/* In a fork's child, while its thread is outside the heap: repairs the mailboxes themselves. */
void hz_mail_settle_fork(void);

#endif
