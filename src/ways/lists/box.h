/*
 * box.h - what waits for a shard in lanes with mailboxes: for each class a mailbox and the leftovers of the list that
 * was last taken, and marks of what was sent. A zone's shard has none.
 */
#ifndef HZ_WAYS_LISTS_BOX_H
#define HZ_WAYS_LISTS_BOX_H

#include "heap/pages/shard.h"
#include "list.h"
#include "mailbox.h" /* struct hz_mailbox: each way has its own */

/* Senders write the mailbox, which has its own lines; the consumer writes the carry. */
struct hz_box {
    struct hz_mailbox mail;
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) _Atomic(hz_list_word) carry; /* lock, or sync: carry-publish; the leftovers */
};

struct hz_boxes {
    /* hints, of mailboxes that may hold something. `sent`: since the last round of ageing something was sent;
       `waiting`: before that round; `due`: before it, but nothing in the interval that it ended */
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) _Atomic(uint64_t) sent[HZ_CLASS_WORDS];
    _Atomic(uint64_t) waiting[HZ_CLASS_WORDS];
    _Atomic(uint64_t) due[HZ_CLASS_WORDS];
    struct hz_box classes[HZ_CLASS_COUNT];
};

extern HZ_HIDDEN struct hz_boxes hz_boxes[HZ_NUM_SHARDS];

HZ_INLINE struct hz_box *hz_box_of(const struct hz_shard *shard, unsigned size_class) {
    return &hz_boxes[shard->index].classes[size_class];
}

/* Whether blocks of the class may have been sent to the shard since its mark was last forgotten. Hints; any thread. */
bool hz_box_was_sent(const struct hz_shard *shard, unsigned size_class);
void hz_box_mark_sent(const struct hz_shard *shard, unsigned size_class);
void hz_box_forget_sent(const struct hz_shard *shard, unsigned size_class);

/* A round of ageing: a class that was sent something, but nothing since the last round, is due for a drain. */
void hz_box_age_sent(const struct hz_shard *shard);

/* A class that is due; HZ_CLASS_NONE when there is none. */
unsigned hz_box_due(const struct hz_shard *shard);

#endif
