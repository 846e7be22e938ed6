/* Mail of hz3: stash, then transfer, then central, each bounded; taken in that order. */
#include "unit/heap/fixture.h"
#include "unit/hz3/shim.h"

#include <algorithm>

namespace {

using unit::Blocks;

class Mail : public unit::OwnShard {
  protected:
    void SetUp() override {
        OwnShard::SetUp();
        if (unit_mail_is_of_pages)
            GTEST_SKIP() << "this variant sends blocks to their pages";
    }
    void send(unsigned size_class, const Blocks &blocks) {
        struct hz_list list = unit::list_of(blocks);
        hz_shard_send(self_, shard_, size_class, &list);
    }
    struct hz_mailbox *mail(unsigned size_class) {
        return unit_mailbox(shard_, size_class);
    }
    struct unit_hz3_counters counters() {
        return unit_hz3_counters_of(self_);
    }
};

TEST_F(Mail, TheStashComesFirst) {
    Blocks blocks = unit::take(shard_, 7, 10);
    struct unit_hz3_counters before = counters();
    send(7, blocks);
    EXPECT_EQ(counters().stash_send, before.stash_send + 1);
    EXPECT_EQ(unit_stash_count(mail(7)), 10U);
    EXPECT_EQ(hz_mail_count(mail(7)), 10U);
    EXPECT_EQ(hz_shard_waiting(shard_, 7), 10U);
    Blocks first = unit::refill(shard_, 7, 4);
    EXPECT_EQ(counters().refill_stash, before.refill_stash + 1);
    EXPECT_EQ(unit_stash_count(mail(7)), 0U) << "taken whole";
    EXPECT_EQ(unit_carry_count(shard_, 7), 6U);
    Blocks second = unit::refill(shard_, 7, 6);
    EXPECT_EQ(counters().refill_stash, before.refill_stash + 1) << "from the carry";
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
        EXPECT_EQ(unit_stash_count(unit_mailbox(owner, 9)), 8U);
        unit::drain(owner, 9);
    }
    unit::retire_all(other);
    EXPECT_EQ(unit::pages_of(other), 0U);
    hz_shard_leave(self_, other);
}

/* Single blocks are sent until every tier is full; nothing is lost, and what waits is bounded. */
TEST_F(Mail, OverflowGoesThroughAllTiers) {
    for (unsigned c : {unit::class_count - 1, unit::class_count - 9}) {
        size_t bytes = hz_class_bytes(c);
        auto bound =
            static_cast<uint32_t>(std::max<size_t>(HZ_STASH_BYTES / bytes, HZ_BATCH_COUNT) + unit_transfer_slots +
                                  std::max<size_t>(HZ_CENTRAL_BYTES / bytes, HZ_BATCH_COUNT));
        Blocks blocks = unit::take(shard_, c, bound + 20);
        struct unit_hz3_counters before = counters();
        struct unit_counters core_before = unit_counters_of(self_);
        for (void *block : blocks)
            send(c, {block});
        struct unit_hz3_counters after = counters();
        uint64_t direct = unit_counters_of(self_).direct_home - core_before.direct_home;
        EXPECT_GT(after.stash_send, before.stash_send);
        EXPECT_EQ(after.transfer_send - before.transfer_send, unit_transfer_slots);
        EXPECT_GT(after.central_send, before.central_send);
        EXPECT_GT(direct, 0U) << "then the sender puts them home itself";
        EXPECT_EQ(unit_counters_of(self_).home_blocks - core_before.home_blocks, blocks.size());
        EXPECT_LE(hz_shard_waiting(shard_, c), bound);
        EXPECT_EQ(hz_shard_waiting(shard_, c) + direct, blocks.size());
        Blocks back;
        while (hz_shard_waiting(shard_, c) > 0) {
            Blocks some = unit::refill(shard_, c, std::min(10U, hz_shard_waiting(shard_, c)));
            back.insert(back.end(), some.begin(), some.end());
        }
        EXPECT_EQ(unit_transfer_count(mail(c)), 0U);
        EXPECT_EQ(unit_central_count(mail(c)), 0U);
        EXPECT_EQ(counters().refill_transfer - before.refill_transfer, unit_transfer_slots);
        EXPECT_EQ(counters().refill_central - before.refill_central, 1U);
        EXPECT_EQ(back.size() + direct, blocks.size());
        std::sort(back.begin(), back.end());
        std::sort(blocks.begin(), blocks.end());
        EXPECT_EQ(std::unique(back.begin(), back.end()), back.end());
        EXPECT_TRUE(std::includes(blocks.begin(), blocks.end(), back.begin(), back.end()));
        unit::put(shard_, back);
    }
}

TEST_F(Mail, DrainEmptiesEveryTier) {
    unsigned size_class = unit::class_count - 1;
    size_t bytes = hz_class_bytes(size_class);
    Blocks blocks = unit::take(shard_, size_class, static_cast<uint32_t>(HZ_STASH_BYTES / bytes + HZ_BATCH_COUNT + 20));
    for (void *block : blocks)
        send(size_class, {block});
    ASSERT_GT(unit_transfer_count(mail(size_class)), 0U);
    ASSERT_GT(unit_central_count(mail(size_class)), 0U);
    Blocks carried = unit::refill(shard_, size_class, 1);
    ASSERT_GT(unit_carry_count(shard_, size_class), 0U);
    unit::drain(shard_, size_class);
    EXPECT_EQ(hz_shard_waiting(shard_, size_class), 0U);
    EXPECT_EQ(hz_mail_count(mail(size_class)), 0U);
    unit::put(shard_, carried);
}

} // namespace
