/* Classes of which few blocks are out are sparse, while pages hold much more than those. Their blocks rest nowhere. */
#include "unit/heap/back/sparse.h"

#include <algorithm>

namespace {

using support::MiB;
using unit::Blocks;
using unit::ROOM_OF_SPARSE;

class Pressure : public unit::SparseShard {};

/* ---- what the figures say ---- */

TEST_F(Pressure, SlackIsWhatFreeBlocksHold) {
    unsigned size_class = hz_class_of(1024);
    size_t slack = hz_pressure_slack();
    size_t out = hz_pressure_out();
    Blocks blocks = unit::take(shard_, size_class, 1);
    uint32_t capacity = hz_page_of(blocks[0])->capacity;
    EXPECT_LT(hz_pressure_slack() - slack, hz_os_page_bytes()) << "what was never touched holds no memory";
    EXPECT_EQ(hz_pressure_out() - out, 1024U);
    Blocks more = unit::take(shard_, size_class, capacity - 1);
    blocks.insert(blocks.end(), more.begin(), more.end());
    EXPECT_EQ(hz_pressure_slack(), slack);
    EXPECT_EQ(hz_pressure_out() - out, size_t{capacity} * 1024);
    put_down_to(blocks, capacity / 4);
    EXPECT_EQ(hz_pressure_slack() - slack, (size_t{capacity} - capacity / 4) * 1024);
    EXPECT_EQ(hz_pressure_out() - out, size_t{capacity / 4} * 1024);
    hz_pages_purge_all(self_, false);
    EXPECT_LT(hz_pressure_slack() - slack, 2 * hz_os_page_bytes()) << "what is purged is no slack";
    EXPECT_EQ(hz_pressure_out() - out, size_t{capacity / 4} * 1024);
    put_down_to(blocks, 0);
}

/* The bounds of policy.def, counted again. */
TEST_F(Pressure, IsLowAboveTheBound) {
    Blocks blocks = take_page(hz_class_of(1024));
    put_down_to(blocks, 5);
    size_t slack = hz_pressure_slack();
    ASSERT_GT(slack, 10000U);
    ASSERT_LT(slack, 4 * MiB);
    hz_pressure_look();
    size_t recent = hz_pressure_recent_out();
    for (size_t threads : {size_t{1}, size_t{10}, size_t{1000}}) {
        std::vector<int> others(threads - hz_pressure_threads());
        for (size_t i = 0; i < others.size(); i++)
            hz_pressure_join();
        size_t beside = std::min(8 * MiB + threads * MiB / 4, 32 * MiB) + recent / 2;
        EXPECT_EQ(hz_pressure_get(HZ_TICK_BESIDE, beside - slack), HZ_CALM) << threads;
        EXPECT_EQ(hz_pressure_get(HZ_TICK_BESIDE, beside - slack + 1), HZ_LOW) << threads;
        EXPECT_EQ(hz_pressure_get(HZ_TICK_ALONE, 4 * MiB + recent / 8 - slack), HZ_CALM) << threads;
        EXPECT_EQ(hz_pressure_get(HZ_TICK_ALONE, 4 * MiB + recent / 8 - slack + 1), HZ_LOW) << threads;
        EXPECT_EQ(hz_pressure_get(HZ_ROUND, 64 * MiB + recent - slack), HZ_CALM) << threads;
        EXPECT_EQ(hz_pressure_get(HZ_ROUND, 64 * MiB + recent - slack + 1), HZ_LOW) << threads;
        for (size_t i = 0; i < others.size(); i++)
            hz_pressure_leave();
    }
    hz_heap_limit_set(1, 0);
    size_t most = recent / 32;
    if (slack <= most) {
        EXPECT_EQ(hz_pressure_get(HZ_ROUND, most - slack), HZ_CALM);
    }
    EXPECT_EQ(hz_pressure_get(HZ_ROUND, most + 1), HZ_OVER);
    EXPECT_EQ(hz_pressure_get(HZ_TICK_BESIDE, most + 1), HZ_OVER);
    hz_heap_limit_set(0, 0);
    put_down_to(blocks, 0);
}

/* Much slack and nothing at rest: the keeper walks over the pages, but settles no class yet. */
TEST_F(Pressure, IsLooseBeforeItIsLow) {
    Blocks blocks = unit::take(shard_, hz_class_of(1024), 80 * MiB / 1024);
    hz_pressure_look();
    size_t recent = hz_pressure_recent_out();
    auto keep_one_of = [&](size_t every) {
        Blocks live;
        Blocks others;
        for (void *block : blocks)
            ((live.size() + others.size()) % every == 0 ? live : others).push_back(block);
        unit::put(shard_, others);
        blocks = live;
    };
    keep_one_of(2);
    ASSERT_LT(hz_pressure_slack(), 32 * MiB + hz_pressure_out() / 4);
    EXPECT_EQ(hz_pressure_get(HZ_ROUND, 0), HZ_CALM);
    keep_one_of(4);
    ASSERT_GT(hz_pressure_slack(), 32 * MiB + hz_pressure_out() / 4);
    ASSERT_LT(hz_pressure_slack(), 64 * MiB + recent);
    EXPECT_EQ(hz_pressure_get(HZ_ROUND, 0), HZ_LOOSE);
    EXPECT_EQ(hz_pressure_get(HZ_ROUND, 64 * MiB + recent - hz_pressure_slack()), HZ_LOOSE);
    EXPECT_EQ(hz_pressure_get(HZ_ROUND, 64 * MiB + recent - hz_pressure_slack() + 1), HZ_LOW);
    EXPECT_EQ(hz_pressure_get(HZ_TICK_BESIDE, 0), HZ_LOW) << "ticks do not wait for the next round";
    put_down_to(blocks, 0);
}

/* What was out of late: it rises at once, and falls slowly. */
TEST_F(Pressure, RecentOutFallsByAnEighth) {
    while (hz_pressure_recent_out() > hz_pressure_out()) {
        size_t before = hz_pressure_recent_out();
        hz_pressure_look();
        ASSERT_EQ(hz_pressure_recent_out(), before) << "a look only raises it";
        hz_pressure_age();
        ASSERT_EQ(hz_pressure_recent_out(), std::max(before - before / 8, hz_pressure_out()));
        ASSERT_TRUE(before < 8 || hz_pressure_recent_out() < before);
        if (before < 8)
            break;
    }
    Blocks blocks = take_page(5);
    size_t out = hz_pressure_out();
    ASSERT_GT(out, 60000U);
    EXPECT_LT(hz_pressure_recent_out(), out) << "nobody has looked";
    hz_pressure_look();
    EXPECT_EQ(hz_pressure_recent_out(), out);
    hz_pressure_age();
    EXPECT_EQ(hz_pressure_recent_out(), out) << "not below what is out";
    put_down_to(blocks, blocks.size() / 2);
    size_t left = hz_pressure_out();
    ASSERT_LT(left, out * 3 / 4);
    hz_pressure_age();
    EXPECT_EQ(hz_pressure_recent_out(), out - out / 8);
    for (int i = 0; i < 10; i++)
        hz_pressure_age();
    EXPECT_EQ(hz_pressure_recent_out(), left);
    put_down_to(blocks, 0);
}

/* ---- which classes are sparse ---- */

TEST_F(Pressure, AClassIsSparseWithLessThanHalfOfItsBlocksOut) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        EXPECT_FALSE(hz_class_look(size_class, 0)) << "it has no blocks";
        Blocks blocks = take_page(size_class);
        size_t capacity = blocks.size();
        EXPECT_FALSE(hz_class_look(size_class, 0));
        put_down_to(blocks, (capacity + 1) / 2);
        EXPECT_FALSE(hz_class_look(size_class, 0));
        EXPECT_FALSE(hz_class_is_sparse(size_class));
        put_down_to(blocks, (capacity + 1) / 2 - 1);
        EXPECT_FALSE(hz_class_is_sparse(size_class)) << "nobody has looked";
        EXPECT_TRUE(hz_class_look(size_class, 0));
        EXPECT_EQ(sparse_classes(), std::vector<unsigned>{size_class}) << "the others are not";
        Blocks one = unit::take(shard_, size_class, 1);
        EXPECT_TRUE(hz_class_is_sparse(size_class)) << "as of the last look";
        EXPECT_FALSE(hz_class_look(size_class, 0));
        EXPECT_FALSE(hz_class_is_sparse(size_class));
        put_down_to(blocks, 0);
        unit::put(shard_, one);
        unit::retire_all(shard_);
    }
}

