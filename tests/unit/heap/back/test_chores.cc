/* The chores. What rests of sparse classes goes home, and parts of pages are purged, while the pages hold much more
   than the blocks that are out of them. */
#include "unit/heap/back/sparse.h"
#include "unit/heap/worker.h"

#include <chrono>

namespace {

using support::MiB;
using unit::Blocks;

class Settle : public unit::SparseShard {
  protected:
    /* What a tick does against sparse classes and for their pages. True if there is more to do. */
    bool tick_settle(unsigned busy, bool keeper_runs) {
        struct hz_turn turn = {};
        turn.driver = keeper_runs ? HZ_TICK_BESIDE : HZ_TICK_ALONE;
        turn.busy = busy;
        (void)hz_chore_do(self_, HZ_CHORE_sparse, &turn);
        return turn.has_more;
    }
};

TEST_F(Settle, NothingIsSparseBelowTheBound) {
    std::vector<unsigned> classes = {1, 63, 64, unit::largest_short}; /* in both words of bits */
    Blocks live;
    for (unsigned size_class : classes)
        for (void *block : make_sparse(size_class))
            live.push_back(block);
    EXPECT_EQ(sparse_classes(), classes);
    (void)tick_settle(HZ_REMOTE_BIN, true);
    EXPECT_EQ(sparse_classes(), classes) << "with a keeper, ticks have a higher bound and leave this to it";
    (void)unit::do_chore(HZ_CHORE_sparse, HZ_ROUND);
    EXPECT_EQ(sparse_classes(), std::vector<unsigned>()) << "the keeper";
    for (unsigned size_class : classes)
        (void)hz_class_look(size_class, 0);
    EXPECT_EQ(sparse_classes(), classes);
    (void)tick_settle(HZ_REMOTE_BIN, false);
    EXPECT_EQ(sparse_classes(), std::vector<unsigned>()) << "a tick without a keeper";
    unit::put(shard_, live);
}

/* The sum over the depot is not made in each tick. One from before a purge makes no class sparse. */
TEST_F(Settle, AnOldSumOverTheDepotDoesNotDecide) {
    unsigned size_class = unit::largest_short;
    if (HZ_HAS_DEPOT == 0)
        GTEST_SKIP() << "nothing of this class rests in this lane's depot";
    unit::forbid_idle_looks(self_);
    Blocks live = make_sparse(hz_class_of(1024));
    /* as much as is too much without a keeper, even when there is no slack */
    while (hz_age_resting_bytes() <= 5 * MiB + hz_pressure_recent_out() / 8)
        unit::rest(self_, size_class--, 2);
    for (unsigned turn = 0; turn % 8 != 0 || turn < unit::class_count; turn++) /* some of these sum up */
        (void)tick_settle(HZ_REMOTE_BIN, true);
    EXPECT_GT(hz_depot_blocks(unit::largest_short), 0U) << "the bound with a keeper is higher";
    hz_heap_purge();
    hz_classes_forget_sparse();
    ASSERT_LT(hz_pressure_get(HZ_TICK_ALONE, 0), HZ_LOW);
    EXPECT_FALSE(tick_settle(hz_class_of(1024), false));
    EXPECT_EQ(sparse_classes(), std::vector<unsigned>());
    unit::put(shard_, live);
}

/* The keeper does it for all classes at once. Above a soft limit almost any slack is too much. */
TEST_F(Settle, TheKeeperSettlesAllSparseClasses) {
    std::vector<unsigned> classes = unit::some_classes();
    Blocks live;
    for (unsigned size_class : classes) {
        if (HZ_HAS_DEPOT != 0)
            unit::rest(self_, size_class, 1);
        Blocks one_a_page = make_sparse(size_class);
        unit::forget_sparse();
        unit::send(shard_, unit::part(one_a_page, 0, 1));
        live.insert(live.end(), one_a_page.begin() + 1, one_a_page.end());
    }
    (void)unit::do_chore(HZ_CHORE_sparse, HZ_ROUND);
    EXPECT_EQ(sparse_classes(), std::vector<unsigned>()) << "so little slack is fine";
    for (unsigned size_class : classes)
        EXPECT_EQ(unit::waiting(shard_, size_class), unit::waits(1));
    hz_heap_limit_set(1, 0);
    (void)unit::do_chore(HZ_CHORE_sparse, HZ_ROUND);
    hz_heap_limit_set(0, 0);
    EXPECT_EQ(sparse_classes(), classes);
    for (unsigned size_class : classes) {
        EXPECT_EQ(hz_depot_blocks(size_class), 0U) << "class " << size_class;
        EXPECT_EQ(unit::waiting(shard_, size_class), 0U) << "class " << size_class;
    }
    unit::put(shard_, live);
}

TEST_F(Settle, AWalkPurgesWhatHasNotChangedSinceTheWalkBefore) {
    auto walk = [&] {
        struct hz_turn turn = {};
        turn.driver = HZ_TICK_ALONE;
        while (hz_chore_do(self_, HZ_CHORE_pages, &turn)) {
        }
    };
    walk(); /* the next one begins with the first segment */
    size_t before = hz_pressure_slack();
    Blocks live = make_sparse(hz_class_of(1024));
    size_t slack = hz_pressure_slack();
    walk();
    EXPECT_EQ(hz_pressure_slack(), slack) << "the pages have changed";
    walk();
    EXPECT_LT(hz_pressure_slack() - before, (slack - before) / 2);
    unit::put(shard_, live);
}

/* ---- rounds of the keeper: what rests goes home, what is free goes back, threads that rest are parked ---- */

class Round : public unit::SparseShard {
  protected:
    /* A round so much later than the one before. */
    struct hz_turn later(uint64_t ms, bool can_park = false) {
        now_ += ms;
        struct hz_turn turn = {};
        turn.driver = HZ_ROUND;
        turn.now_ms = now_;
        turn.can_park = can_park;
        hz_chores_do(self_, &turn);
        return turn;
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
    struct hz_turn round = later(HZ_DEPOT_AGE_MS);
    uint32_t left = hz_depot_blocks(size_class);
    EXPECT_EQ(left, pushed - hz_batch_count(size_class)) << "the class was in use";
    EXPECT_TRUE(round.has_changed);
    EXPECT_GE(round.rest_bytes, left * hz_class_bytes(size_class));
    later(HZ_DEPOT_AGE_MS);
    EXPECT_EQ(hz_depot_blocks(size_class), 0U);
}

TEST_F(Round, WhatWasSentGoesHome) {
    if (unit::mail() == unit::Mail::none)
        GTEST_SKIP() << "in this lane no blocks wait";
    for (unsigned size_class : unit::some_short_and_long_classes()) {
        unit::forget_sparse(); /* blocks of a sparse class are not sent */
        unit::send(shard_, unit::take(shard_, size_class, 1));
    }
    EXPECT_TRUE(later(HZ_DEPOT_AGE_MS).has_changed);
    for (unsigned size_class : unit::some_short_and_long_classes())
        EXPECT_EQ(unit::waiting(shard_, size_class), unit::waits(1)) << "it was sent since the round before";
    later(HZ_DEPOT_AGE_MS);
    for (unsigned size_class : unit::some_short_and_long_classes())
        EXPECT_EQ(unit::waiting(shard_, size_class), 0U) << "class " << size_class;
}

TEST_F(Round, PartsOfPagesGoBack) {
    size_t before = hz_pressure_slack();
    Blocks live = make_sparse(hz_class_of(1024));
    size_t slack = hz_pressure_slack();
    later(500);
    EXPECT_EQ(hz_pressure_slack(), slack) << "the pages have changed since the walk before";
    later(499);
    EXPECT_EQ(hz_pressure_slack(), slack) << "no walk";
    later(1);
    EXPECT_LT(hz_pressure_slack() - before, (slack - before) / 2);
    unit::put(shard_, live);
}

/* A shorter pause of a thread may be a wait for a CPU. */
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
    EXPECT_TRUE(hz_sleepers_moved(self_));
    EXPECT_TRUE(later(1, true).has_changed) << "the thread has used its bins";
    EXPECT_FALSE(hz_sleepers_moved(self_));
    EXPECT_GT(later(HZ_SLEEPER_MS - 1, true).rest_bytes, hz_class_bytes(size_class));
    EXPECT_FALSE(is_parked());
    later(1, true);
    EXPECT_TRUE(is_parked());
    EXPECT_LE(hz_bin_count(&thread->cache, size_class, &thread->parking.gone[size_class]), 1U);
    EXPECT_FALSE(hz_sleepers_moved(self_)) << "a parked thread comes to a slow path first";
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
