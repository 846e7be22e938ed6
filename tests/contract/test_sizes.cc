/* malloc of all edge sizes: alignment, usable and good size, contents among many neighbours. */
#include "api.h"
#include "support.h"

#include <cerrno>
#include <deque>
#include <gtest/gtest.h>
#include <set>

namespace {

using namespace support;

struct Held {
    void *block;
    size_t usable;
    uint64_t seed;
};

/* A window of live blocks. When a block leaves the window, its contents are verified and it is freed. */
class Window {
  public:
    explicit Window(size_t limit_bytes) : limit_bytes_(limit_bytes) {
    }
    ~Window() {
        while (!held_.empty())
            drop();
    }
    Window(const Window &) = delete;
    Window &operator=(const Window &) = delete;

    void add(void *block, size_t usable) {
        uint64_t seed = ++seed_;
        fill(block, usable, seed);
        held_.push_back({block, usable, seed});
        bytes_ += usable;
        while (bytes_ > limit_bytes_)
            drop();
    }

  private:
    void drop() {
        Held first = held_.front();
        held_.pop_front();
        bytes_ -= first.usable;
        EXPECT_TRUE(holds(first.block, first.usable, first.seed)) << "contents lost, usable size " << first.usable;
        t_free(first.block);
    }

    std::deque<Held> held_;
    size_t limit_bytes_;
    size_t bytes_ = 0;
    uint64_t seed_ = 0;
};

TEST(Sizes, EveryEdgeSizeIsFullyUsableAmongItsNeighbours) {
    Window window(32 * MiB);
    for (size_t size : edge_sizes()) {
        void *block = t_malloc(size);
        ASSERT_NE(block, nullptr) << "size " << size;
        EXPECT_TRUE(aligned_to(block, alignof(max_align_t))) << "size " << size;
        size_t usable = t_usable_size(block);
        EXPECT_GE(usable, size);
        window.add(block, usable);
    }
}

TEST(Sizes, ManyBlocksOfOneSizeDoNotOverlap) {
    for (size_t size : sample_sizes()) {
        Window window(16 * MiB + 3 * size);
        size_t count = std::min<size_t>(5000, 3 + 32 * MiB / size);
        for (size_t i = 0; i < count; i++) {
            void *block = t_malloc(size);
            ASSERT_NE(block, nullptr) << "size " << size;
            window.add(block, t_usable_size(block));
        }
    }
}

TEST(Sizes, UsableSizeOfNullIsZero) {
    EXPECT_EQ(t_usable_size(nullptr), 0U);
}

TEST(Sizes, FreeOfNullDoesNothing) {
    t_free(nullptr);
    void *block = t_malloc(8);
    EXPECT_NE(block, nullptr);
    t_free(block);
}

/* A reused block is never handed out while it is live. */
TEST(Sizes, ReusedBlocksAreHandedOutOnce) {
    for (size_t size : sample_sizes()) {
        size_t count = std::min<size_t>(1000, 3 + 8 * MiB / size);
        for (int round = 0; round < 3; round++) {
            std::set<void *> live;
            for (size_t i = 0; i < count; i++) {
                void *block = t_malloc(size);
                ASSERT_NE(block, nullptr);
                ASSERT_TRUE(live.insert(block).second) << "size " << size << ": a live block was handed out again";
            }
            for (void *block : live)
                t_free(block);
        }
    }
}

TEST(GoodSize, IsWhatMallocGivesAtLeast) {
    if (t_table.good_size_fn == nullptr)
        GTEST_SKIP() << "hz_good_size does not exist here";
    for (size_t size : edge_sizes()) {
        void *block = t_malloc(size);
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(usable_fits(t_usable_size(block), size)) << "size " << size;
        EXPECT_GE(t_good_size(size), size);
        t_free(block);
    }
}

TEST(GoodSize, IsAFixedPoint) {
    if (t_table.good_size_fn == nullptr)
        GTEST_SKIP() << "hz_good_size does not exist here";
    size_t before = 0;
    for (size_t size : edge_sizes()) {
        size_t good = t_good_size(size);
        EXPECT_EQ(t_good_size(good), good) << "the good size of " << size << " has another good size";
        EXPECT_GE(good, before) << "a larger request (" << size << ") has a smaller good size";
        before = good;
    }
}

TEST(GoodSize, OfImpossibleSizesIsZero) {
    if (t_table.good_size_fn == nullptr)
        GTEST_SKIP() << "hz_good_size does not exist here";
    EXPECT_EQ(t_good_size(SIZE_MAX), 0U);
    EXPECT_EQ(t_good_size(static_cast<size_t>(PTRDIFF_MAX) + 1), 0U);
}

/* The class table wastes a bounded share: above tiny sizes a block is at most twice the requested size. */
TEST(GoodSize, WastesLessThanHalf) {
    if (t_table.good_size_fn == nullptr)
        GTEST_SKIP() << "hz_good_size does not exist here";
    for (size_t size : edge_sizes())
        EXPECT_LE(t_good_size(size), 2 * size + 16) << "size " << size;
}

/* Up to 2 MiB each doubling has eight classes. */
TEST(GoodSize, AboveAPageWastesAtMostAnEighth) {
    T_ONLY_OURS();
    for (size_t size = 64 * KiB; size <= 2 * MiB; size += 509) {
        ASSERT_GE(t_good_size(size), size);
        ASSERT_LE(t_good_size(size) - size, size / 8) << "size " << size;
    }
    if (t_config_has("fences=1")) /* there the usable size is the size */
        return;
    for (size_t size : edge_sizes(2 * MiB)) {
        if (size < 64 * KiB)
            continue;
        void *blocks[3]; /* more than a thread keeps room for */
        for (void *&block : blocks) {
            block = t_malloc(size);
            ASSERT_LE(t_usable_size(block) - size, size / 8) << "size " << size;
        }
        for (void *block : blocks)
            t_free(block);
    }
}

/*
 * _FORTIFY_SOURCE=3 and containers rely on this: the usable size of a block stays the same while the block lives,
 * whatever else the allocator does.
 */
TEST(Sizes, UsableSizeIsStable) {
    std::vector<std::pair<void *, size_t>> blocks;
    for (size_t size : sample_sizes()) {
        void *block = t_malloc(size);
        ASSERT_NE(block, nullptr);
        blocks.emplace_back(block, t_usable_size(block));
    }
    for (size_t size : sample_sizes())
        t_free(t_malloc(size));
    t_give_back();
    for (auto &[block, usable] : blocks) {
        EXPECT_EQ(t_usable_size(block), usable);
        t_free(block);
    }
}

} // namespace
