/* Where a refill takes blocks from: leftovers, what was sent, pages with free blocks, a new page. */
#include "unit/heap/pages/sent.h"

#include <algorithm>

namespace {

using unit::Blocks;
using unit::sorted;

class Supply : public unit::SentShard {};

TEST_F(Supply, RefillTakesSentBlocksThenPages) {
    Blocks blocks = unit::take(shard_, 7, 10);
    send(7, blocks);
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
    EXPECT_EQ(sorted(all), sorted(blocks));
    unit::put(shard_, blocks);
    unit::put(shard_, third);
}

TEST_F(Supply, OneRefillCanHaveSeveralSources) {
    Blocks blocks = unit::take(shard_, 7, 10);
    send(7, Blocks(blocks.begin(), blocks.begin() + 4));
    Blocks carried = refill(7, 1);
    send(7, Blocks(blocks.begin() + 4, blocks.end()));
    struct hz_counters before = counters();
    Blocks all = refill(7, 20);
    EXPECT_EQ(all.size(), 20U) << "blocks from carry, mailbox and pages";
    EXPECT_EQ(counters().refill_carry, before.refill_carry + 1);
    EXPECT_EQ(counters().refill_page, before.refill_page + 1);
    EXPECT_EQ(counters().page_create, before.page_create);
    EXPECT_EQ(waiting(7), 0U);
    all.insert(all.end(), carried.begin(), carried.end());
    Blocks in_order = sorted(all);
    EXPECT_EQ(std::unique(in_order.begin(), in_order.end()), in_order.end());
    Blocks sent = sorted(blocks);
    EXPECT_TRUE(std::includes(in_order.begin(), in_order.end(), sent.begin(), sent.end()));
    unit::put(shard_, all);
}

TEST_F(Supply, OneRefillMakesOnePage) {
    for (unsigned size_class : unit::some_classes()) {
        uint64_t created = counters().page_create;
        Blocks blocks = refill(size_class, hz_batch_count(size_class));
        EXPECT_GE(blocks.size(), 1U);
        EXPECT_LE(blocks.size(), hz_batch_count(size_class));
        EXPECT_EQ(counters().page_create, created + 1);
        unit::put(shard_, blocks);
    }
}

} // namespace
