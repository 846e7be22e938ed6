/* Classes of which few blocks are out are sparse, while pages hold much more than those. Their blocks rest nowhere. */
#include "unit/heap/fixture.h"

#include <algorithm>
#include <set>

namespace {

using support::MiB;
using unit::Blocks;

enum { ROOM_OF_SPARSE = 8 }; /* blocks */

class Density : public unit::OwnShard {
  protected:
    void SetUp() override {
        unit::OwnShard::SetUp();
        unit::forget_sparse();
        hz_arena_purge(0, SIZE_MAX); /* so that new pages have no memory, and are no slack */
    }
    void TearDown() override {
        unit::forget_sparse();
        hz_heap_purge();
        unit::OwnShard::TearDown();
    }
    /* One page's blocks of a class, touched. */
    Blocks take_page(unsigned size_class) {
        Blocks blocks = unit::take(shard_, size_class, 1);
        uint32_t left = hz_page_of(blocks[0])->capacity - 1;
        Blocks more = unit::take(shard_, size_class, left);
        blocks.insert(blocks.end(), more.begin(), more.end());
        return blocks;
    }
    /* Puts blocks home until `stay` are left. */
    void put_down_to(Blocks &blocks, size_t stay) {
        unit::put(shard_, Blocks(blocks.begin() + static_cast<ptrdiff_t>(stay), blocks.end()));
        blocks.resize(stay);
    }
    /* Makes a class sparse, by pages of which one block is out. Returns those blocks, at least two. */
    Blocks make_sparse(unsigned size_class) {
        Blocks page = take_page(size_class);
        Blocks all =
            unit::take(shard_, size_class, static_cast<uint32_t>(page.size() + 2 * hz_class_blocks(size_class)));
        all.insert(all.end(), page.begin(), page.end());
        Blocks live;
        Blocks others;
        std::set<struct hz_page *> pages;
        for (void *block : all)
            (pages.insert(hz_page_of(block)).second ? live : others).push_back(block);
        unit::put(shard_, others);
        EXPECT_TRUE(hz_class_look(size_class));
        return live;
    }
    /* Fills this thread's bin with blocks of its own shard, and returns their number. */
    uint32_t fill_bin(unsigned size_class) {
        uint32_t count = hz_bin_capacity(size_class);
        hz_bin_send_home(self_, size_class);
        hz_room_set(self_, size_class, count);
        for (void *block : unit::take(self_->shard, size_class, count))
            hz_heap_free(block);
        EXPECT_EQ(unit::bin_count(self_, size_class), count);
        return count;
    }
    /* Pushes batches of a class into the depot. Returns the number of blocks. */
    uint32_t rest(unsigned size_class, uint32_t batches) {
        uint32_t batch = hz_batch_count(size_class);
        for (uint32_t i = 0; i < batches; i++)
            EXPECT_TRUE(hz_depot_push(self_, size_class, unit::take(self_->shard, size_class, batch).data(), batch));
        return batches * batch;
    }
    void age_round() {
        hz_age_depot_begin();
        while (hz_age_depot_step(self_, 1)) {
        }
    }
    static std::vector<unsigned> sparse_classes() {
        std::vector<unsigned> classes;
        for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
            if (hz_class_is_sparse(size_class))
                classes.push_back(size_class);
        return classes;
    }
    /* Takes 16 MiB of blocks of 1 KiB and keeps every 16th. */
    Blocks one_of_sixteen(unsigned size_class) {
        Blocks live;
        Blocks others;
        for (void *block : unit::take(shard_, size_class, 16 * MiB / 1024))
            ((live.size() + others.size()) % 16 == 0 ? live : others).push_back(block);
        unit::put(shard_, others);
        return live;
    }
};

/* ---- what the figures say ---- */

TEST_F(Density, SlackIsWhatFreeBlocksHold) {
    unsigned size_class = hz_class_of(1024);
    size_t slack = hz_density_slack();
    size_t out = hz_density_out();
    Blocks blocks = unit::take(shard_, size_class, 1);
    uint32_t capacity = hz_page_of(blocks[0])->capacity;
    EXPECT_LT(hz_density_slack() - slack, hz_os_page_bytes()) << "what was never touched holds no memory";
    EXPECT_EQ(hz_density_out() - out, 1024U);
    Blocks more = unit::take(shard_, size_class, capacity - 1);
    blocks.insert(blocks.end(), more.begin(), more.end());
    EXPECT_EQ(hz_density_slack(), slack);
    EXPECT_EQ(hz_density_out() - out, size_t{capacity} * 1024);
    put_down_to(blocks, capacity / 4);
    EXPECT_EQ(hz_density_slack() - slack, (size_t{capacity} - capacity / 4) * 1024);
    EXPECT_EQ(hz_density_out() - out, size_t{capacity / 4} * 1024);
    hz_pages_purge_all(self_, false);
    EXPECT_LT(hz_density_slack() - slack, 2 * hz_os_page_bytes()) << "what is purged is no slack";
    EXPECT_EQ(hz_density_out() - out, size_t{capacity / 4} * 1024);
    put_down_to(blocks, 0);
}

TEST_F(Density, IsLowAboveTheBound) {
    Blocks blocks = take_page(hz_class_of(1024));
    put_down_to(blocks, 5);
    size_t slack = hz_density_slack();
    ASSERT_GT(slack, 10000U);
    hz_density_look();
    size_t recent = hz_density_recent_out();
    for (size_t share : {size_t{8}, size_t{1000}})
        for (size_t resting : {size_t{0}, size_t{5000} + recent}) {
            size_t bytes = slack + resting - recent / share;
            EXPECT_FALSE(hz_density_is_low(resting, {bytes, share}));
            EXPECT_TRUE(hz_density_is_low(resting, {bytes - 1, share}));
            EXPECT_TRUE(hz_density_is_low(resting + 1, {bytes, share}));
        }
    put_down_to(blocks, 0);
}

/* What was out of late: it rises at once, and falls slowly. */
TEST_F(Density, RecentOutFallsByAnEighth) {
    while (hz_density_recent_out() > hz_density_out()) {
        size_t before = hz_density_recent_out();
        hz_density_look();
        ASSERT_EQ(hz_density_recent_out(), before) << "a look only raises it";
        hz_density_age();
        ASSERT_EQ(hz_density_recent_out(), std::max(before - before / 8, hz_density_out()));
        ASSERT_TRUE(before < 8 || hz_density_recent_out() < before);
        if (before < 8)
            break;
    }
    Blocks blocks = take_page(5);
    size_t out = hz_density_out();
    ASSERT_GT(out, 60000U);
    EXPECT_LT(hz_density_recent_out(), out) << "nobody has looked";
    hz_density_look();
    EXPECT_EQ(hz_density_recent_out(), out);
    hz_density_age();
    EXPECT_EQ(hz_density_recent_out(), out) << "not below what is out";
    put_down_to(blocks, blocks.size() / 2);
    size_t left = hz_density_out();
    ASSERT_LT(left, out * 3 / 4);
    hz_density_age();
    EXPECT_EQ(hz_density_recent_out(), out - out / 8);
    for (int i = 0; i < 10; i++)
        hz_density_age();
    EXPECT_EQ(hz_density_recent_out(), left);
    put_down_to(blocks, 0);
}

/* ---- which classes are sparse ---- */

TEST_F(Density, AClassIsSparseWithLessThanHalfOfItsBlocksOut) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        EXPECT_FALSE(hz_class_look(size_class)) << "it has no blocks";
        Blocks blocks = take_page(size_class);
        size_t capacity = blocks.size();
        EXPECT_FALSE(hz_class_look(size_class));
        put_down_to(blocks, (capacity + 1) / 2);
        EXPECT_FALSE(hz_class_look(size_class));
        EXPECT_FALSE(hz_class_is_sparse(size_class));
        put_down_to(blocks, (capacity + 1) / 2 - 1);
        EXPECT_FALSE(hz_class_is_sparse(size_class)) << "nobody has looked";
        EXPECT_TRUE(hz_class_look(size_class));
        EXPECT_EQ(sparse_classes(), std::vector<unsigned>{size_class}) << "the others are not";
        Blocks one = unit::take(shard_, size_class, 1);
        EXPECT_TRUE(hz_class_is_sparse(size_class)) << "as of the last look";
        EXPECT_FALSE(hz_class_look(size_class));
        EXPECT_FALSE(hz_class_is_sparse(size_class));
        put_down_to(blocks, 0);
        unit::put(shard_, one);
        unit::retire_all(shard_);
    }
}

