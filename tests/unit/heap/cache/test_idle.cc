/* A thread that comes to slow paths sends home the bins that it does not use. */
#include "unit/heap/fixture.h"

#include <algorithm>

namespace {

using unit::Blocks;

enum { BINS_AT_ONCE = 4 }; /* most bins that go home in one call */

class Idle : public testing::Test {
  protected:
    void SetUp() override {
        self_ = unit::self();
        hz_heap_purge();
        unit::forget_sparse();
        round(); /* what the last look saw is what is there now */
    }
    void TearDown() override {
        hz_heap_purge();
        EXPECT_EQ(support::live_bytes(), 0U);
    }
    /* One call in a round that begins an interval after the one before. True when the round has ended. */
    bool call(unsigned busy = 0) {
        if (self_->idle_next == 0)
            now_ += HZ_DEPOT_AGE_MS;
        hz_idle_bins_flush(self_, busy, now_);
        return self_->idle_next == 0;
    }
    void round(unsigned busy = 0) {
        self_->idle_next = 0;
        now_ = std::max(now_, self_->idle_at_ms);
        while (!call(busy)) {
        }
    }
    /* Gives a bin all its room, and half as many blocks of this thread's shard. Returns their number. */
    uint32_t fill(unsigned size_class) {
        uint32_t count = hz_bin_capacity(size_class) / 2;
        hz_bin_send_home(self_, size_class);
        hz_room_set(self_, size_class, hz_bin_capacity(size_class));
        for (void *block : unit::take(self_->shard, size_class, count))
            hz_heap_free(block);
        EXPECT_EQ(held(size_class), count);
        return count;
    }
    uint32_t held(unsigned index) {
        return unit::bin_count(self_, index);
    }
    uint32_t room(unsigned size_class) {
        return hz_bin_room(&self_->cache, size_class);
    }
    struct hz_thread_block *self_ = nullptr;
    uint64_t now_ = 0;
};

TEST_F(Idle, ALookLowersTheLimits) {
    for (unsigned size_class : unit::some_classes()) {
        fill(size_class);
        hz_bin_limit_set(&self_->cache, size_class, hz_bin_capacity(size_class));
        EXPECT_GT(hz_bin_limit(&self_->cache, size_class), held(size_class));
        round(size_class);
        EXPECT_GT(held(size_class), 0U);
        EXPECT_EQ(hz_bin_limit(&self_->cache, size_class), held(size_class));
    }
}

TEST_F(Idle, ABinThatWasNotUsedGoesHome) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        uint32_t count = fill(size_class);
        uint32_t before = room(size_class);
        round();
        EXPECT_EQ(held(size_class), count) << "it was filled since the look before";
        EXPECT_EQ(room(size_class), before);
        uint64_t home = self_->counters.home_blocks;
        round();
        EXPECT_EQ(held(size_class), 0U);
        EXPECT_EQ(self_->counters.home_blocks - home, count) << "all its blocks are home";
        EXPECT_EQ(hz_depot_blocks(size_class), 0U) << "and rest nowhere";
        EXPECT_EQ(room(size_class), std::max(before / 2 & ~1U, hz_bin_first(size_class)));
    }
}

TEST_F(Idle, ABinInUseStays) {
    constexpr unsigned used = 5;
    constexpr unsigned idle = 6;
    uint32_t count = fill(used);
    fill(idle);
    round();
    uint32_t before = room(used);
    void *block = hz_heap_malloc(hz_class_bytes(used));
    round();
    EXPECT_EQ(held(used), count - 1);
    EXPECT_EQ(room(used), before);
    EXPECT_EQ(held(idle), 0U);
    hz_heap_free(block);
    round();
    EXPECT_EQ(held(used), count) << "its top has moved again";
    round();
    EXPECT_EQ(held(used), 0U);
}

