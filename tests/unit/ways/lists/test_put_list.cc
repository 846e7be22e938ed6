/* Lists go into the pages, whichever shard has the pages by now. */
#include "unit/heap/pages/sent_shard.h"
#include "unit/ways/lists/lists.h"

namespace {

using unit::Blocks;

class PutList : public unit::SentShard {};

TEST_F(PutList, ListsGoHomeByTheirCount) {
    Blocks blocks = unit::take(shard_, 5, 50);
    struct hz_list list = unit::list_of(blocks);
    hz_block_link(list.tail, reinterpret_cast<void *>(uintptr_t{0xdead0})); /* the last link may be anything */
    unit::Exclusive exclusive(shard_);
    uint32_t before = unit::partial(shard_, 5)->free_count;
    struct hz_list strays = {};
    EXPECT_EQ(hz_list_put_locked(shard_, unit::word_of(list), &strays), 0U);
    EXPECT_EQ(unit::partial(shard_, 5)->free_count, before + 50);
    EXPECT_EQ(strays.count, 0U);
}

TEST_F(PutList, StraysGoIntoTheirPages) {
    struct hz_shard *own = self_->shard;
    Blocks blocks = unit::take(shard_, 7, 4);
    blocks.push_back(unit::take(own, 7, 1)[0]); /* a stray */
    struct hz_list list = unit::list_of(blocks);
    struct hz_counters before = counters();
    hz_list_put(self_, shard_, &list);
    EXPECT_EQ(counters().direct_home, before.direct_home + 1);
    EXPECT_EQ(waiting(7), 0U);
    EXPECT_EQ(unit::retire_all(shard_), 1U);
    EXPECT_EQ(unit::retire_all(own), 1U);
}

TEST_F(PutList, StraysAreTheBlocksOfOtherShards) {
    struct hz_shard *own = self_->shard;
    Blocks blocks = unit::take(shard_, 5, 40);
    Blocks theirs = unit::take(own, 5, 40);
    Blocks mixed;
    for (size_t i = 0; i < 40; i++) {
        mixed.push_back(blocks[i]);
        mixed.push_back(theirs[i]);
    }
    struct hz_list list = unit::list_of(mixed);
    struct hz_list strays = {};
    {
        unit::Exclusive exclusive(shard_);
        hz_list_put_locked(shard_, unit::word_of(list), &strays);
    }
    EXPECT_EQ(unit::sorted(unit::blocks_of(strays)), unit::sorted(theirs));
    hz_strays_put(self_, &strays);
    EXPECT_EQ(unit::retire_all(shard_), 1U);
    EXPECT_EQ(unit::retire_all(own), 1U);
}

} // namespace