/* Blocks count wherever their pages are. */
TEST_F(Pressure, AllShardsCount) {
    constexpr unsigned size_class = 20;
    Blocks blocks = take_page(size_class);
    Blocks own = unit::take(self_->shard, size_class, static_cast<uint32_t>(blocks.size()));
    put_down_to(blocks, 1);
    EXPECT_FALSE(hz_class_look(size_class, 0)) << "one page's blocks of two are out, and one more";
    unit::put(self_->shard, own);
    EXPECT_TRUE(hz_class_look(size_class, 0));
    put_down_to(blocks, 0);
}

/* A burst that is over: 4 threads with 20 MiB peaked at 360 MiB while these counted as taken. */
TEST_F(Pressure, BlocksInTheDepotAreNotOut) {
    if (HZ_DEPOT_BYTES == 0)
        GTEST_SKIP() << "this lane has no depot";
    constexpr unsigned size_class = 20;
    Blocks blocks = take_page(size_class);
    size_t batch = hz_batch_count(size_class);
    while (blocks.size() >= batch && 2 * (blocks.size() - batch) >= hz_class_blocks(size_class)) {
        ASSERT_TRUE(hz_depot_push(self_, size_class, &blocks[blocks.size() - batch], static_cast<uint32_t>(batch)));
        blocks.resize(blocks.size() - batch);
    }
    EXPECT_FALSE(hz_class_look(size_class, hz_depot_blocks(size_class)))
        << blocks.size() << " of " << hz_class_blocks(size_class) << " are out";
    auto more = static_cast<uint32_t>(std::min(batch, blocks.size()));
    ASSERT_TRUE(hz_depot_push(self_, size_class, &blocks[blocks.size() - more], more));
    blocks.resize(blocks.size() - more);
    EXPECT_TRUE(hz_class_look(size_class, hz_depot_spare_blocks(size_class)));
    put_down_to(blocks, 0);
}

