/* Memory goes back: the depot ages, and a purge reaches blocks wherever they rest. */
#include "unit/heap/fixture.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace {

using support::KiB;
using support::MiB;
using unit::Blocks;

size_t resident() {
    struct hz_stats stats = {};
    t_stats_get(&stats);
    return stats.resident_bytes;
}

Blocks everything(size_t bytes_each) {
    Blocks blocks;
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
        for (size_t bytes = 0; bytes < bytes_each; bytes += hz_class_bytes(size_class)) {
            blocks.push_back(t_malloc(hz_class_bytes(size_class)));
            memset(blocks.back(), 1, hz_class_bytes(size_class));
        }
    return blocks;
}

void free_all(const Blocks &blocks) {
    for (void *block : blocks)
        t_free(block);
}

/* Pushes `batches` batches of a class into the depot. Returns the blocks pushed. */
uint32_t rest(struct hz_thread_block *self, unsigned size_class, uint32_t batches) {
    uint32_t batch = hz_batch_count(size_class);
    Blocks blocks = unit::take(self->shard, size_class, batches * batch);
    for (uint32_t i = 0; i < batches; i++)
        if (!hz_depot_push(self, size_class, blocks.data() + size_t{i} * batch, batch))
            abort();
    return batches * batch;
}

void age_round(struct hz_thread_block *self) {
    hz_age_depot_begin();
    while (hz_age_depot_step(self, 1)) {
    }
}

TEST(Age, AClassInUseSendsASmallPartHomeAndAnIdleOneEverything) {
    if (HZ_DEPOT_BYTES == 0)
        GTEST_SKIP() << "this lane has no depot";
    struct hz_thread_block *self = unit::self();
    hz_heap_purge();
    unsigned size_class = 2;
    uint32_t batch = hz_batch_count(size_class);
    age_round(self); /* what earlier tests pushed is no use of this round */
    uint32_t pushed = rest(self, size_class, 6);
    uint64_t home = self->counters.home_blocks;
    age_round(self);
    EXPECT_EQ(hz_depot_blocks(size_class), pushed - batch) << "a 32nd of six batches is less than one batch";
    EXPECT_EQ(self->counters.home_blocks - home, batch);
    age_round(self); /* what the round before popped was no use */
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
    uint32_t pushed = rest(self, size_class, 6);
    age_round(self);
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

/* Without a keeper the ticks do it, when it is time. */
TEST(Age, TicksDriveIt) {
    if (HZ_DEPOT_BYTES == 0)
        GTEST_SKIP() << "this lane has no depot";
    struct hz_thread_block *self = unit::self();
    ASSERT_FALSE(hz_keeper_runs());
    unsigned size_class = 2;
    uint32_t pushed = rest(self, size_class, 2);
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (hz_depot_blocks(size_class) > 0 && std::chrono::steady_clock::now() < deadline)
        hz_tick(self, 1);
    EXPECT_EQ(hz_depot_blocks(size_class), 0U) << "of " << pushed;
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

TEST(Purge, ReachesEverythingOfThisThread) {
    hz_purge();
    size_t before = resident();
    free_all(everything(200 * KiB));
    EXPECT_GT(resident(), before + 10 * MiB);
    EXPECT_GT(hz_purge(), 10 * MiB);
    EXPECT_EQ(resident(), 0U);
    struct hz_thread_block *self = unit::self();
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        EXPECT_EQ(hz_depot_blocks(size_class), 0U);
        EXPECT_EQ(unit::bin_count(self, size_class), 0U);
    }
    EXPECT_EQ(unit::pages_of(self->shard), 0U);
    EXPECT_EQ(hz_purge(), 0U) << "a second purge finds nothing";
}

TEST(Purge, KeepsBlocksInUse) {
    Blocks blocks = everything(10 * KiB);
    for (size_t i = 0; i < blocks.size(); i++)
        support::fill(blocks[i], t_usable_size(blocks[i]), i);
    Blocks others = everything(100 * KiB);
    free_all(others);
    hz_purge();
    for (size_t i = 0; i < blocks.size(); i++)
        ASSERT_TRUE(support::holds(blocks[i], t_usable_size(blocks[i]), i));
    free_all(blocks);
    hz_purge();
    EXPECT_EQ(resident(), 0U);
}

TEST(Purge, ReachesBlocksSentToSleepingThreads) {
    hz_purge();
    std::atomic<int> step{0};
    Blocks blocks;
    /* allocates, and then makes no calls */
    std::thread sleeper([&] {
        blocks = everything(50 * KiB);
        hz_thread_flush(unit::self()); /* its bins, which no other thread can reach */
        step = 1;
        while (step != 2)
            std::this_thread::yield();
    });
    while (step != 1)
        std::this_thread::yield();
    struct hz_thread_block *self = unit::self();
    /* the sleeper's bins had no room for the longest ones, so these have no page */
    auto large = std::partition(blocks.begin(), blocks.end(),
                                [](void *block) { return hz_pagetag_class(block) != HZ_CLASS_LARGE; });
    free_all(Blocks(large, blocks.end()));
    blocks.erase(large, blocks.end());
    hz_blocks_send(self, blocks.data(), static_cast<uint32_t>(blocks.size()));
    EXPECT_GT(hz_purge(), 5 * MiB) << "though the owner sleeps";
    EXPECT_EQ(resident(), 0U);
    EXPECT_EQ(support::live_bytes(), 0U);
    step = 2;
    sleeper.join();
}

TEST(Purge, WorksFromAThreadThatHasNeverAllocated) {
    free_all(everything(50 * KiB));
    hz_thread_flush(unit::self());
    size_t purged = 0;
    std::thread([&] { purged = hz_purge(); }).join();
    EXPECT_GT(purged, 5 * MiB);
    EXPECT_EQ(resident(), 0U);
}

/* Contents stay intact and calloc gives zeroes while another thread keeps purging. */
TEST(Purge, DoesNotDisturbOthers) {
    constexpr unsigned threads = 3;
    std::atomic<unsigned> working{threads};
    std::atomic<bool> good{true};
    unit::together(threads + 1, [&](unsigned index) {
        if (index == threads) {
            while (working > 0) {
                hz_purge();
                std::this_thread::yield();
            }
            return;
        }
        support::Random random(index);
        struct Held {
            void *block;
            size_t size;
        } held[32] = {};
        for (unsigned i = 0; i < unit::rounds(6000); i++) {
            size_t at = random.below(32);
            Held &slot = held[at];
            good = good && (slot.block == nullptr || support::holds(slot.block, slot.size, at));
            t_free(slot.block);
            slot.size = random.between(1, random.below(10) == 0 ? 300 * KiB : 2000);
            bool zeroed = random.below(4) == 0;
            slot.block = zeroed ? t_calloc(1, slot.size) : t_malloc(slot.size);
            good = good && (!zeroed || support::is_zero(slot.block, slot.size));
            support::fill(slot.block, slot.size, at);
        }
        for (Held &slot : held)
            t_free(slot.block);
        working--;
    });
    EXPECT_TRUE(good);
    hz_purge();
    EXPECT_EQ(support::live_bytes(), 0U);
    EXPECT_EQ(resident(), 0U);
}

} // namespace
