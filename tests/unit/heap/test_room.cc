/* How many blocks a bin may hold: few at first, more for a class that keeps coming to the slow paths. */
#include "unit/heap/fixture.h"

#include <thread>

namespace {

using unit::Blocks;

class Room : public testing::Test {
  protected:
    void SetUp() override {
        self_ = unit::self();
        hz_heap_purge(); /* empties bins and depot */
        for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
            begin_small(size_class);
    }
    void TearDown() override {
        release();
        hz_heap_purge();
        EXPECT_EQ(support::live_bytes(), 0U);
    }
    void begin_small(unsigned size_class) {
        hz_bin_flush(self_, size_class, 0);
        hz_room_set(self_, size_class, hz_bin_start(size_class));
        other_class_comes();
    }
    /* A visit for a class that no test here uses, which ends the streak of any other class. */
    void other_class_comes() {
        hz_bin_flush(self_, unit::class_count - 1, 0);
        take(unit::class_count - 1, 1);
    }
    void take(unsigned size_class, size_t count) {
        for (size_t i = 0; i < count; i++)
            blocks_.push_back(t_malloc(hz_class_bytes(size_class)));
    }
    void release() {
        for (void *block : blocks_)
            t_free(block);
        blocks_.clear();
    }
    void visit(unsigned size_class) { /* the bin is empty before and after */
        uint64_t refills = self_->counters.refill;
        take(size_class, 1);
        EXPECT_EQ(self_->counters.refill, refills + 1);
        take(size_class, unit::bin_count(self_, size_class));
    }
    uint32_t room(unsigned size_class) {
        return hz_bin_room(&self_->cache, size_class);
    }
    static std::vector<unsigned> growing() {
        std::vector<unsigned> classes;
        for (unsigned size_class = 1; size_class < unit::class_count - 1; size_class++)
            if (hz_bin_start(size_class) < hz_bin_capacity(size_class))
                classes.push_back(size_class);
        return classes;
    }
    struct hz_thread_block *self_ = nullptr;
    Blocks blocks_;
};

TEST_F(Room, DoublesWhenOneClassKeepsComing) {
    if (growing().empty())
        GTEST_SKIP() << "in this lane bins have all their room from the start";
    for (unsigned size_class = 1; size_class < unit::class_count - 1; size_class++) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        for (uint32_t expected = hz_bin_start(size_class); expected < hz_bin_capacity(size_class);) {
            for (int i = 1; i < HZ_BIN_STREAK; i++) {
                visit(size_class);
                ASSERT_EQ(room(size_class), expected);
            }
            visit(size_class);
            expected = std::min(2 * expected, hz_bin_capacity(size_class));
            ASSERT_EQ(room(size_class), expected);
        }
        for (int i = 0; i < 2 * HZ_BIN_STREAK; i++)
            visit(size_class);
        EXPECT_EQ(room(size_class), hz_bin_capacity(size_class)) << "the room never exceeds the capacity";
        release();
        other_class_comes();
    }
}

TEST_F(Room, StaysWhenClassesAlternate) {
    std::vector<unsigned> classes = growing();
    if (classes.size() < 2 || HZ_BIN_STREAK < 2)
        GTEST_SKIP() << "no two bins of this lane could grow";
    for (int i = 0; i < 100; i++) {
        visit(classes.front());
        visit(classes.back());
    }
    EXPECT_EQ(room(classes.front()), hz_bin_start(classes.front()));
    EXPECT_EQ(room(classes.back()), hz_bin_start(classes.back()));
}

TEST_F(Room, AFullBinGrowsInsteadOfFlushing) {
    if (growing().empty())
        GTEST_SKIP() << "in this lane bins have all their room from the start";
    for (unsigned size_class : growing()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        take(size_class, (HZ_BIN_STREAK + 2) * hz_bin_capacity(size_class));
        begin_small(size_class);
        Blocks blocks;
        blocks.swap(blocks_);
        for (void *block : blocks) {
            uint32_t before = room(size_class);
            uint64_t flushes = self_->counters.flush;
            t_free(block);
            if (room(size_class) != before) {
                ASSERT_EQ(unit::bin_count(self_, size_class), before + 1) << "the bin was full";
                ASSERT_EQ(self_->counters.flush, flushes) << "the bin kept all blocks";
            }
        }
        EXPECT_EQ(room(size_class), hz_bin_capacity(size_class));
        other_class_comes();
    }
}

TEST_F(Room, ALongBatchMakesRoom) {
    unsigned longer = 0;
    for (unsigned size_class : growing()) {
        if (!hz_class_is_shared(size_class) || HZ_DEPOT_BYTES == 0)
            continue;
        SCOPED_TRACE("class " + std::to_string(size_class));
        uint32_t batch = hz_batch_count(size_class);
        uint32_t expected = hz_bin_start(size_class);
        if (HZ_BIN_STREAK == 1)
            expected = std::min(2 * expected, hz_bin_capacity(size_class));
        longer += batch > expected;
        expected = std::max(expected, batch + batch % 2);
        Blocks blocks = unit::take(self_->shard, size_class, batch);
        ASSERT_TRUE(hz_depot_push(self_, size_class, blocks.data(), batch));
        take(size_class, 1);
        EXPECT_EQ(unit::bin_count(self_, size_class), batch - 1);
        EXPECT_EQ(room(size_class), expected);
        other_class_comes();
    }
    if (longer == 0)
        GTEST_SKIP() << "no batch of this lane is longer than a bin's first room";
}

/* The next thread that gets the thread block keeps its room. */
TEST_F(Room, StaysWithTheThreadBlock) {
    if (growing().empty())
        GTEST_SKIP() << "in this lane bins have all their room from the start";
    unsigned size_class = growing().front();
    struct hz_thread_block *first = nullptr;
    std::thread([&] {
        first = unit::self();
        hz_room_set(first, size_class, hz_bin_capacity(size_class));
    }).join();
    std::thread([&] {
        struct hz_thread_block *second = unit::self();
        ASSERT_EQ(second, first);
        EXPECT_EQ(hz_bin_room(&second->cache, size_class), hz_bin_capacity(size_class));
        hz_room_set(second, size_class, hz_bin_start(size_class));
    }).join();
}

/* Whatever its room, no bin ever holds more. */
TEST_F(Room, BinsHoldNoMoreThanTheirRoom) {
    for (unsigned size_class : unit::some_classes())
        for (uint32_t round = 1; round <= 4; round++) {
            Blocks blocks;
            for (uint32_t i = 0; i < round * hz_bin_capacity(size_class); i++)
                blocks.push_back(t_malloc(hz_class_bytes(size_class)));
            for (void *block : blocks) {
                t_free(block);
                ASSERT_LE(unit::bin_count(self_, size_class), room(size_class));
            }
            ASSERT_LE(room(size_class), hz_bin_capacity(size_class));
            other_class_comes();
        }
}

} // namespace
