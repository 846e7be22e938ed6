/* hz_rezalloc and hz_recalloc: what was there is kept, and all that comes is zero. */
#include "api.h"
#include "support.h"

#include <cerrno>
#include <gtest/gtest.h>

namespace {

using namespace support;

class ZeroedRealloc : public testing::Test {
  protected:
    void SetUp() override {
        if (t_table.rezalloc_fn == nullptr)
            GTEST_SKIP() << "hz_rezalloc does not exist here";
    }
    /* Fills memory of the size with bytes that are not zero, and frees it, so that a later block is not zero by luck.
     */
    static void dirty(size_t size) {
        void *blocks[8];
        for (void *&block : blocks) {
            block = t_malloc(size);
            ASSERT_NE(block, nullptr);
            memset(block, 0xa5, t_usable_size(block));
        }
        for (void *block : blocks)
            t_free(block);
    }
    static bool is_zero_behind(const void *block, size_t kept) {
        return is_zero(static_cast<const char *>(block) + kept, t_usable_size(block) - kept);
    }
};

const size_t sizes[] = {1, 15, 100, 113, 1000, 5000, 64 * KiB, 64 * KiB + 1, 200 * KiB, 2 * MiB, 3 * MiB, 9 * MiB};

TEST_F(ZeroedRealloc, ANewBlockIsZeroUpToItsUsableSize) {
    for (size_t size : sizes) {
        dirty(size);
        void *block = t_rezalloc(nullptr, size);
        ASSERT_NE(block, nullptr) << size;
        EXPECT_TRUE(is_zero_behind(block, 0)) << size;
        t_free(block);
    }
}

TEST_F(ZeroedRealloc, KeepsTheOldBytesAndZeroesTheNewOnes) {
    for (size_t from : sizes)
        for (size_t to : sizes) {
            dirty(from);
            dirty(to);
            void *block = t_rezalloc(nullptr, from);
            ASSERT_NE(block, nullptr);
            fill(block, from, from + to);
            block = t_rezalloc(block, to);
            ASSERT_NE(block, nullptr);
            size_t kept = std::min(from, to);
            EXPECT_TRUE(holds(block, kept, from + to)) << from << " to " << to;
            EXPECT_TRUE(is_zero_behind(block, kept)) << from << " to " << to;
            t_free(block);
        }
}

/* What a block once had does not come back when the block shrinks and grows again. */
TEST_F(ZeroedRealloc, ShrinkingForgets) {
    for (size_t size : {size_t{100}, size_t{5000}, 300 * KiB, 5 * MiB}) {
        void *block = t_recalloc(nullptr, size, 1);
        ASSERT_NE(block, nullptr);
        memset(block, 0xa5, size);
        block = t_recalloc(block, size - size / 8, 1);
        ASSERT_NE(block, nullptr);
        block = t_recalloc(block, size, 1);
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(static_cast<unsigned char *>(block)[size - size / 8 - 1], 0xa5);
        EXPECT_TRUE(is_zero_behind(block, size - size / 8)) << size;
        t_free(block);
    }
}

/* Of a block of malloc its whole usable size counts as old. */
TEST_F(ZeroedRealloc, KeepsTheUsableSizeOfABlockOfMalloc) {
    for (size_t size : {size_t{1}, size_t{300}, size_t{3000}, 70 * KiB}) {
        void *block = t_malloc(size);
        ASSERT_NE(block, nullptr);
        size_t usable = t_usable_size(block);
        fill(block, usable, size);
        block = t_rezalloc(block, 3 * usable);
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(holds(block, usable, size)) << size;
        EXPECT_TRUE(is_zero_behind(block, usable)) << size;
        t_free(block);
    }
}

TEST_F(ZeroedRealloc, GrowsFromNothing) {
    unsigned char *block = nullptr;
    for (size_t count = 1; count < 3 * MiB; count = count * 5 / 3 + 1) {
        block = static_cast<unsigned char *>(t_recalloc(block, count, 3));
        ASSERT_NE(block, nullptr);
        ASSERT_EQ(block[3 * count - 1], 0) << count;
        memset(block, 1, 3 * count);
    }
    t_free(block);
}

TEST_F(ZeroedRealloc, ZeroFreesAndFailuresLeaveTheBlock) {
    void *block = t_rezalloc(nullptr, 1000);
    fill(block, 1000, 7);
    for (size_t size : {SIZE_MAX, size_t{PTRDIFF_MAX} + 1, size_t{PTRDIFF_MAX}}) {
        errno = 0;
        EXPECT_EQ(t_rezalloc(block, size), nullptr);
        EXPECT_EQ(errno, ENOMEM) << size;
        errno = 0;
        EXPECT_EQ(t_rezalloc(nullptr, size), nullptr);
        EXPECT_EQ(errno, ENOMEM) << size;
    }
    errno = 0;
    EXPECT_EQ(t_recalloc(block, SIZE_MAX / 2, 3), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_TRUE(holds(block, 1000, 7));
    struct hz_stats before = {};
    struct hz_stats after = {};
    EXPECT_EQ(t_stats_get(&before), 0);
    EXPECT_EQ(t_recalloc(block, 0, 8), nullptr);
    EXPECT_EQ(t_stats_get(&after), 0);
    if (!t_config_has("fences=1")) { /* there the block waits in the quarantine */
        EXPECT_LT(after.live_bytes, before.live_bytes);
    }
}

} // namespace
