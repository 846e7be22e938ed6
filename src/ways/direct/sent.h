/*
 * sent.h - what was sent to shards and is in no page yet: nothing, since senders put the blocks into the pages
 * themselves, under the lock of the shard. No block is written on its way.
 */
#ifndef HZ_WAYS_DIRECT_SENT_H
#define HZ_WAYS_DIRECT_SENT_H

#include "heap/pages/page.h"
#include "heap/pages/shard.h"
#include "way.h"

_Static_assert(HZ_WAY_IS_DIRECT, "the build compiled ways/direct, but the knobs choose another way home");
_Static_assert(HZ_EXCLUSIVE_ALWAYS || !HZ_SHARD_COLLISION_FAILFAST,
               "HZ_EXCLUSIVE_ALWAYS=0: needs HZ_STASH_BYTES, HZ_INBOX_BYTES or another mailbox, "
               "from which the shard's thread takes without the lock");

struct hz_report;

HZ_INLINE uint32_t hz_sent_take(struct hz_thread_block *self, unsigned size_class, void **out, uint32_t want) {
    (void)self, (void)size_class, (void)out, (void)want;
    return 0;
}

HZ_INLINE void hz_sent_count_leftovers(struct hz_thread_block *self, unsigned size_class) {
    (void)self, (void)size_class;
}

HZ_INLINE bool hz_sent_may_wait(struct hz_shard *shard, unsigned size_class) {
    (void)shard, (void)size_class;
    return false;
}

HZ_INLINE bool hz_sent_waits(void) {
    return false;
}

HZ_INLINE void hz_sent_drain(struct hz_thread_block *self, struct hz_shard *shard, unsigned size_class) {
    (void)self, (void)shard, (void)size_class;
}

HZ_INLINE void hz_sent_drain_class(struct hz_thread_block *self, unsigned size_class) {
    (void)self, (void)size_class;
}

HZ_INLINE void hz_sent_drain_all(struct hz_thread_block *self) {
    (void)self;
}

HZ_INLINE void hz_sent_age(struct hz_thread_block *self) {
    (void)self;
}

HZ_INLINE bool hz_sent_drain_due(struct hz_thread_block *self, uint32_t classes) {
    (void)self, (void)classes;
    return false;
}

HZ_INLINE void hz_sent_leave(struct hz_thread_block *self, struct hz_shard *shard) {
    (void)self, (void)shard;
}

HZ_INLINE uint32_t hz_sent_count(struct hz_shard *shard, unsigned size_class) {
    (void)shard, (void)size_class;
    return 0;
}

HZ_INLINE uint32_t hz_sent_count_in_page(struct hz_page *page) {
    (void)page;
    return 0;
}

HZ_INLINE void hz_sent_walk(void (*visit)(void *context, const void *block), void *context) {
    (void)visit, (void)context;
}

HZ_INLINE void hz_sent_report(struct hz_report *report) {
    (void)report;
}

HZ_INLINE void hz_sent_after_fork(void) {
}

HZ_INLINE void hz_sent_settle_fork(void) {
}

#endif
