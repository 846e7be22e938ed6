/* What was sent to a shard goes into its pages: by a drain, when the last thread leaves, or once nothing more comes. */
#include "unit/heap/pages/sent_shard.h"
#include "unit/ways/lists/lists.h"

namespace {

using unit::Blocks;

constexpr unsigned none = HZ_CLASS_NONE;

class Drain : public unit::SentShard {};

TEST_F(Drain, DrainEmptiesAll) {
    unsigned size_class = unit::largest_short;
    Blocks blocks = unit::take(shard_, size_class, 400);
    for (void *block : blocks)
        send({block});
    Blocks carried = refill(size_class, 1);
    unit::drain(shard_, size_class);
    EXPECT_EQ(waiting(size_class), 0U);
    EXPECT_EQ(unit::carry_count(shard_, size_class), 0U);
    unit::put(shard_, carried);
}

TEST_F(Drain, AllClassesOfAShard) {
    std::vector<unsigned> classes = unit::some_short_and_long_classes();
    for (unsigned size_class : classes)
        send(unit::take(shard_, size_class, 1));
    hz_sent_drain_all(self_);
    for (unsigned size_class : classes) {
        EXPECT_EQ(waiting(size_class), 0U) << "class " << size_class;
        EXPECT_FALSE(hz_box_was_sent(shard_, size_class)) << "class " << size_class;
    }
}

TEST_F(Drain, OneClassOfEveryShard) {
    struct hz_shard *own = self_->shard;
    send(unit::take(shard_, 7, 2));
    send(unit::take(shard_, 9, 2));
    Blocks blocks = unit::take(own, 7, 2);
    {
        unit::ThreadOf other(self_, shard_); /* a thread sends nothing to its own shard */
        unit::send(own, blocks);
    }
    ASSERT_EQ(unit::waiting(own, 7), 2U);
    hz_sent_drain_class(self_, 7);
    EXPECT_EQ(waiting(7), 0U);
    EXPECT_EQ(unit::waiting(own, 7), 0U);
    EXPECT_EQ(waiting(9), 2U);
    hz_sent_drain_class(self_, 9);
}

TEST(DrainAtTheEnd, LeaveDrainsTheMailbox) {
    unit::self();
    struct hz_shard *shard = hz_shard_claim();
    Blocks blocks = unit::take(shard, 7, 10);
    unit::forget_sparse(); /* blocks of a sparse class are not sent */
    unit::send(shard, blocks);
    ASSERT_EQ(unit::waiting(shard, 7), 10U);
    ASSERT_TRUE(hz_box_was_sent(shard, 7));
    unit::leave(shard);
    EXPECT_EQ(unit::waiting(shard, 7), 0U);
    EXPECT_FALSE(hz_box_was_sent(shard, 7));
    EXPECT_EQ(unit::retire_all(shard), 1U) << "all ten blocks are in their page";
}

/* ---- what was left alone for a round of ageing ---- */

class MailAge : public unit::SentShard {
  protected:
    /* Takes `count` blocks of the shard and sends them back. */
    void send(unsigned size_class, uint32_t count) {
        unit::SentShard::send(unit::take(shard_, size_class, count));
    }
};

TEST_F(MailAge, WhatWasLeftAloneForARoundIsDrained) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        send(size_class, 3);
        EXPECT_EQ(hz_box_due(shard_), none);
        hz_box_age_sent(shard_);
        EXPECT_EQ(hz_box_due(shard_), none) << "it was sent since the round before";
        EXPECT_FALSE(hz_sent_drain_due(self_, 10));
        EXPECT_EQ(waiting(size_class), 3U);
        EXPECT_TRUE(hz_box_was_sent(shard_, size_class)) << "the class has a mark at each instant";
        hz_box_age_sent(shard_);
        EXPECT_EQ(hz_box_due(shard_), size_class);
        EXPECT_EQ(waiting(size_class), 3U);
        EXPECT_FALSE(hz_sent_drain_due(self_, 10)) << "none is left";
        EXPECT_EQ(waiting(size_class), 0U);
        EXPECT_FALSE(hz_box_was_sent(shard_, size_class));
        EXPECT_EQ(hz_box_due(shard_), none);
        EXPECT_EQ(unit::retire_all(shard_), 1U) << "the blocks are in their page";
    }
}