/* The bin for which the thread is here is empty or full at each visit, so its top says nothing. */
TEST_F(Idle, TheBusyBinStays) {
    constexpr unsigned busy = 5;
    uint32_t count = fill(busy);
    uint32_t before = room(busy);
    for (int i = 0; i < 5; i++)
        round(busy);
    EXPECT_EQ(held(busy), count);
    EXPECT_EQ(room(busy), before);
    round();
    EXPECT_EQ(held(busy), 0U);
}

TEST_F(Idle, RoomHalvesWithEachRound) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        hz_room_set(self_, size_class, hz_bin_capacity(size_class));
        round(); /* even of an empty bin */
        for (uint32_t expected = hz_bin_capacity(size_class); expected > hz_bin_first(size_class);) {
            expected = std::max(expected / 2 & ~1U, hz_bin_first(size_class));
            ASSERT_EQ(room(size_class), expected);
            round();
        }
        EXPECT_EQ(room(size_class), hz_bin_first(size_class)) << "a new bin has as much";
    }
}

TEST_F(Idle, ARoundBeginsWhenItIsTime) {
    constexpr unsigned size_class = 5;
    uint32_t count = fill(size_class);
    round();
    uint64_t begun = self_->idle_at_ms;
    hz_idle_bins_flush(self_, 0, begun + HZ_DEPOT_AGE_MS - 1);
    EXPECT_EQ(held(size_class), count);
    hz_idle_bins_flush(self_, 0, begun + HZ_DEPOT_AGE_MS);
    EXPECT_EQ(held(size_class), 0U);
    EXPECT_EQ(self_->idle_at_ms, begun + HZ_DEPOT_AGE_MS);
}

TEST_F(Idle, ACallSendsAFewBinsHome) {
    uint32_t left = 0;
    for (unsigned size_class = 1; size_class < unit::class_count; size_class += 2, left++)
        fill(size_class);
    round();
    auto full = [this] {
        uint32_t count = 0;
        for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
            count += held(size_class) > 0;
        return count;
    };
    ASSERT_EQ(full(), left);
    for (bool done = false; !done;) {
        done = call();
        EXPECT_EQ(full(), left - std::min(left, uint32_t{BINS_AT_ONCE}));
        left = full();
    }
    EXPECT_EQ(full(), 0U);
    EXPECT_EQ(self_->idle_next, 0U);
}

TEST_F(Idle, TheRemoteBufferGoesHomeToo) {
    std::vector<unsigned> classes = unit::some_classes(hz_class_is_home);
    if (classes.empty())
        GTEST_SKIP() << "in this lane no blocks go home when they are freed";
    struct hz_shard *shard = hz_shard_claim();
    ASSERT_NE(shard, self_->shard);
    for (unsigned size_class : classes) {
        hz_heap_free(unit::take(shard, size_class, 1)[0]);
        ASSERT_EQ(held(HZ_REMOTE_BIN), 1U);
        round();
        ASSERT_EQ(held(HZ_REMOTE_BIN), 1U);
        round();
        EXPECT_EQ(held(HZ_REMOTE_BIN), 0U);
        EXPECT_EQ(unit::waiting(shard, size_class), unit::waits(1));
        EXPECT_EQ(hz_bin_room(&self_->cache, HZ_REMOTE_BIN), uint32_t{HZ_REMOTE_COUNT}) << "its room stays";
    }
    unit::leave(shard);
}

/* A thread that works with one class sends home what it has of the others. */
TEST_F(Idle, TicksDriveIt) {
    constexpr unsigned idle = 5;
    uint32_t count = fill(idle);
    self_->idle_at_ms = hz_os_now_ms();
    auto begun = hz_os_now_ms();
    while (held(idle) > 0 && hz_os_now_ms() < begun + 60000)
        hz_tick(self_, 1);
    EXPECT_EQ(held(idle), 0U) << "of " << count;
    EXPECT_GE(hz_os_now_ms(), begun + 2 * HZ_DEPOT_AGE_MS) << "the first look only saw how much it holds";
}

} // namespace
