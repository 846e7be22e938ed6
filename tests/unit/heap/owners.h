/*
 * owners.h - blocks of several shards, which the test has claimed.
 */
#ifndef HZ_TESTS_UNIT_HEAP_OWNERS_H
#define HZ_TESTS_UNIT_HEAP_OWNERS_H

#include "unit/heap/fixture.h"

#include <algorithm>
#include <map>

namespace unit {

/* The test claims shards, so that blocks sent to them wait there. */
class Owners : public testing::Test {
  protected:
    void SetUp() override {
        self_ = unit::self();
        self_->frees_watched = HZ_FREES_WATCHED; /* a full bin does not go home */
        hz_heap_purge();
        own_ = self_->shard;
        claim(5);
    }
    void TearDown() override {
        hz_heap_purge(); /* drains every shard */
        shards_.push_back(own_);
        for (struct hz_shard *shard : shards_) {
            for (unsigned size_class = 1; size_class < class_count; size_class++)
                drain(shard, size_class);
            retire_all(shard);
            EXPECT_EQ(pages_of(shard), 0U) << "every block is in its page again";
        }
        shards_.pop_back();
        for (struct hz_shard *shard : shards_)
            leave(shard);
    }
    /* Claims shards until there are `count`, or no more free ones. */
    void claim(size_t count) {
        while (shards_.size() < std::min<size_t>(count, HZ_NUM_SHARDS - 1))
            shards_.push_back(hz_shard_claim());
    }
    /* Takes blocks from a shard, and expects them to wait for it later. */
    void add(struct hz_shard *shard, unsigned size_class, uint32_t count) {
        Blocks some = take(shard, size_class, count);
        blocks_.insert(blocks_.end(), some.begin(), some.end());
        if (shard != own_)
            expected_[{shard, size_class}] += count;
    }
    void send_all() {
        uint64_t before = self_->counters.home_blocks;
        hz_blocks_send(self_, blocks_.data(), static_cast<uint32_t>(blocks_.size()));
        EXPECT_EQ(self_->counters.home_blocks - before, blocks_.size());
        blocks_.clear();
    }
    void expect_all_wait() {
        size_t wrong = 0;
        for (const auto &[group, count] : expected_)
            wrong += waiting(group.first, group.second) != waits(count);
        EXPECT_EQ(wrong, 0U) << "of " << expected_.size() << " groups";
    }
    /* As free does with a block of a home class; the buffer must have room. */
    void push_remote(void *block) {
        struct hz_bin *bin = &self_->cache.bins[HZ_REMOTE_BIN];
        hz_bin_push(&self_->cache, bin, bin->top, bin->newest, block);
    }
    struct hz_thread_block *self_ = nullptr;
    struct hz_shard *own_ = nullptr;
    std::vector<struct hz_shard *> shards_;
    Blocks blocks_;
    std::map<std::pair<struct hz_shard *, unsigned>, uint32_t> expected_;
};

} // namespace unit

#endif
