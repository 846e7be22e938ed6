/* Errors: an impossible request gives NULL and ENOMEM and the heap keeps working; free keeps errno; sized frees. */
#include "api.h"
#include "support.h"

#include <cerrno>
#include <gtest/gtest.h>

namespace {

using namespace support;

TEST(Malloc, ImpossibleSizesAreENOMEM) {
    for (size_t size : {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 15, SIZE_MAX - 4095, SIZE_MAX / 2 + 2,
                        static_cast<size_t>(PTRDIFF_MAX) + 1, static_cast<size_t>(PTRDIFF_MAX),
                        static_cast<size_t>(PTRDIFF_MAX) - 4096, size_t{1} << 62, size_t{1} << 48, size_t{1} << 47}) {
        errno = 0;
        EXPECT_EQ(t_malloc(size), nullptr) << size;
        EXPECT_EQ(errno, ENOMEM) << size;
        void *block = t_malloc(100);
        ASSERT_NE(block, nullptr) << "malloc(100) fails after a failed malloc(" << size << ")";
        t_free(block);
    }
}

TEST(Free, KeepsErrno) {
    for (size_t size : edge_sizes(2 * MiB + 1)) {
        void *block = t_malloc(size);
        ASSERT_NE(block, nullptr);
        errno = EILSEQ;
        t_free(block);
        ASSERT_EQ(errno, EILSEQ) << size;
    }
    for (size_t size : {5 * MiB, 33 * MiB, 200 * MiB}) {
        void *block = t_malloc(size);
        ASSERT_NE(block, nullptr);
        errno = EILSEQ;
        t_free(block);
        ASSERT_EQ(errno, EILSEQ) << size;
    }
    errno = EILSEQ;
    t_free(nullptr);
    EXPECT_EQ(errno, EILSEQ);
}

/* This many frees also fill bins, flush them and return whole pages. */
TEST(Free, KeepsErrnoWhenManyAreFreed) {
    for (size_t size : {size_t{16}, size_t{512}, size_t{3000}, 40 * KiB, 300 * KiB}) {
        std::vector<void *> blocks(std::max<size_t>(50, 16 * MiB / size));
        for (void *&block : blocks) {
            block = t_malloc(size);
            ASSERT_NE(block, nullptr);
        }
        errno = EILSEQ;
        for (void *block : blocks)
            t_free(block);
        EXPECT_EQ(errno, EILSEQ) << size;
    }
}

/* Under the system's names this checks nothing, because the test framework's blocks count too. */
void expect_live(size_t expected) {
    if (!t_system) {
        EXPECT_EQ(live_bytes(), expected);
    }
}

class FreeSized : public testing::Test {
  protected:
    void SetUp() override {
        if (t_table.free_sized_fn == nullptr || t_table.free_aligned_sized_fn == nullptr)
            GTEST_SKIP() << "C23's free_sized does not exist here";
    }
};

TEST_F(FreeSized, OfNullDoesNothing) {
    for (size_t size : {size_t{0}, size_t{1}, size_t{16}, size_t{5000}, 3 * MiB, SIZE_MAX}) {
        t_free_sized(nullptr, size);
        t_free_aligned_sized(nullptr, 64, size);
        for (int i = 0; i < 3; i++) {
            void *block = t_malloc(size == SIZE_MAX ? 8 : size);
            ASSERT_NE(block, nullptr) << "malloc returned the freed NULL; sized free with size " << size;
            t_free(block);
        }
    }
}

TEST_F(FreeSized, TakesTheRequestedSizeAtEveryEdge) {
    size_t live = live_bytes();
    for (size_t size : edge_sizes()) {
        void *block = t_malloc(size);
        ASSERT_NE(block, nullptr);
        errno = EILSEQ;
        t_free_sized(block, size);
        ASSERT_EQ(errno, EILSEQ);
        void *zeroed = t_calloc(1, size);
        ASSERT_NE(zeroed, nullptr);
        t_free_sized(zeroed, size);
    }
    expect_live(live);
}

TEST_F(FreeSized, TakesTheNewSizeAfterRealloc) {
    size_t live = live_bytes();
    for (size_t from : sample_sizes())
        for (size_t to : sample_sizes()) {
            void *block = t_realloc(t_malloc(from), to);
            ASSERT_NE(block, nullptr);
            t_free_sized(block, to);
        }
    expect_live(live);
}

TEST_F(FreeSized, AlignedTakesTheRequestedAlignmentAndSize) {
    size_t live = live_bytes();
    for (size_t alignment = 8; alignment <= 4 * MiB; alignment *= 2)
        for (size_t size : sample_sizes()) {
            void *block = t_aligned_alloc(alignment, size);
            ASSERT_NE(block, nullptr);
            memset(block, 1, size);
            t_free_aligned_sized(block, alignment, size);
        }
    expect_live(live);
}

TEST_F(FreeSized, FreedBlocksAreReused) {
    if (sanitized)
        GTEST_SKIP() << "sanitizers keep freed memory";
    size_t before = resident_bytes();
    for (size_t size : {size_t{100}, size_t{3000}, 100 * KiB, 3 * MiB})
        for (size_t total = 0; total < 300 * MiB; total += size) {
            void *block = t_malloc(size);
            ASSERT_NE(block, nullptr);
            memset(block, 1, size);
            t_free_sized(block, size);
        }
    EXPECT_LT(resident_bytes(), before + 64 * MiB);
}

} // namespace
