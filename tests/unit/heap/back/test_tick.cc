/* Ticks: housekeeping from slow paths. Without a keeper all of it is theirs. */
#include "unit/heap/back/sparse.h"

#include <chrono>

namespace {

using support::MiB;
using unit::Blocks;
using unit::ROOM_OF_SPARSE;

class Tick : public unit::SparseShard {};

/* Visits for large blocks count as more: eight times as much, and without a limit while there is more to settle. */
TEST_F(Tick, ComesSoonerWhileThereIsMoreToSettle) {
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
    ASSERT_GT(hz_pressure_slack(), 12 * MiB);
    EXPECT_EQ(visits_to_tick(), 1U);
    unit::put(shard_, live);
    hz_heap_purge();
    EXPECT_EQ(visits_to_tick(), 4U);
}

/* A thread's ticks find the class, and send home what rests of it, wherever that is. */
TEST_F(Tick, SettlesSparseClasses) {
    unsigned size_class = hz_class_of(1024);
    bool has_depot = HZ_HAS_DEPOT != 0;
    Blocks live = one_of_sixteen(size_class);
    ASSERT_GT(hz_pressure_slack(), 12 * MiB);
    unit::send(shard_, unit::part(live, live.size() - 10, 10));
    live.resize(live.size() - 10);
    ASSERT_EQ(unit::waiting(shard_, size_class), unit::waits(10));
    fill_bin(size_class);
    if (has_depot)
        unit::rest(self_, size_class, 6);
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
TEST_F(Tick, PurgesAgainAndAgain) {
    unsigned size_class = hz_class_of(1024);
    for (int i = 0; i < 5; i++) {
        SCOPED_TRACE("round " + std::to_string(i));
        Blocks live = one_of_sixteen(size_class);
        ASSERT_GT(hz_pressure_slack(), 12 * MiB);
        for (unsigned j = 0; j < 4 * unit::class_count; j++) {
            self_->slow_count = UINT32_MAX / 2; /* so that each call is a tick */
            hz_tick(self_, 1);
        }
        EXPECT_LT(hz_pressure_slack(), 6 * MiB);
        unit::put(shard_, live);
        hz_heap_purge();
    }
}

/* Without a keeper the ticks do it, when it is time. */
TEST_F(Tick, TheDepotAges) {
    if (HZ_DEPOT_BYTES == 0)
        GTEST_SKIP() << "this lane has no depot";
    ASSERT_FALSE(hz_keeper_runs());
    unsigned size_class = 2;
    uint32_t pushed = unit::rest(self_, size_class, 2);
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (hz_depot_blocks(size_class) > 0 && std::chrono::steady_clock::now() < deadline)
        hz_tick(self_, 1);
    EXPECT_EQ(hz_depot_blocks(size_class), 0U) << "of " << pushed;
    hz_heap_purge();
}

} // namespace