/* ---- where blocks of sparse classes go ---- */

TEST_F(Pressure, WhatIsSentDoesNotWait) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        Blocks live = make_sparse(size_class);
        for (bool sparse : {false, true}) {
            unit::forget_sparse();
            EXPECT_EQ(sparse && hz_class_look(size_class, 0), sparse);
            unit::send(shard_, {live.back()});
            live.pop_back();
            EXPECT_EQ(unit::waiting(shard_, size_class), sparse ? 0U : unit::waits(1));
            unit::drain(shard_, size_class);
        }
        unit::put(shard_, live);
        unit::retire_all(shard_);
    }
}

TEST_F(Pressure, TheSurplusOfABinDoesNotRestInTheDepot) {
    if (HZ_DEPOT_BYTES == 0)
        GTEST_SKIP() << "this lane has no depot";
    for (unsigned size_class : unit::some_classes([](unsigned) { return HZ_HAS_DEPOT != 0; }))
        for (bool sparse : {false, true}) {
            SCOPED_TRACE("class " + std::to_string(size_class));
            unit::forget_sparse();
            fill_bin(size_class);
            Blocks live = sparse ? make_sparse(size_class) : Blocks();
            hz_bin_flush(self_, size_class, 0);
            EXPECT_EQ(hz_depot_blocks(size_class) > 0, !sparse);
            EXPECT_EQ(unit::bin_count(self_, size_class), 0U);
            unit::put(shard_, live);
            hz_heap_purge();
        }
}

TEST_F(Pressure, AFullBinGoesHomeAndGetsLittleRoom) {
    for (unsigned size_class : unit::some_classes()) {
        if (hz_class_bytes(size_class) > 32 * support::KiB)
            continue; /* each free that finds a full bin is a tick, which forgets what is sparse below the bound */
        SCOPED_TRACE("class " + std::to_string(size_class));
        Blocks one = unit::take(self_->shard, size_class, 1);
        fill_bin(size_class);
        Blocks live = make_sparse(size_class);
        self_->slow_count = 0;
        hz_heap_free(one[0]);
        EXPECT_EQ(unit::bin_count(self_, size_class), 1U) << "the last block";
        EXPECT_LE(hz_bin_room(&self_->cache, size_class), uint32_t{ROOM_OF_SPARSE});
        EXPECT_EQ(hz_depot_blocks(size_class), 0U);
        unit::put(shard_, live);
        hz_heap_purge();
    }
}

TEST_F(Pressure, ARoundOfAgeingSendsThemAllHome) {
    if (HZ_DEPOT_BYTES == 0)
        GTEST_SKIP() << "this lane has no depot";
    constexpr unsigned size_class = 2;
    for (bool sparse : {false, true}) {
        unit::forget_sparse();
        unit::age_round(self_);
        uint32_t pushed = unit::rest(self_, size_class, 6);
        Blocks live = sparse ? make_sparse(size_class) : Blocks();
        unit::age_round(self_);
        EXPECT_EQ(hz_depot_blocks(size_class), sparse ? 0U : pushed - hz_batch_count(size_class));
        unit::put(shard_, live);
        hz_heap_purge();
    }
}

} // namespace
