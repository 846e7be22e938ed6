/* The depot ages: what rests in it too long goes home, little by little. */
#include "unit/heap/fixture.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace {

using unit::Blocks;

TEST(Age, AClassInUseSendsASmallPartHomeAndAnIdleOneEverything) {
    if (HZ_DEPOT_BYTES == 0)
        GTEST_SKIP() << "this lane has no depot";
    struct hz_thread_block *self = unit::self();
    hz_heap_purge();
    unsigned size_class = 2;
    uint32_t batch = hz_batch_count(size_class);
    unit::age_round(self); /* what earlier tests pushed is no use of this round */
    uint32_t pushed = unit::rest(self, size_class, 6);
    uint64_t home = self->counters.home_blocks;
    unit::age_round(self);
    EXPECT_EQ(hz_depot_blocks(size_class), pushed - batch) << "a 32nd of six batches is less than one batch";
    EXPECT_EQ(self->counters.home_blocks - home, batch);
    unit::age_round(self); /* what the round before popped was no use */
    EXPECT_EQ(hz_depot_blocks(size_class), 0U);
    EXPECT_EQ(self->counters.home_blocks - home, pushed);
    hz_heap_purge();
    EXPECT_EQ(support::live_bytes(), 0U);
}

TEST(Age, AStepSendsNoMoreThanItsBatches) {
    if (HZ_DEPOT_BYTES == 0)
        GTEST_SKIP() << "this lane has no depot";
    struct hz_thread_block *self = unit::self();
    hz_heap_purge();
    unsigned size_class = 2;
    uint32_t pushed = unit::rest(self, size_class, 6);
    unit::age_round(self);
    uint32_t left = hz_depot_blocks(size_class);
    ASSERT_LT(left, pushed);
    hz_age_depot_begin();
    EXPECT_TRUE(hz_age_depot_step(self, 2));
    EXPECT_EQ(hz_depot_blocks(size_class), left - 2 * hz_batch_count(size_class));
    hz_age_depot_begin(); /* while a round goes on, no other begins */
    while (hz_age_depot_step(self, 1)) {
    }
    EXPECT_EQ(hz_depot_blocks(size_class), 0U);
    hz_heap_purge();
}

/* While another thread pushes all the time, each call sends home what rested when it began. */
TEST(Age, EndsWhileAnotherThreadKeepsPushing) {
    if (HZ_DEPOT_BYTES == 0)
        GTEST_SKIP() << "this lane has no depot";
    unsigned size_class = unit::largest_short;
    uint32_t batch = hz_batch_count(size_class);
    uint64_t cap = std::max<uint64_t>(HZ_DEPOT_BYTES / hz_class_bytes(size_class), batch);
    std::atomic<bool> started{false};
    std::atomic<bool> stop{false};
    std::thread pusher([&] {
        struct hz_thread_block *self = unit::self();
        Blocks blocks(batch);
        while (!stop) {
            uint32_t got = hz_supply_refill(self, size_class, blocks.data(), batch, nullptr);
            if (got > 0 && hz_depot_push(self, size_class, blocks.data(), got))
                started = true;
            else if (got > 0)
                hz_blocks_send(self, blocks.data(), got);
        }
    });
    struct hz_thread_block *self = unit::self();
    while (!started)
        std::this_thread::yield();
    uint64_t most = 0;
    for (unsigned i = 0; i < unit::rounds(20000); i++) {
        uint64_t home = self->counters.home_blocks;
        hz_age_depot_fully(self);
        most = std::max(most, self->counters.home_blocks - home);
    }
    stop = true;
    pusher.join();
    hz_heap_purge();
    EXPECT_EQ(hz_depot_blocks(size_class), 0U);
    EXPECT_GT(most, 0U);
    EXPECT_LE(most, 2 * cap + batch) << "work that has moved between CPUs can leave twice the cap";
    EXPECT_EQ(support::live_bytes(), 0U);
}

} // namespace