/* Blocks count wherever their pages are. */
TEST_F(Density, AllShardsCount) {
    constexpr unsigned size_class = 20;
    Blocks blocks = take_page(size_class);
    Blocks own = unit::take(self_->shard, size_class, static_cast<uint32_t>(blocks.size()));
    put_down_to(blocks, 1);
    EXPECT_FALSE(hz_class_look(size_class)) << "one page's blocks of two are out, and one more";
    unit::put(self_->shard, own);
    EXPECT_TRUE(hz_class_look(size_class));
    put_down_to(blocks, 0);
}

TEST_F(Density, NothingIsSparseBelowTheBound) {
    std::vector<unsigned> classes = {1, 63, 64, unit::largest_short}; /* in both words of bits */
    Blocks live;
    for (unsigned size_class : classes)
        for (void *block : make_sparse(size_class))
            live.push_back(block);
    EXPECT_EQ(sparse_classes(), classes);
    (void)hz_settle_tick(self_, HZ_REMOTE_BIN, true);
    EXPECT_EQ(sparse_classes(), classes) << "with a keeper, ticks have a higher bound and leave this to it";
    hz_settle_all(self_);
    EXPECT_EQ(sparse_classes(), std::vector<unsigned>()) << "the keeper";
    for (unsigned size_class : classes)
        (void)hz_class_look(size_class);
    EXPECT_EQ(sparse_classes(), classes);
    (void)hz_settle_tick(self_, HZ_REMOTE_BIN, false);
    EXPECT_EQ(sparse_classes(), std::vector<unsigned>()) << "a tick without a keeper";
    unit::put(shard_, live);
}

