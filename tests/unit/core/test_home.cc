/* Sending home: any mixture of classes and owners ends where it belongs; the remote buffer. */
#include "unit/core/fixture.h"

#include <algorithm>

namespace {

using unit::Blocks;

class Home : public testing::Test {
  protected:
    static constexpr size_t owners = 6;
    void SetUp() override {
        self_ = unit_self();
        for (size_t i = 0; i + 1 < owners; i++)
            shards_.push_back(hz_shard_claim());
        shards_.push_back(unit_thread_shard(self_));
    }
    void TearDown() override {
        for (struct hz_shard *shard : shards_) {
            for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
                unit::Exclusive exclusive(shard);
                hz_shard_drain_locked(self_, shard, size_class);
            }
            unit::retire_all(shard);
            EXPECT_EQ(unit::pages_of(shard), 0U) << "every block is in its page again";
        }
        shards_.pop_back();
        for (struct hz_shard *shard : shards_)
            hz_shard_release(self_, shard);
    }
    struct hz_thread_block *self_ = nullptr;
    std::vector<struct hz_shard *> shards_;
};

void shuffle(Blocks &blocks, uint64_t seed) {
    support::Random random(seed);
    for (size_t i = blocks.size(); i > 1; i--)
        std::swap(blocks[i - 1], blocks[random.below(i)]);
}

TEST_F(Home, MixturesFindTheirShards) {
    constexpr unsigned classes = 20; /* with 5 foreign owners: more groups than are sent at once */
    Blocks blocks;
    for (struct hz_shard *shard : shards_)
        for (unsigned size_class = 1; size_class <= classes; size_class++) {
            Blocks some = unit::take(shard, size_class, size_class);
            blocks.insert(blocks.end(), some.begin(), some.end());
        }
    shuffle(blocks, 1);
    uint64_t before = unit_counters_of(self_).home_blocks;
    hz_home_send(self_, blocks.data(), static_cast<uint32_t>(blocks.size()));
    EXPECT_EQ(unit_counters_of(self_).home_blocks - before, blocks.size());
    for (size_t i = 0; i < owners; i++)
        for (unsigned size_class = 1; size_class <= classes; size_class++)
            EXPECT_EQ(hz_shard_waiting(shards_[i], size_class), i + 1 == owners ? 0 : size_class)
                << "owner " << i << " class " << size_class << "; own ones need not wait";
}

TEST_F(Home, OneListPerGroup) {
    Blocks blocks;
    for (int i = 0; i < 8; i++)
        for (size_t owner = 0; owner < 2; owner++) {
            Blocks one = unit::take(shards_[owner], 9, 1);
            blocks.push_back(one[0]);
        }
    uint64_t before = unit_counters_of(self_).stash_send;
    hz_home_send(self_, blocks.data(), 16);
    EXPECT_EQ(unit_counters_of(self_).stash_send - before, 2U);
}

TEST_F(Home, NothingIsNothing) {
    uint64_t before = unit_counters_of(self_).home_blocks;
    hz_home_send(self_, nullptr, 0);
    hz_remote_flush(self_);
    EXPECT_EQ(unit_counters_of(self_).home_blocks, before);
}

TEST_F(Home, RemoteBufferGathersUntilItIsFull) {
    Blocks blocks = unit::take(shards_[0], 3, HZ_REMOTE_COUNT + 1);
    uint64_t before = unit_counters_of(self_).remote_free;
    for (uint32_t i = 0; i < HZ_REMOTE_COUNT; i++) {
        hz_remote_push(self_, blocks[i]);
        ASSERT_EQ(unit_thread_remote_count(self_), i + 1);
        ASSERT_EQ(hz_shard_waiting(shards_[0], 3), 0U);
    }
    hz_remote_push(self_, blocks[HZ_REMOTE_COUNT]);
    EXPECT_EQ(unit_thread_remote_count(self_), 1U) << "full: all were sent first";
    EXPECT_EQ(hz_shard_waiting(shards_[0], 3), static_cast<uint32_t>(HZ_REMOTE_COUNT));
    hz_remote_flush(self_);
    EXPECT_EQ(unit_thread_remote_count(self_), 0U);
    EXPECT_EQ(hz_shard_waiting(shards_[0], 3), static_cast<uint32_t>(HZ_REMOTE_COUNT + 1));
    EXPECT_EQ(unit_counters_of(self_).remote_free - before, static_cast<uint64_t>(HZ_REMOTE_COUNT + 1));
}

TEST_F(Home, ThreadFlushSendsTheRemoteBuffer) {
    Blocks blocks = unit::take(shards_[0], 3, 2);
    hz_remote_push(self_, blocks[0]);
    hz_remote_push(self_, blocks[1]);
    hz_thread_flush(self_);
    EXPECT_EQ(unit_thread_remote_count(self_), 0U);
    EXPECT_EQ(hz_shard_waiting(shards_[0], 3), 2U);
}

} // namespace
