/* A round of the keeper: what rests goes home, what is free goes back, and threads that rest are parked. */
#include "unit/heap/back/sparse.h"
#include "unit/heap/worker.h"

#include <chrono>

extern "C" {
#include "heap/back/round.h"
}

namespace {

using unit::Blocks;

class Round : public unit::SparseShard {
  protected:
    /* A round so much later than the one before. */
    struct hz_round later(uint64_t ms, bool can_park = false) {
        now_ += ms;
        return hz_round_do(self_, now_, can_park);
    }

  private:
    static inline uint64_t now_ = hz_os_now_ms();
};

TEST_F(Round, TheDepotAges) {
    if (HZ_DEPOT_BYTES == 0)
        GTEST_SKIP() << "this lane has no depot";
    constexpr unsigned size_class = 2;
    later(HZ_DEPOT_AGE_MS);
    uint32_t pushed = unit::rest(self_, size_class, 6);
    struct hz_round round = later(HZ_DEPOT_AGE_MS);
    uint32_t left = hz_depot_blocks(size_class);
    EXPECT_EQ(left, pushed - hz_batch_count(size_class)) << "the class was in use";
    EXPECT_TRUE(round.has_changed);
    EXPECT_GE(round.rest_bytes, left * hz_class_bytes(size_class));
    later(HZ_DEPOT_AGE_MS);
    EXPECT_EQ(hz_depot_blocks(size_class), 0U);
}

TEST_F(Round, WhatWasSentGoesHome) {
    for (unsigned size_class : unit::some_short_and_long_classes()) {
        struct hz_list list = unit::list_of(unit::take(shard_, size_class, 1));
        unit::forget_sparse(); /* blocks of a sparse class are not sent */
        hz_shard_send(self_, shard_, size_class, &list);
    }
    EXPECT_TRUE(later(HZ_DEPOT_AGE_MS).has_changed);
    for (unsigned size_class : unit::some_short_and_long_classes())
        EXPECT_EQ(unit::waiting(shard_, size_class), 1U) << "it was sent since the round before";
    later(HZ_DEPOT_AGE_MS);
    for (unsigned size_class : unit::some_short_and_long_classes())
        EXPECT_EQ(unit::waiting(shard_, size_class), 0U) << "class " << size_class;
}

TEST_F(Round, PartsOfPagesGoBack) {
    size_t before = hz_density_slack();
    Blocks live = make_sparse(hz_class_of(1024));
    size_t slack = hz_density_slack();
    later(500);
    EXPECT_EQ(hz_density_slack(), slack) << "the pages have changed since the walk before";
    later(499);
    EXPECT_EQ(hz_density_slack(), slack) << "no walk";
    later(1);
    EXPECT_LT(hz_density_slack() - before, (slack - before) / 2);
    unit::put(shard_, live);
}

/* For a second a thread's pause may be a wait for a CPU. */
TEST_F(Round, AThreadThatRestsIsParked) {
    if (HZ_HAS_CPU_BINS || !hz_os_barrier_prepare(true))
        GTEST_SKIP() << "threads of this lane have empty bins, or this kernel has no membarrier";
    constexpr unsigned size_class = 2;
    unit::Worker worker;
    struct hz_thread_block *thread = worker.block();
    auto is_parked = [&] { return hz_load_rlx(&thread->parking.parked); };
    Blocks blocks(20);
    worker.run([&] {
        for (void *&block : blocks)
            block = hz_heap_malloc(hz_class_bytes(size_class));
        for (int i = 0; i < 10; i++, blocks.pop_back())
            hz_heap_free(blocks.back());
    });
    ASSERT_GT(unit::bin_count(thread, size_class), 1U);
    EXPECT_TRUE(hz_round_is_outdated(self_));
    EXPECT_TRUE(later(1, true).has_changed) << "the thread has used its bins";
    EXPECT_FALSE(hz_round_is_outdated(self_));
    EXPECT_GT(later(999, true).rest_bytes, hz_class_bytes(size_class));
    EXPECT_FALSE(is_parked());
    later(1, true);
    EXPECT_TRUE(is_parked());
    EXPECT_LE(hz_bin_count(&thread->cache, size_class, &thread->parking.gone[size_class]), 1U);
    EXPECT_FALSE(hz_round_is_outdated(self_)) << "a parked thread comes to a slow path first";
    worker.run([&] {
        for (void *block : blocks)
            hz_heap_free(block);
    });
    EXPECT_FALSE(is_parked());
}

TEST_F(Round, NobodyIsParkedWithoutMembarrier) {
    unit::Worker worker;
    worker.run([] { hz_heap_free(hz_heap_malloc(32)); });
    for (int i = 0; i < 3; i++)
        later(1000, false);
    EXPECT_FALSE(hz_load_rlx(&worker.block()->parking.parked));
}

/* Then the keeper may sleep. */
TEST_F(Round, NothingChangesWhenAllHasGoneBack) {
    if (HZ_DEPOT_BYTES > 0)
        unit::rest(self_, 2, 2);
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    bool has_changed = true;
    while ((has_changed || hz_arena_resting_bytes() > 0) && std::chrono::steady_clock::now() < deadline)
        has_changed = later(500).has_changed;
    EXPECT_FALSE(has_changed);
    EXPECT_EQ(hz_arena_resting_bytes(), 0U);
}

} // namespace
