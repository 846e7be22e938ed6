/* What was sent to a shard goes into its pages: by a drain, when the last thread leaves, or once nothing more comes. */
#include "unit/heap/pages/sent.h"

namespace {

using unit::Blocks;

constexpr unsigned none = HZ_CLASS_NONE;

class Drain : public unit::SentShard {};

TEST_F(Drain, DrainEmptiesAll) {
    unsigned size_class = unit::largest_short;
    Blocks blocks = unit::take(shard_, size_class, 400);
    for (void *block : blocks)
        send(size_class, {block});
    Blocks carried = refill(size_class, 1);
    unit::drain(shard_, size_class);
    EXPECT_EQ(waiting(size_class), 0U);
    EXPECT_EQ(unit::carry_count(shard_, size_class), 0U);
    unit::put(shard_, carried);
}

TEST_F(Drain, AllClassesOfAShard) {
    std::vector<unsigned> classes = unit::some_short_and_long_classes();
    for (unsigned size_class : classes)
        send(size_class, unit::take(shard_, size_class, 1));
    hz_shard_drain(self_, shard_);
    for (unsigned size_class : classes) {
        EXPECT_EQ(waiting(size_class), 0U) << "class " << size_class;
        EXPECT_FALSE(hz_shard_was_sent(shard_, size_class)) << "class " << size_class;
    }
}

TEST_F(Drain, OneClassOfEveryShard) {
    struct hz_shard *own = self_->shard;
    send(7, unit::take(shard_, 7, 2));
    send(9, unit::take(shard_, 9, 2));
    struct hz_list list = unit::list_of(unit::take(own, 7, 2));
    {
        unit::ThreadOf other(self_, shard_); /* a thread sends nothing to its own shard */
        hz_shard_send(self_, own, 7, &list);
    }
    ASSERT_EQ(unit::waiting(own, 7), 2U);
    hz_shards_drain_class(self_, 7);
    EXPECT_EQ(waiting(7), 0U);
    EXPECT_EQ(unit::waiting(own, 7), 0U);
    EXPECT_EQ(waiting(9), 2U);
    hz_shards_drain_class(self_, 9);
}

TEST(DrainAtTheEnd, LeaveDrainsTheMailbox) {
    struct hz_thread_block *self = unit::self();
    struct hz_shard *shard = hz_shard_claim();
    Blocks blocks = unit::take(shard, 7, 10);
    struct hz_list list = unit::list_of(blocks);
    unit::forget_sparse(); /* blocks of a sparse class are not sent */
    hz_shard_send(self, shard, 7, &list);
    ASSERT_EQ(unit::waiting(shard, 7), 10U);
    ASSERT_TRUE(hz_shard_was_sent(shard, 7));
    hz_shard_leave(self, shard);
    EXPECT_EQ(unit::waiting(shard, 7), 0U);
    EXPECT_FALSE(hz_shard_was_sent(shard, 7));
    EXPECT_EQ(unit::retire_all(shard), 1U) << "all ten blocks are in their page";
}

/* ---- what was left alone for a round of ageing ---- */

class MailAge : public unit::SentShard {
  protected:
    /* Takes `count` blocks of the shard and sends them back. */
    void send(unsigned size_class, uint32_t count) {
        unit::SentShard::send(size_class, unit::take(shard_, size_class, count));
    }
};

TEST_F(MailAge, WhatWasLeftAloneForARoundIsDrained) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        send(size_class, 3);
        EXPECT_EQ(hz_shard_due(shard_), none);
        hz_shard_age_sent(shard_);
        EXPECT_EQ(hz_shard_due(shard_), none) << "it was sent since the round before";
        EXPECT_FALSE(hz_shards_drain_due(self_, 10));
        EXPECT_EQ(waiting(size_class), 3U);
        EXPECT_TRUE(hz_shard_was_sent(shard_, size_class)) << "the class has a mark at each instant";
        hz_shard_age_sent(shard_);
        EXPECT_EQ(hz_shard_due(shard_), size_class);
        EXPECT_EQ(waiting(size_class), 3U);
        EXPECT_FALSE(hz_shards_drain_due(self_, 10)) << "none is left";
        EXPECT_EQ(waiting(size_class), 0U);
        EXPECT_FALSE(hz_shard_was_sent(shard_, size_class));
        EXPECT_EQ(hz_shard_due(shard_), none);
        EXPECT_EQ(unit::retire_all(shard_), 1U) << "the blocks are in their page";
    }
}

