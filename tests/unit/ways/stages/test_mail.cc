/* Mail by stages: blocks fill the stash, then transfer, then central, each bounded. Takes empty them in the same order.
 */
#include "unit/heap/at_rest.h"
#include "unit/heap/pages/sent_shard.h"
#include "unit/ways/lists/lists.h"
#include "unit/ways/stages/library.h"

#include <algorithm>

namespace {

using unit::Blocks;

/* Most blocks that wait in the stash, if there is one. */
uint32_t stash_cap(unsigned size_class) {
    return HZ_STASH_BYTES > 0 ? hz_mail_cap(HZ_STASH_BYTES, size_class) : 0;
}

class Mail : public unit::SentShard {
  protected:
    struct hz_mailbox *mail(unsigned size_class) {
        return &hz_box_of(shard_, size_class)->mail;
    }
};

TEST_F(Mail, TheStashComesFirst) {
    if (HZ_STASH_BYTES == 0)
        GTEST_SKIP() << "this lane has no stash";
    Blocks blocks = unit::take(shard_, 7, 10);
    struct hz_counters before = counters();
    send(blocks);
    EXPECT_EQ(counters().inbox_send, before.inbox_send + 1);
    EXPECT_EQ(hz_mpsc_count(&(mail(7))->stash), 10U);
    EXPECT_EQ(hz_mail_count(mail(7)), 10U);
    EXPECT_EQ(hz_sent_count(shard_, 7), 10U);
    Blocks first = unit::refill(shard_, 7, 4);
    EXPECT_EQ(counters().inbox_take, before.inbox_take + 1);
    EXPECT_EQ(hz_mpsc_count(&(mail(7))->stash), 0U) << "the stash is taken whole";
    EXPECT_EQ(unit::carry_count(shard_, 7), 6U);
    Blocks second = unit::refill(shard_, 7, 6);
    EXPECT_EQ(counters().inbox_take, before.inbox_take + 1) << "the blocks came from the carry";
    unit::put(shard_, first);
    unit::put(shard_, second);
}

/* Sends single blocks until stash, transfer and central are full. No block is lost, and the number of waiting blocks is
   bounded. */
TEST_F(Mail, OverflowGoesThroughAllTiers) {
    for (unsigned c : {unit::largest_short, unit::largest_short - 8}) {
        uint32_t bound = stash_cap(c) + HZ_TRANSFER_SLOTS + hz_mail_cap(HZ_CENTRAL_BYTES, c);
        Blocks blocks = unit::take(shard_, c, bound + 20);
        struct hz_counters before = counters();
        for (void *block : blocks)
            send({block});
        struct hz_counters after = counters();
        uint64_t direct = after.direct_home - before.direct_home;
        EXPECT_EQ(after.inbox_send - before.inbox_send, stash_cap(c));
        EXPECT_EQ(after.transfer_send - before.transfer_send, HZ_TRANSFER_SLOTS);
        EXPECT_GT(after.central_send, before.central_send);
        EXPECT_GT(direct, 0U) << "then the sender puts blocks into their pages itself";
        EXPECT_EQ(after.home_blocks - before.home_blocks, blocks.size());
        EXPECT_LE(hz_sent_count(shard_, c), bound);
        EXPECT_EQ(hz_sent_count(shard_, c) + direct, blocks.size());
        Blocks back;
        while (hz_sent_count(shard_, c) > 0) {
            Blocks some = unit::refill(shard_, c, std::min(10U, hz_sent_count(shard_, c)));
            back.insert(back.end(), some.begin(), some.end());
        }
        EXPECT_EQ(hz_transfer_count(mail(c)), 0U);
        EXPECT_EQ(hz_central_count(mail(c)), 0U);
        EXPECT_EQ(counters().refill_transfer - before.refill_transfer, HZ_TRANSFER_SLOTS);
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
    unsigned size_class = unit::largest_short;
    size_t bytes = hz_class_bytes(size_class);
    Blocks blocks = unit::take(shard_, size_class, stash_cap(size_class) + HZ_TRANSFER_SLOTS + 20);
    struct hz_counters before = counters();
    for (void *block : blocks)
        send({block});
    struct hz_counters after = counters();
    auto of = [bytes](uint64_t lists) { return static_cast<double>(lists * bytes); };
    double in_stash = of(after.inbox_send - before.inbox_send);
    double in_transfer = of(after.transfer_send - before.transfer_send);
    double in_central = of(after.central_send - before.central_send);
    ASSERT_TRUE((in_stash > 0) == (HZ_STASH_BYTES > 0) && in_transfer > 0 && in_central > 0);
    unit::AtRest expected = {{"transfer_bytes", in_transfer},
                             {"central_bytes", in_central},
                             {"waiting_bytes", in_stash + in_transfer + in_central}};
    if (in_stash > 0)
        expected["stash_bytes"] = in_stash;
    EXPECT_EQ(unit::at_rest(), expected);
    unit::drain(shard_, size_class);
    EXPECT_EQ(unit::at_rest(), unit::AtRest());
}

TEST_F(Mail, DrainEmptiesEveryTier) {
    unsigned size_class = unit::largest_short;
    Blocks blocks = unit::take(shard_, size_class, stash_cap(size_class) + HZ_TRANSFER_SLOTS + 20);
    for (void *block : blocks)
        send({block});
    ASSERT_GT(hz_transfer_count(mail(size_class)), 0U);
    ASSERT_GT(hz_central_count(mail(size_class)), 0U);
    /* the first block of central's list, or of the stash's, leaves the rest to the carry */
    Blocks carried = unit::refill(shard_, size_class, HZ_STASH_BYTES > 0 ? 1 : HZ_TRANSFER_SLOTS + 1);
    ASSERT_GT(unit::carry_count(shard_, size_class), 0U);
    unit::drain(shard_, size_class);
    EXPECT_EQ(hz_sent_count(shard_, size_class), 0U);
    EXPECT_EQ(hz_mail_count(mail(size_class)), 0U);
    unit::put(shard_, carried);
}

} // namespace
