/* A purge reaches blocks wherever they rest. */
#include "unit/heap/fixture.h"

#include <algorithm>
#include <atomic>
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