/* The pages of long blocks retire as soon as they are drained. */
TEST_F(MailAge, LongBlocksThatWereLeftAloneAreDrained) {
    for (unsigned size_class : unit::some_long_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        send(size_class, 1);
        hz_shard_age_sent(shard_);
        EXPECT_EQ(hz_shard_due(shard_), none) << "it was sent since the round before";
        EXPECT_EQ(waiting(size_class), 1U);
        EXPECT_EQ(unit::pages_of(shard_), 1U);
        hz_shard_age_sent(shard_);
        EXPECT_EQ(hz_shard_due(shard_), size_class);
        EXPECT_FALSE(hz_shards_drain_due(self_, 10)) << "none is left";
        EXPECT_EQ(waiting(size_class), 0U);
        EXPECT_EQ(unit::pages_of(shard_), 0U);
    }
}

TEST_F(MailAge, WhatIsStillBeingSentStays) {
    constexpr unsigned busy = 7;
    constexpr unsigned quiet = 70;
    send(quiet, 2);
    for (uint32_t i = 1; i <= 5; i++) {
        send(busy, 2);
        hz_shard_age_sent(shard_);
        hz_shards_drain_due(self_, 10);
        EXPECT_EQ(waiting(busy), 2 * i);
        EXPECT_EQ(waiting(quiet), i == 1 ? 2U : 0U);
    }
    hz_shard_age_sent(shard_);
    hz_shards_drain_due(self_, 10);
    EXPECT_EQ(waiting(busy), 0U);
}

/* A class that was due, and is sent something before its turn comes, waits for another quiet round. */
TEST_F(MailAge, ADueClassMayComeToLife) {
    send(7, 2);
    hz_shard_age_sent(shard_);
    hz_shard_age_sent(shard_);
    ASSERT_EQ(hz_shard_due(shard_), 7U);
    send(7, 2);
    hz_shard_age_sent(shard_);
    EXPECT_EQ(hz_shard_due(shard_), none);
    EXPECT_TRUE(hz_shard_was_sent(shard_, 7));
    hz_shard_age_sent(shard_);
    EXPECT_EQ(hz_shard_due(shard_), 7U);
    hz_shards_drain_due(self_, 1);
    EXPECT_EQ(waiting(7), 0U);
}

TEST_F(MailAge, ACallDrainsAFewClasses) {
    std::vector<unsigned> classes = unit::some_classes();
    for (unsigned size_class : classes)
        send(size_class, 1);
    hz_shards_age_sent();
    hz_shards_age_sent();
    size_t left = classes.size();
    while (left > 3) {
        EXPECT_TRUE(hz_shards_drain_due(self_, 3));
        left -= 3;
        size_t wait = 0;
        for (unsigned size_class : classes)
            wait += waiting(size_class);
        EXPECT_EQ(wait, left);
    }
    EXPECT_FALSE(hz_shards_drain_due(self_, 3));
}

TEST_F(MailAge, EveryShardAges) {
    struct hz_shard *own = self_->shard;
    send(7, 2);
    struct hz_list list = unit::list_of(unit::take(own, 9, 2));
    {
        unit::ThreadOf other(self_, shard_); /* a thread sends nothing to its own shard */
        hz_shard_send(self_, own, 9, &list);
    }
    ASSERT_EQ(unit::waiting(own, 9), 2U);
    hz_shards_age_sent();
    hz_shards_age_sent();
    EXPECT_FALSE(hz_shards_drain_due(self_, 2));
    EXPECT_EQ(waiting(7), 0U);
    EXPECT_EQ(unit::waiting(own, 9), 0U);
}

/* What a refill left over of a list goes with the rest. */
TEST_F(MailAge, LeftoversGoToo) {
    constexpr unsigned size_class = 7;
    send(size_class, 9);
    Blocks some = unit::refill(shard_, size_class, 4);
    ASSERT_EQ(some.size(), 4U);
    ASSERT_EQ(waiting(size_class), 5U);
    hz_shard_age_sent(shard_);
    hz_shard_age_sent(shard_);
    hz_shards_drain_due(self_, 1);
    EXPECT_EQ(unit::carry_count(shard_, size_class), 0U);
    EXPECT_EQ(waiting(size_class), 0U);
    unit::put(shard_, some);
}

} // namespace
