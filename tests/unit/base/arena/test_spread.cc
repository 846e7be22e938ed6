/* Where in its slack a block begins. */
#include "unit/base/fixture.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

extern "C" {
#include "base/arena/spread.h"
}

namespace {

constexpr uint64_t first_key = 0x7f1234567000 >> HZ_SPREAD_STEP_LOG2;
constexpr size_t lines = HZ_SPREAD_BYTES / HZ_SPREAD_STEP;

TEST(Spread, EachOffsetThatASlackGivesMayBe) {
    if (!HZ_SPREADS)
        GTEST_SKIP() << "fences place blocks themselves";
    for (uint64_t key = first_key; key < first_key + 100; key++)
        for (size_t slack = 0; slack <= size_t{3} * HZ_SPREAD_BYTES; slack += 61) {
            size_t offset = hz_spread_within(key, slack);
            ASSERT_LE(offset, slack);
            ASSERT_LT(offset, size_t{HZ_SPREAD_BYTES});
            ASSERT_EQ(offset % HZ_SPREAD_STEP, 0U);
            ASSERT_TRUE(hz_spread_may_be(key, offset));
            for (size_t less = offset / 3; less < offset; less += offset / 3 + 1) {
                size_t nearer = hz_spread_nearer(offset, less);
                ASSERT_LE(nearer, less);
                ASSERT_EQ(nearer % HZ_SPREAD_STEP, 0U);
                ASSERT_TRUE(hz_spread_may_be(key, nearer));
            }
        }
}

TEST(Spread, FewOtherOffsetsMayBe) {
    for (uint64_t key = first_key; key < first_key + 100; key++) {
        size_t may_be = 0;
        for (size_t offset = 0; offset < HZ_SPREAD_BYTES; offset++) {
            may_be += hz_spread_may_be(key, offset);
            if (offset % HZ_SPREAD_STEP != 0) {
                ASSERT_FALSE(hz_spread_may_be(key, offset)) << offset;
            }
        }
        ASSERT_GE(may_be, 1U);
        ASSERT_LE(may_be, 1U + HZ_SPREAD_LOG2 - HZ_SPREAD_STEP_LOG2);
    }
}

TEST(Spread, ThePlaceIsTheMultipleBelow) {
    for (size_t grid = 512; grid <= HZ_SPREAD_BYTES; grid *= 2)
        for (uintptr_t offset = 0; offset < grid; offset += HZ_SPREAD_STEP) {
            auto *block = reinterpret_cast<void *>(0x7f1234560000 + grid + offset);
            ASSERT_EQ(hz_spread_offset(block, grid), offset);
            ASSERT_EQ(hz_spread_place(block, grid), reinterpret_cast<void *>(0x7f1234560000 + grid));
        }
}

/* However far apart the places are, no line of a system page is met much more often than others. The bound is one that
   chance passes once in 10^9 runs of the test. */
TEST(Spread, LinesAreEvenAtAnyDistance) {
    if (!HZ_SPREADS)
        GTEST_SKIP() << "fences place blocks themselves";
    constexpr size_t page_lines = 64;
    constexpr size_t blocks = 1024;
    for (uint64_t distance = 512 / HZ_SPREAD_STEP; distance <= size_t{32} * lines; distance += 8) {
        std::vector<size_t> counts(page_lines);
        for (uint64_t i = 0; i < blocks; i++)
            counts[hz_spread_within(first_key + i * distance, HZ_SPREAD_BYTES) / HZ_SPREAD_STEP % page_lines]++;
        ASSERT_LE(*std::max_element(counts.begin(), counts.end()), 4 * blocks / page_lines)
            << "places " << distance * HZ_SPREAD_STEP << " bytes apart";
    }
}

} // namespace
