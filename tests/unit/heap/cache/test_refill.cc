/* An empty bin gets a batch: from the depot, or from the thread's shard. */
#include "unit/heap/cache/bins.h"

#include <algorithm>
#include <thread>

namespace {

using unit::Blocks;

class Refill : public unit::EmptyBins {};

TEST_F(Refill, EmptyBinGetsABatch) {
    for (unsigned size_class : unit::some_classes()) {
        uint32_t batch = hz_batch_count(size_class);
        uint64_t refills = counters().refill;
        ASSERT_EQ(held(size_class), 0U);
        Blocks blocks = allocate(size_class, 1);
        EXPECT_EQ(counters().refill, refills + 1);
        uint32_t got = held(size_class) + 1;
        EXPECT_LE(got, batch);
        EXPECT_GE(got, 1U);
        Blocks more = allocate(size_class, got - 1);
        EXPECT_EQ(counters().refill, refills + 1) << "the batch serves these";
        EXPECT_EQ(held(size_class), 0U);
        free_all(blocks);
        free_all(more);
    }
}

TEST_F(Refill, SurplusRestsInTheDepotForOthers) {
    std::vector<unsigned> classes =
        unit::some_classes([](unsigned size_class) { return HZ_HAS_DEPOT != 0 && !hz_class_is_home(size_class); });
    if (classes.empty())
        GTEST_SKIP() << "this lane has no depot";
    unit::OnCpu here; /* so that all threads use the same part of the depot */
    for (unsigned size_class : classes) {
        uint32_t batch = hz_batch_count(size_class);
        Blocks blocks = allocate(size_class, batch);
        hz_bin_flush(self_, size_class, 0);
        uint32_t before = hz_depot_blocks(size_class);
        free_all(blocks);
        hz_bin_flush(self_, size_class, 0);
        ASSERT_EQ(hz_depot_blocks(size_class), before + batch);
        std::thread([&] {
            struct hz_thread_block *other = unit::self();
            uint64_t refills = other->counters.refill_depot; /* an earlier thread may have had the thread block */
            void *block = t_malloc(hz_class_bytes(size_class));
            EXPECT_EQ(other->counters.refill_depot, refills + 1);
            EXPECT_NE(std::find(blocks.begin(), blocks.end(), block), blocks.end()) << "this thread's surplus";
            EXPECT_EQ(unit::bin_count(other, size_class), batch - 1);
            t_free(block);
        }).join();
    }
}

/* A thread of another shard does not pop it. */
TEST_F(Refill, SurplusOfAHomeClassRestsForItsShard) {
    std::vector<unsigned> classes =
        unit::some_classes([](unsigned size_class) { return HZ_HAS_DEPOT != 0 && hz_class_is_home(size_class); });
    if (classes.empty())
        GTEST_SKIP() << "this lane has no depot or no home class";
    for (unsigned size_class : classes) {
        uint32_t batch = hz_batch_count(size_class);
        Blocks blocks = allocate(size_class, batch);
        hz_bin_flush(self_, size_class, 0);
        uint32_t before = hz_depot_blocks(size_class);
        free_all(blocks);
        uint64_t home = counters().home_blocks;
        hz_bin_flush(self_, size_class, 0);
        ASSERT_EQ(hz_depot_blocks(size_class), before + batch);
        EXPECT_EQ(counters().home_blocks, home);
        std::thread([&] {
            struct hz_thread_block *other = unit::self();
            ASSERT_NE(other->shard, self_->shard);
            uint64_t refills = other->counters.refill_depot; /* an earlier thread may have had the thread block */
            void *block = t_malloc(hz_class_bytes(size_class));
            EXPECT_EQ(other->counters.refill_depot, refills);
            EXPECT_EQ(std::find(blocks.begin(), blocks.end(), block), blocks.end());
            t_free(block);
        }).join();
        uint64_t refills = counters().refill_depot;
        Blocks again = allocate(size_class, batch);
        EXPECT_EQ(counters().refill_depot, refills + 1);
        std::sort(again.begin(), again.end());
        std::sort(blocks.begin(), blocks.end());
        EXPECT_EQ(again, blocks);
        free_all(again);
    }
}

} // namespace
