/* Mail of hz3: blocks fill the stash, then transfer, then central, each bounded. Takes empty them in the same order. */
#include "unit/heap/at_rest.h"
#include "unit/hz3/library.h"

#include <algorithm>

namespace {

using unit::Blocks;

class Mail : public unit::OwnShard {
  protected:
    void SetUp() override {
        OwnShard::SetUp();
        if (unit::mail() == unit::Mail::pages)
            GTEST_SKIP() << "this variant sends blocks to their pages";
    }
    void send(unsigned size_class, const Blocks &blocks) {
        struct hz_list list = unit::list_of(blocks);
        hz_shard_send(self_, shard_, size_class, &list);
    }
    struct hz_mailbox *mail(unsigned size_class) {
        return &shard_->classes[size_class].mail;
    }
    struct hz_counters counters() {
        return self_->counters;
    }
};

TEST_F(Mail, TheStashComesFirst) {
    Blocks blocks = unit::take(shard_, 7, 10);
    struct hz_counters before = counters();
    send(7, blocks);
    EXPECT_EQ(counters().stash_send, before.stash_send + 1);
    EXPECT_EQ(hz_mpsc_count(&(mail(7))->stash), 10U);
    EXPECT_EQ(hz_mail_count(mail(7)), 10U);
    EXPECT_EQ(hz_shard_waiting(shard_, 7), 10U);
    Blocks first = unit::refill(shard_, 7, 4);
    EXPECT_EQ(counters().refill_stash, before.refill_stash + 1);
    EXPECT_EQ(hz_mpsc_count(&(mail(7))->stash), 0U) << "the stash is taken whole";
    EXPECT_EQ(unit::carry_count(shard_, 7), 6U);
    Blocks second = unit::refill(shard_, 7, 6);
    EXPECT_EQ(counters().refill_stash, before.refill_stash + 1) << "the blocks came from the carry";
    unit::put(shard_, first);
    unit::put(shard_, second);
}

TEST_F(Mail, OneListPerGroup) {
    struct hz_shard *other = hz_shard_claim();
    Blocks blocks;
    for (int i = 0; i < 8; i++)
        for (struct hz_shard *owner : {shard_, other})
            blocks.push_back(unit::take(owner, 9, 1)[0]);
    uint64_t before = counters().stash_send;
    hz_blocks_send(self_, blocks.data(), 16);
    EXPECT_EQ(counters().stash_send - before, 2U);
    for (struct hz_shard *owner : {shard_, other}) {
        EXPECT_EQ(hz_mpsc_count(&owner->classes[9].mail.stash), 8U);
        unit::drain(owner, 9);
    }
    unit::retire_all(other);
    EXPECT_EQ(unit::pages_of(other), 0U);
    hz_shard_leave(self_, other);
}

/* Sends single blocks until stash, transfer and central are full. No block is lost, and the number of waiting blocks is
   bounded. */
TEST_F(Mail, OverflowGoesThroughAllTiers) {
    for (unsigned c : {unit::class_count - 1, unit::class_count - 9}) {
        size_t bytes = hz_class_bytes(c);
        auto bound =
            static_cast<uint32_t>(std::max<size_t>(HZ_STASH_BYTES / bytes, HZ_BATCH_COUNT) + HZ3_TRANSFER_SLOTS +
                                  std::max<size_t>(HZ_CENTRAL_BYTES / bytes, HZ_BATCH_COUNT));
        Blocks blocks = unit::take(shard_, c, bound + 20);
        struct hz_counters before = counters();
        for (void *block : blocks)
            send(c, {block});
        struct hz_counters after = counters();
        uint64_t direct = after.direct_home - before.direct_home;
        EXPECT_GT(after.stash_send, before.stash_send);
        EXPECT_EQ(after.transfer_send - before.transfer_send, HZ3_TRANSFER_SLOTS);
        EXPECT_GT(after.central_send, before.central_send);
        EXPECT_GT(direct, 0U) << "then the sender puts blocks into their pages itself";
        EXPECT_EQ(after.home_blocks - before.home_blocks, blocks.size());
        EXPECT_LE(hz_shard_waiting(shard_, c), bound);
        EXPECT_EQ(hz_shard_waiting(shard_, c) + direct, blocks.size());
        Blocks back;
        while (hz_shard_waiting(shard_, c) > 0) {
            Blocks some = unit::refill(shard_, c, std::min(10U, hz_shard_waiting(shard_, c)));
            back.insert(back.end(), some.begin(), some.end());
        }
        EXPECT_EQ(hz3_transfer_count(mail(c)), 0U);
        EXPECT_EQ(hz3_central_count(mail(c)), 0U);
        EXPECT_EQ(counters().refill_transfer - before.refill_transfer, HZ3_TRANSFER_SLOTS);
        EXPECT_EQ(counters().refill_central - before.refill_central, 1U);
        EXPECT_EQ(back.size() + direct, blocks.size());
        std::sort(back.begin(), back.end());
        std::sort(blocks.begin(), blocks.end());
        EXPECT_EQ(std::unique(back.begin(), back.end()), back.end());
        EXPECT_TRUE(std::includes(blocks.begin(), blocks.end(), back.begin(), back.end()));
        unit::put(shard_, back);
    }
}

/* Single blocks, so the counters of lists say how many there are. */
TEST_F(Mail, StatisticsNameEveryTier) {
    unsigned size_class = unit::class_count - 1;
    size_t bytes = hz_class_bytes(size_class);
    Blocks blocks = unit::take(shard_, size_class, static_cast<uint32_t>(HZ_STASH_BYTES / bytes + HZ_BATCH_COUNT + 20));
    struct hz_counters before = counters();
    for (void *block : blocks)
        send(size_class, {block});
    struct hz_counters after = counters();
    auto of = [bytes](uint64_t lists) { return static_cast<double>(lists * bytes); };
    double in_stash = of(after.stash_send - before.stash_send);
    double in_transfer = of(after.transfer_send - before.transfer_send);
    double in_central = of(after.central_send - before.central_send);
    ASSERT_TRUE(in_stash > 0 && in_transfer > 0 && in_central > 0);
    EXPECT_EQ(unit::at_rest(), (unit::AtRest{{"stash_bytes", in_stash},
                                             {"transfer_bytes", in_transfer},
                                             {"central_bytes", in_central},
                                             {"waiting_bytes", in_stash + in_transfer + in_central}}));
    unit::drain(shard_, size_class);
    EXPECT_EQ(unit::at_rest(), unit::AtRest());
}

TEST_F(Mail, DrainEmptiesEveryTier) {
    unsigned size_class = unit::class_count - 1;
    size_t bytes = hz_class_bytes(size_class);
    Blocks blocks = unit::take(shard_, size_class, static_cast<uint32_t>(HZ_STASH_BYTES / bytes + HZ_BATCH_COUNT + 20));
    for (void *block : blocks)
        send(size_class, {block});
    ASSERT_GT(hz3_transfer_count(mail(size_class)), 0U);
    ASSERT_GT(hz3_central_count(mail(size_class)), 0U);
    Blocks carried = unit::refill(shard_, size_class, 1);
    ASSERT_GT(unit::carry_count(shard_, size_class), 0U);
    unit::drain(shard_, size_class);
    EXPECT_EQ(hz_shard_waiting(shard_, size_class), 0U);
    EXPECT_EQ(hz_mail_count(mail(size_class)), 0U);
    unit::put(shard_, carried);
}

} // namespace
