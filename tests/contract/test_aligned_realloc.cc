/* hz_aligned_realloc: contents, alignment, errors; from every size and alignment to every other. */
#include "api.h"
#include "support.h"

#include <cerrno>
#include <gtest/gtest.h>

namespace {

using namespace support;

class AlignedRealloc : public testing::Test {
  protected:
    void SetUp() override {
        if (t_table.aligned_realloc_fn == nullptr)
            GTEST_SKIP() << "hz_aligned_realloc does not exist here";
    }
    static bool is_aligned(const void *block, size_t alignment) {
        return reinterpret_cast<uintptr_t>(block) % alignment == 0;
    }
};

TEST_F(AlignedRealloc, KeepsContentsAndAligns) {
    const size_t sizes[] = {1, 100, 5000, 64 * KiB, 200 * KiB, 2 * MiB, 3 * MiB, 9 * MiB};
    for (size_t alignment : {size_t{1}, size_t{16}, size_t{64}, size_t{4096}, 64 * KiB, MiB, 8 * MiB})
        for (size_t from : sizes)
            for (size_t to : sizes) {
                void *block = t_malloc(from);
                ASSERT_NE(block, nullptr);
                fill(block, from, from + to);
                void *resized = t_aligned_realloc(block, alignment, to);
                ASSERT_NE(resized, nullptr);
                EXPECT_TRUE(is_aligned(resized, alignment)) << alignment << ", " << from << " to " << to;
                EXPECT_GE(t_usable_size(resized), to);
                EXPECT_TRUE(holds(resized, std::min(from, to), from + to)) << alignment << ", " << from << " to " << to;
                t_free(resized);
            }
}

TEST_F(AlignedRealloc, StaysAlignedWhileItGrows) {
    void *block = nullptr;
    for (size_t size = 1; size < 20 * MiB; size = size * 3 / 2 + 1) {
        block = t_aligned_realloc(block, 256, size);
        ASSERT_NE(block, nullptr);
        ASSERT_TRUE(is_aligned(block, 256)) << size;
        memset(block, 1, size);
    }
    t_free(block);
}

TEST_F(AlignedRealloc, ABlockThatFitsStays) {
    void *block = t_aligned_alloc(64, 1000);
    ASSERT_NE(block, nullptr);
    size_t usable = t_usable_size(block);
    if (!t_config_has("fences=1")) { /* there every block has exactly its size */
        EXPECT_EQ(t_aligned_realloc(block, 64, usable), block);
    }
    t_free(block);
}

TEST_F(AlignedRealloc, NullAllocatesAndZeroFrees) {
    void *block = t_aligned_realloc(nullptr, 512, 100);
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(is_aligned(block, 512));
    struct hz_stats before = {};
    struct hz_stats after = {};
    EXPECT_EQ(t_stats_get(&before), 0);
    EXPECT_EQ(t_aligned_realloc(block, 512, 0), nullptr);
    EXPECT_EQ(t_stats_get(&after), 0);
    EXPECT_LT(after.live_bytes, before.live_bytes);
}

TEST_F(AlignedRealloc, FailuresLeaveTheBlock) {
    void *block = t_malloc(1000);
    fill(block, 1000, 3);
    for (size_t alignment : {size_t{0}, size_t{3}, size_t{48}, SIZE_MAX}) {
        errno = 0;
        EXPECT_EQ(t_aligned_realloc(block, alignment, 2000), nullptr);
        EXPECT_EQ(errno, EINVAL) << alignment;
    }
    for (size_t size : {SIZE_MAX, size_t{PTRDIFF_MAX} + 1, size_t{PTRDIFF_MAX}}) {
        errno = 0;
        EXPECT_EQ(t_aligned_realloc(block, 64, size), nullptr);
        EXPECT_EQ(errno, ENOMEM) << size;
    }
    EXPECT_TRUE(holds(block, 1000, 3));
    t_free(block);
}

} // namespace