/* The pages of long blocks retire as soon as they are drained. */
TEST_F(MailAge, LongBlocksThatWereLeftAloneAreDrained) {
    for (unsigned size_class : unit::some_long_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        send(size_class, 1);
        hz_box_age_sent(shard_);
        EXPECT_EQ(hz_box_due(shard_), none) << "it was sent since the round before";
        EXPECT_EQ(waiting(size_class), 1U);
        EXPECT_EQ(unit::pages_of(shard_), 1U);
        hz_box_age_sent(shard_);
        EXPECT_EQ(hz_box_due(shard_), size_class);
        EXPECT_FALSE(hz_sent_drain_due(self_, 10)) << "none is left";
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
        hz_box_age_sent(shard_);
        hz_sent_drain_due(self_, 10);
        EXPECT_EQ(waiting(busy), 2 * i);
        EXPECT_EQ(waiting(quiet), i == 1 ? 2U : 0U);
    }
    hz_box_age_sent(shard_);
    hz_sent_drain_due(self_, 10);
    EXPECT_EQ(waiting(busy), 0U);
}

/* A class that was due, and is sent something before its turn comes, waits for another quiet round. */
TEST_F(MailAge, ADueClassMayComeToLife) {
    send(7, 2);
    hz_box_age_sent(shard_);
    hz_box_age_sent(shard_);
    ASSERT_EQ(hz_box_due(shard_), 7U);
    send(7, 2);
    hz_box_age_sent(shard_);
    EXPECT_EQ(hz_box_due(shard_), none);
    EXPECT_TRUE(hz_box_was_sent(shard_, 7));
    hz_box_age_sent(shard_);
    EXPECT_EQ(hz_box_due(shard_), 7U);
    hz_sent_drain_due(self_, 1);
    EXPECT_EQ(waiting(7), 0U);
}

TEST_F(MailAge, ACallDrainsAFewClasses) {
    std::vector<unsigned> classes = unit::some_classes();
    for (unsigned size_class : classes)
        send(size_class, 1);
    hz_sent_age(self_);
    hz_sent_age(self_);
    size_t left = classes.size();
    while (left > 3) {
        EXPECT_TRUE(hz_sent_drain_due(self_, 3));
        left -= 3;
        size_t wait = 0;
        for (unsigned size_class : classes)
            wait += waiting(size_class);
        EXPECT_EQ(wait, left);
    }
    EXPECT_FALSE(hz_sent_drain_due(self_, 3));
}

TEST_F(MailAge, EveryShardAges) {
    struct hz_shard *own = self_->shard;
    send(7, 2);
    Blocks blocks = unit::take(own, 9, 2);
    {
        unit::ThreadOf other(self_, shard_); /* a thread sends nothing to its own shard */
        unit::send(own, blocks);
    }
    ASSERT_EQ(unit::waiting(own, 9), 2U);
    hz_sent_age(self_);
    hz_sent_age(self_);
    EXPECT_FALSE(hz_sent_drain_due(self_, 2));
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
    hz_box_age_sent(shard_);
    hz_box_age_sent(shard_);
    hz_sent_drain_due(self_, 1);
    EXPECT_EQ(unit::carry_count(shard_, size_class), 0U);
    EXPECT_EQ(waiting(size_class), 0U);
    unit::put(shard_, some);
}

/* ---- refills ---- */

class Supply : public unit::SentShard {};