/* ---- where blocks of sparse classes go ---- */

TEST_F(Density, WhatIsSentDoesNotWait) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        Blocks live = make_sparse(size_class);
        for (bool sparse : {false, true}) {
            unit::forget_sparse();
            EXPECT_EQ(sparse && hz_class_look(size_class), sparse);
            struct hz_list list = unit::list_of(live, live.size() - 1, 1);
            live.pop_back();
            hz_shard_send(self_, shard_, size_class, &list);
            EXPECT_EQ(unit::waiting(shard_, size_class), sparse ? 0U : 1U);
            unit::drain(shard_, size_class);
        }
        unit::put(shard_, live);
        unit::retire_all(shard_);
    }
}

TEST_F(Density, TheSurplusOfABinDoesNotRestInTheDepot) {
    if (HZ_DEPOT_BYTES == 0)
        GTEST_SKIP() << "this lane has no depot";
    for (unsigned size_class : unit::some_classes(hz_class_is_shared))
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

TEST_F(Density, AFullBinGoesHomeAndGetsLittleRoom) {
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

TEST_F(Density, ARoundOfAgeingSendsThemAllHome) {
    if (HZ_DEPOT_BYTES == 0)
        GTEST_SKIP() << "this lane has no depot";
    constexpr unsigned size_class = 2;
    for (bool sparse : {false, true}) {
        unit::forget_sparse();
        age_round();
        uint32_t pushed = rest(size_class, 6);
        Blocks live = sparse ? make_sparse(size_class) : Blocks();
        age_round();
        EXPECT_EQ(hz_depot_blocks(size_class), sparse ? 0U : pushed - hz_batch_count(size_class));
        unit::put(shard_, live);
        hz_heap_purge();
    }
}

/* A thread's ticks find the class, and send home what rests of it, wherever that is. */
/* Visits for large blocks count as more: eight times as much, and without a limit while there is more to settle. */
TEST_F(Density, TicksComeSoonerWhileThereIsMoreToSettle) {
    unit::forbid_idle_looks(self_);
    auto visits_to_tick = [&] {
        self_->slow_count = UINT32_MAX / 2; /* so that the first call is a tick */
        hz_tick(self_, unit::class_count - 1);
        unsigned visits = 0;
        do {
            hz_tick(self_, unit::class_count - 1);
            visits++;
        } while (self_->slow_count != 0);
        return visits;
    };
    EXPECT_EQ(visits_to_tick(), 4U);
    Blocks live = one_of_sixteen(hz_class_of(1024));
    ASSERT_GT(hz_density_slack(), 12 * MiB);
    EXPECT_EQ(visits_to_tick(), 1U);
    unit::put(shard_, live);
    hz_heap_purge();
    EXPECT_EQ(visits_to_tick(), 4U);
}

/* The sum over the depot is not made in each tick. One from before a purge makes no class sparse. */
TEST_F(Density, AnOldSumOverTheDepotDoesNotDecide) {
    unsigned size_class = unit::largest_short;
    if (HZ_DEPOT_BYTES == 0 || !hz_class_is_shared(size_class))
        GTEST_SKIP() << "nothing of this class rests in this lane's depot";
    unit::forbid_idle_looks(self_);
    Blocks live = make_sparse(hz_class_of(1024));
    /* as much as is too much without a keeper, even when there is no slack */
    while (hz_age_resting_bytes() <= 5 * MiB + hz_density_recent_out() / 8)
        rest(size_class--, 2);
    for (unsigned turn = 0; turn % 8 != 0 || turn < unit::class_count; turn++) /* some of these sum up */
        (void)hz_settle_tick(self_, HZ_REMOTE_BIN, true);
    EXPECT_GT(hz_depot_blocks(unit::largest_short), 0U) << "the bound with a keeper is higher";
    hz_heap_purge();
    hz_classes_forget_sparse();
    ASSERT_FALSE(hz_density_is_low(0, {4 * MiB, 8}));
    EXPECT_FALSE(hz_settle_tick(self_, hz_class_of(1024), false));
    EXPECT_EQ(sparse_classes(), std::vector<unsigned>());
    unit::put(shard_, live);
}

TEST_F(Density, TicksSettleSparseClasses) {
    unsigned size_class = hz_class_of(1024);
    bool has_depot = HZ_DEPOT_BYTES > 0 && hz_class_is_shared(size_class);
    Blocks live = one_of_sixteen(size_class);
    ASSERT_GT(hz_density_slack(), 12 * MiB);
    struct hz_list list = unit::list_of(live, live.size() - 10, 10);
    live.resize(live.size() - 10);
    hz_shard_send(self_, shard_, size_class, &list);
    ASSERT_EQ(unit::waiting(shard_, size_class), 10U);
    fill_bin(size_class);
    if (has_depot)
        rest(size_class, 6);
    unit::forbid_idle_looks(self_);
    hz_heap_limit_set(1, 0); /* so that the slack stays too much until each class has had its turn */
    for (unsigned i = 0; i < 2 * unit::class_count; i++) {
        self_->slow_count = UINT32_MAX / 2; /* so that each call is a tick */
        hz_tick(self_, 1);
    }
    hz_heap_limit_set(0, 0);
    EXPECT_TRUE(hz_class_is_sparse(size_class));
    EXPECT_EQ(unit::bin_count(self_, size_class), 0U);
    EXPECT_LE(hz_bin_room(&self_->cache, size_class), uint32_t{ROOM_OF_SPARSE});
    EXPECT_EQ(hz_depot_blocks(size_class), 0U);
    EXPECT_EQ(unit::waiting(shard_, size_class), 0U);
    unit::put(shard_, live);
}

/* What one walk over the pages has left for the next one: nothing, and the next one begins anew. */
TEST_F(Density, TicksPurgeAgainAndAgain) {
    unsigned size_class = hz_class_of(1024);
    for (int i = 0; i < 5; i++) {
        SCOPED_TRACE("round " + std::to_string(i));
        Blocks live = one_of_sixteen(size_class);
        ASSERT_GT(hz_density_slack(), 12 * MiB);
        for (unsigned j = 0; j < 4 * unit::class_count; j++) {
            self_->slow_count = UINT32_MAX / 2; /* so that each call is a tick */
            hz_tick(self_, 1);
        }
        EXPECT_LT(hz_density_slack(), 6 * MiB);
        unit::put(shard_, live);
        hz_heap_purge();
    }
}

/* The keeper does it for all classes at once. Above a soft limit almost any slack is too much. */
TEST_F(Density, TheKeeperSettlesAllSparseClasses) {
    std::vector<unsigned> classes = unit::some_classes();
    Blocks live;
    for (unsigned size_class : classes) {
        if (HZ_DEPOT_BYTES > 0 && hz_class_is_shared(size_class))
            rest(size_class, 1);
        Blocks one_a_page = make_sparse(size_class);
        struct hz_list list = unit::list_of(one_a_page, 0, 1);
        unit::forget_sparse();
        hz_shard_send(self_, shard_, size_class, &list);
        live.insert(live.end(), one_a_page.begin() + 1, one_a_page.end());
    }
    hz_settle_all(self_);
    EXPECT_EQ(sparse_classes(), std::vector<unsigned>()) << "so little slack is fine";
    for (unsigned size_class : classes)
        EXPECT_EQ(unit::waiting(shard_, size_class), 1U);
    hz_heap_limit_set(1, 0);
    hz_settle_all(self_);
    hz_heap_limit_set(0, 0);
    EXPECT_EQ(sparse_classes(), classes);
    for (unsigned size_class : classes) {
        EXPECT_EQ(hz_depot_blocks(size_class), 0U) << "class " << size_class;
        EXPECT_EQ(unit::waiting(shard_, size_class), 0U) << "class " << size_class;
    }
    unit::put(shard_, live);
}

} // namespace
