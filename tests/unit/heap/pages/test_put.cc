/* Blocks go into their pages, whichever thread puts them and whichever shard has the pages. */
#include "unit/heap/pages/sent_shard.h"

#include <thread>

namespace {

using unit::Blocks;

class Put : public unit::SentShard {};

TEST_F(Put, OwnBlocksArePutIntoTheirPages) {
    struct hz_shard *own = self_->shard;
    Blocks blocks = unit::take(own, 7, 5);
    Blocks others = unit::take(own, 9, 3);
    blocks.insert(blocks.end(), others.begin(), others.end());
    struct hz_counters before = counters();
    hz_shard_put(self_, own, blocks.data(), 8);
    EXPECT_EQ(counters().direct_home, before.direct_home);
    EXPECT_EQ(counters().ls_rel_self, before.ls_rel_self + 1);
    EXPECT_EQ(unit::retire_all(own), 2U);
}

TEST_F(Put, AnyThreadCanPutAnyBlock) {
    struct hz_shard *own = self_->shard;
    Blocks blocks = unit::take(shard_, 7, 4);
    Blocks mine = unit::take(own, 7, 4);
    hz_block_put(self_, blocks[0]);
    EXPECT_EQ(hz_page_of(blocks[1])->free_count, hz_page_of(blocks[1])->capacity - 3);
    Blocks mixed = {blocks[1], mine[0], blocks[2], mine[1], mine[2]};
    for (void *block : mixed)
        hz_block_put(self_, block);
    hz_shard_put(self_, own, blocks.data() + 3, 1); /* a stray, in a call for own blocks */
    hz_shard_put(self_, own, mine.data() + 3, 1);
    EXPECT_EQ(unit::retire_all(shard_), 1U);
    EXPECT_EQ(unit::retire_all(own), 1U);
}

TEST_F(Put, BlocksOfAnotherShard) {
    struct hz_shard *own = self_->shard;
    Blocks blocks = unit::take(shard_, 7, 4);
    blocks.push_back(unit::take(own, 7, 1)[0]); /* a stray */
    struct hz_counters before = counters();
    hz_shard_put(self_, shard_, blocks.data(), 5);
    EXPECT_EQ(counters().direct_home, before.direct_home + 1);
    EXPECT_EQ(counters().ls_rel_steal, before.ls_rel_steal + 1);
    EXPECT_EQ(waiting(7), 0U);
    EXPECT_EQ(unit::retire_all(shard_), 1U);
    EXPECT_EQ(unit::retire_all(own), 1U);
}

TEST_F(Put, TheLockIsThatOfTheShardWithThePage) {
    for (struct hz_shard *shard : {shard_, self_->shard}) {
        Blocks blocks = unit::take(shard, 7, 1);
        for (struct hz_thread_block *thread : {self_, const_cast<struct hz_thread_block *>(&hz_thread_none)}) {
            EXPECT_EQ(hz_block_home_lock(thread, blocks[0]), shard);
            EXPECT_FALSE(hz_lock_try_acquire(&shard->exclusive));
            hz_shard_unlock(shard);
        }
        unit::put(shard, blocks);
    }
}

TEST_F(Put, ABlockIsHomeOnceItIsPut) {
    Blocks blocks = unit::take(shard_, 7, 2);
    EXPECT_FALSE(hz_block_is_home(blocks[0]));
    hz_block_put(self_, blocks[0]);
    EXPECT_TRUE(hz_block_is_home(blocks[0]));
    EXPECT_FALSE(hz_block_is_home(blocks[1]));
    hz_shard_lock(self_, shard_, HZ_TO_GIVE);
    std::thread([&] { EXPECT_FALSE(hz_block_is_home(blocks[0])) << "a look does not wait for the lock"; }).join();
    hz_shard_unlock(shard_);
    hz_block_put(self_, blocks[1]);
}

} // namespace