TEST_F(Supply, RefillTakesSentBlocksThenPages) {
    Blocks blocks = unit::take(shard_, 7, 10);
    send(blocks);
    struct hz_counters before = counters();
    Blocks first = refill(7, 4);
    EXPECT_EQ(first.size(), 4U);
    EXPECT_EQ(counters().refill_carry, before.refill_carry);
    EXPECT_EQ(counters().carry_miss, before.carry_miss + 1);
    EXPECT_EQ(unit::carry_count(shard_, 7), 6U) << "the carry has the rest";
    EXPECT_EQ(waiting(7), 6U);
    Blocks second = refill(7, 6);
    EXPECT_EQ(second.size(), 6U);
    EXPECT_EQ(counters().refill_carry, before.refill_carry + 1);
    EXPECT_EQ(counters().carry_hit, before.carry_hit + 1);
    EXPECT_EQ(counters().refill_page, before.refill_page);
    EXPECT_EQ(waiting(7), 0U);
    Blocks third = refill(7, 3);
    EXPECT_EQ(third.size(), 3U);
    EXPECT_EQ(counters().refill_page, before.refill_page + 1);
    EXPECT_EQ(counters().page_create, before.page_create);
    Blocks all = first;
    all.insert(all.end(), second.begin(), second.end());
    EXPECT_EQ(unit::sorted(all), unit::sorted(blocks));
    unit::put(shard_, blocks);
    unit::put(shard_, third);
}

TEST_F(Supply, OneRefillCanHaveSeveralSources) {
    Blocks blocks = unit::take(shard_, 7, 10);
    send(Blocks(blocks.begin(), blocks.begin() + 4));
    Blocks carried = refill(7, 1);
    send(Blocks(blocks.begin() + 4, blocks.end()));
    struct hz_counters before = counters();
    Blocks all = refill(7, 20);
    EXPECT_EQ(all.size(), 20U) << "blocks from carry, mailbox and pages";
    EXPECT_EQ(counters().refill_carry, before.refill_carry + 1);
    EXPECT_EQ(counters().refill_page, before.refill_page + 1);
    EXPECT_EQ(counters().page_create, before.page_create);
    EXPECT_EQ(waiting(7), 0U);
    all.insert(all.end(), carried.begin(), carried.end());
    Blocks in_order = unit::sorted(all);
    EXPECT_EQ(std::unique(in_order.begin(), in_order.end()), in_order.end());
    Blocks sent = unit::sorted(blocks);
    EXPECT_TRUE(std::includes(in_order.begin(), in_order.end(), sent.begin(), sent.end()));
    unit::put(shard_, all);
}

/* ---- a page that changes hands while its blocks wait for the old shard ---- */

class Strays : public unit::SentShard {
  protected:
    static constexpr unsigned size_class = 7;
    static constexpr uint32_t count = 6;
    void SetUp() override {
        SentShard::SetUp();
        out_ = unit::take(shard_, size_class, count);
        page_ = hz_page_of(out_[0]);
        capacity_ = page_->capacity;
        hz_store_rlx(&shard_->threads, 0);
        ASSERT_EQ(hz_pages_adopt(self_, size_class), 1U);
        hz_store_rlx(&shard_->threads, 1);
    }
    void expect_all_home() {
        EXPECT_EQ(page_->free_count, capacity_);
        EXPECT_EQ(page_->shard, self_->shard->index);
        EXPECT_EQ(waiting(size_class), 0U);
        EXPECT_EQ(unit::retire_all(self_->shard), 1U);
    }
    Blocks out_;
    struct hz_page *page_ = nullptr;
    uint32_t capacity_ = 0;
};

TEST_F(Strays, InAMailbox) {
    struct hz_list list = unit::list_of(out_);
    ASSERT_TRUE(hz_mail_send(self_, &hz_box_of(shard_, size_class)->mail, size_class, &list));
    hz_sent_drain(self_, shard_, size_class);
    expect_all_home();
}

TEST_F(Strays, UsedByTheOldShardsNextThread) {
    send(out_);
    Blocks used = refill(size_class, count);
    EXPECT_EQ(used.size(), count);
    EXPECT_EQ(hz_page_of(used[0]), page_) << "a refill may use a stray";
    hz_blocks_send(self_, used.data(), count);
    expect_all_home();
}

} // namespace
