/* Bins: an empty bin gets a batch, a full bin loses its oldest blocks. Also the depot between bins. */
#include "unit/heap/fixture.h"

#include <algorithm>
#include <set>

namespace {

using unit::Blocks;

class Bins : public testing::Test {
  protected:
    void SetUp() override {
        self_ = unit::self();
        hz_heap_purge(); /* empties bins and depot */
        unit::grow_bins(self_);
    }
    void TearDown() override {
        hz_heap_purge();
        EXPECT_EQ(support::live_bytes(), 0U);
    }
    uint32_t held(unsigned size_class) {
        return unit::bin_count(self_, size_class);
    }
    struct hz_counters counters() {
        return self_->counters;
    }
    static Blocks allocate(unsigned size_class, size_t count) {
        Blocks blocks;
        for (size_t i = 0; i < count; i++)
            blocks.push_back(t_malloc(hz_class_bytes(size_class)));
        return blocks;
    }
    static void free_all(const Blocks &blocks) {
        for (void *block : blocks)
            t_free(block);
    }
    struct hz_thread_block *self_ = nullptr;
};

TEST_F(Bins, EmptyBinGetsABatch) {
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

TEST_F(Bins, NewestBlockFirst) {
    for (unsigned size_class : unit::some_classes()) {
        Blocks blocks = allocate(size_class, 2);
        free_all(blocks);
        Blocks again = allocate(size_class, 2);
        EXPECT_EQ(again, (Blocks{blocks[1], blocks[0]})) << "the newest block is the most likely to be cached";
        free_all(again);
    }
}

TEST_F(Bins, FullBinKeepsTheNewestHalf) {
    for (unsigned size_class : unit::some_classes()) {
        uint32_t capacity = hz_bin_capacity(size_class);
        Blocks blocks = allocate(size_class, capacity + 1);
        hz_bin_flush(self_, size_class, 0);
        uint64_t flushes = counters().flush;
        for (uint32_t i = 0; i < capacity; i++)
            t_free(blocks[i]);
        EXPECT_EQ(held(size_class), capacity);
        EXPECT_EQ(counters().flush, flushes);
        t_free(blocks[capacity]);
        EXPECT_EQ(counters().flush, flushes + 1);
        EXPECT_EQ(held(size_class), capacity / 2 + 1);
        for (uint32_t i = 0; i <= capacity / 2; i++) {
            Blocks one = allocate(size_class, 1);
            ASSERT_EQ(one[0], blocks[capacity - i]) << "the newest blocks stay, in order";
        }
        Blocks rest(blocks.begin() + capacity - capacity / 2, blocks.end());
        free_all(rest);
    }
}

TEST_F(Bins, FlushKeepsAsManyAsTheCallerWants) {
    unsigned size_class = 2;
    Blocks blocks = allocate(size_class, 20);
    hz_bin_flush(self_, size_class, 0);
    free_all(blocks);
    for (uint32_t keep : {30U, 20U, 13U, 13U, 1U, 0U, 0U}) {
        hz_bin_flush(self_, size_class, keep);
        EXPECT_EQ(held(size_class), std::min(keep, 20U));
        if (keep > 0) {
            void *top = t_malloc(hz_class_bytes(size_class));
            EXPECT_EQ(top, blocks[19]);
            t_free(top);
        }
    }
}

TEST_F(Bins, SurplusRestsInTheDepotForOthers) {
    std::vector<unsigned> classes = unit::some_classes(
        [](unsigned size_class) { return hz_class_is_shared(size_class) && !hz_class_is_home(size_class); });
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
TEST_F(Bins, SurplusOfAHomeClassRestsForItsShard) {
    std::vector<unsigned> classes = unit::some_classes(
        [](unsigned size_class) { return hz_class_is_shared(size_class) && hz_class_is_home(size_class); });
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

TEST_F(Bins, SurplusOfOtherClassesGoesHome) {
    std::vector<unsigned> classes =
        unit::some_classes([](unsigned size_class) { return !hz_class_is_shared(size_class); });
    if (classes.empty())
        GTEST_SKIP() << "every class of this lane may rest in the depot";
    for (unsigned size_class : classes) {
        Blocks blocks = allocate(size_class, hz_bin_capacity(size_class));
        hz_bin_flush(self_, size_class, 0);
        free_all(blocks);
        uint64_t home = counters().home_blocks;
        hz_bin_flush(self_, size_class, 0);
        EXPECT_EQ(hz_depot_blocks(size_class), 0U) << "class " << size_class;
        EXPECT_EQ(counters().home_blocks - home, blocks.size());
    }
}

TEST_F(Bins, BatchesThatTheDepotRefusesGoHome) {
    unsigned size_class = unit::largest_short; /* may rest in the depot in every lane that has one */
    size_t count = 3 * HZ_DEPOT_BYTES / hz_class_bytes(size_class) + 4 * hz_bin_capacity(size_class);
    Blocks blocks = allocate(size_class, count);
    uint64_t home = counters().home_blocks;
    free_all(blocks);
    hz_bin_flush(self_, size_class, 0);
    EXPECT_GT(counters().home_blocks, home);
    size_t resting = size_t{hz_depot_blocks(size_class)};
    EXPECT_GE(resting + counters().home_blocks - home, count);
}

TEST_F(Bins, HitsTakeNoSlowPath) {
    for (unsigned size_class : unit::some_classes()) {
        Blocks warm = allocate(size_class, 2);
        free_all(warm);
        struct hz_counters before = counters();
        for (int i = 0; i < 1000; i++) {
            Blocks two = allocate(size_class, 2);
            ASSERT_EQ(two, (Blocks{warm[1], warm[0]}));
            t_free(two[1]);
            t_free(two[0]);
        }
        EXPECT_EQ(counters().refill, before.refill);
        EXPECT_EQ(counters().flush, before.flush);
    }
}

/* Threads allocate blocks of all classes, and free each other's through one table. */
TEST_F(Bins, ThreadsExchangeBlocks) {
    constexpr unsigned threads = 4;
    constexpr size_t slots = 512;
    std::vector<std::atomic<uint64_t *>> table(slots);
    std::atomic<size_t> wrong{0};
    unit::together(threads, [&](unsigned index) {
        support::Random random(index);
        for (unsigned i = 0; i < unit::rounds(40000); i++) {
            auto size_class = static_cast<unsigned>(random.below(16) == 0 ? random.between(1, unit::class_count - 1)
                                                                          : random.between(1, 24));
            size_t bytes = hz_class_bytes(size_class);
            auto *block = static_cast<uint64_t *>(t_malloc(bytes));
            block[0] = bytes;
            block[bytes / 8 - 1] = ~bytes;
            uint64_t *old = table[random.below(slots)].exchange(block);
            if (old != nullptr) {
                uint64_t size = old[0];
                wrong += size > HZ_CLASS_BYTES_MAX || t_usable_size(old) != size || old[size / 8 - 1] != ~size;
                t_free(old);
            }
        }
    });
    for (auto &slot : table)
        t_free(slot.load());
    EXPECT_EQ(wrong, 0U);
}

} // namespace
