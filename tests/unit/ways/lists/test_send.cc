/* Sending to a shard that has a mailbox: in lists of one class, which wait there. */
#include "unit/heap/owners.h"
#include "unit/heap/pages/sent_shard.h"
#include "unit/ways/lists/lists.h"

#include <algorithm>
#include <set>

namespace {

using unit::Blocks;

class SendLists : public unit::Owners {};

TEST_F(SendLists, OnePerShardAndClass) {
    for (int i = 0; i < 8; i++)
        for (size_t owner = 0; owner < 2; owner++)
            for (unsigned size_class : {9U, 10U})
                add(shards_[owner], size_class, 1);
    for (size_t owner = 0; owner < 2; owner++)
        unit::leave(shards_[owner]); /* without threads, so that the sender puts the lists into pages and counts them */
    struct hz_counters before = self_->counters;
    hz_blocks_send(self_, blocks_.data(), static_cast<uint32_t>(blocks_.size()));
    struct hz_counters after = self_->counters;
    EXPECT_EQ(after.direct_home - before.direct_home, 4U);
    EXPECT_EQ(after.ls_rel_steal - before.ls_rel_steal, 4U);
    EXPECT_EQ(after.home_blocks - before.home_blocks, 32U);
    std::set<struct hz_shard *> claimed = {hz_shard_claim(), hz_shard_claim()};
    EXPECT_EQ(claimed, (std::set<struct hz_shard *>{shards_[0], shards_[1]}));
}

class SendToShard : public unit::SentShard {};

TEST_F(SendToShard, SentBlocksWaitForTheShard) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        uint32_t count = std::min(10U, hz_mail_list_max(size_class)); /* a list always finds room */
        Blocks blocks = unit::take(shard_, size_class, count);
        struct hz_counters before = counters();
        ASSERT_FALSE(hz_box_was_sent(shard_, size_class));
        send(blocks);
        EXPECT_EQ(counters().home_blocks, before.home_blocks + count);
        EXPECT_EQ(counters().direct_home, before.direct_home);
        EXPECT_EQ(counters().ls_rel_steal, before.ls_rel_steal) << "a sender takes no lock";
        EXPECT_EQ(waiting(size_class), count);
        EXPECT_EQ(waiting(size_class == 1 ? 2 : size_class - 1), 0U);
        EXPECT_TRUE(hz_box_was_sent(shard_, size_class));
        unit::drain(shard_, size_class);
        EXPECT_EQ(waiting(size_class), 0U);
        EXPECT_FALSE(hz_box_was_sent(shard_, size_class)) << "the drain forgets the mark";
        unit::retire_all(shard_);
        EXPECT_EQ(unit::pages_of(shard_), 0U) << "all blocks are in their pages";
    }
}

TEST_F(SendToShard, MarksOfClassesAreSeparate) {
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        Blocks blocks = unit::take(shard_, size_class, 1);
        send(blocks);
        for (unsigned other = 1; other < unit::class_count; other++)
            ASSERT_EQ(hz_box_was_sent(shard_, other), other == size_class) << size_class << " and " << other;
        unit::drain(shard_, size_class);
    }
}

TEST_F(SendToShard, BlocksOfTheOwnOrAnUnusedShardGoIntoTheirPages) {
    struct hz_shard *own = self_->shard;
    Blocks mine = unit::take(own, 7, 5);
    struct hz_counters before = counters();
    unit::send(own, mine);
    EXPECT_EQ(counters().direct_home, before.direct_home);
    EXPECT_EQ(counters().ls_rel_self, before.ls_rel_self + 1);
    EXPECT_EQ(unit::waiting(own, 7), 0U);
    Blocks blocks = unit::take(shard_, 7, 5);
    unit::leave(shard_);
    send(blocks);
    EXPECT_EQ(counters().direct_home, before.direct_home + 1);
    EXPECT_EQ(counters().ls_rel_steal, before.ls_rel_steal + 1);
    EXPECT_EQ(waiting(7), 0U);
    EXPECT_EQ(unit::retire_all(shard_), 1U);
    shard_ = hz_shard_claim();
}

/* Sends more single blocks than a bounded mailbox holds. No block is lost. */
TEST_F(SendToShard, NothingIsLostWhenTheMailboxIsFull) {
    for (unsigned c : {unit::largest_short, unit::largest_short - 8}) {
        Blocks blocks = unit::take(shard_, c, 400);
        struct hz_counters before = counters();
        for (void *block : blocks)
            send({block});
        struct hz_counters after = counters();
        EXPECT_EQ(after.home_blocks - before.home_blocks, blocks.size());
        EXPECT_EQ(waiting(c) + after.direct_home - before.direct_home, blocks.size())
            << "the sender puts the blocks that find no room";
        Blocks back;
        while (waiting(c) > 0) {
            Blocks some = refill(c, std::min(10U, waiting(c)));
            ASSERT_FALSE(some.empty());
            back.insert(back.end(), some.begin(), some.end());
        }
        Blocks first = unit::sorted(back);
        EXPECT_EQ(std::unique(first.begin(), first.end()), first.end());
        Blocks all = unit::sorted(blocks);
        EXPECT_TRUE(std::includes(all.begin(), all.end(), first.begin(), first.end()));
        EXPECT_EQ(back.size() + after.direct_home - before.direct_home, blocks.size());
        unit::put(shard_, back);
    }
}

} // namespace
