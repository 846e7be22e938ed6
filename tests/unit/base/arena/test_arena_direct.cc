/* Direct blocks: they are zero if asked, reuse what others left, grow, shrink, and are few mappings. */
#include "unit/base/arena_fixture.h"

#include <algorithm>
#include <climits>
#include <fstream>
#include <memory>

namespace {

TEST_F(Arena, DirectMappings) {
    struct hz_arena_figures before = figures();
    size_t bytes = 3 * unit::segment_bytes + hz_os_page_bytes();
    struct hz_segment *segment = hz_arena_direct_alloc(bytes, 64 * MiB, true);
    ASSERT_NE(segment, nullptr);
    char *base = unit::page_address(segment, 0);
    EXPECT_TRUE(support::aligned_to(base, 64 * MiB));
    EXPECT_EQ(hz_segment_find(base), segment);
    EXPECT_EQ(segment->direct_bytes, bytes);
    EXPECT_TRUE(support::is_zero(base, bytes));
    support::fill(base, bytes, 1);
    EXPECT_EQ(figures().direct_count, before.direct_count + 1);
    EXPECT_EQ(figures().direct_bytes, before.direct_bytes + bytes);
    EXPECT_EQ(figures().mapped_bytes, before.mapped_bytes + bytes);
    struct hz_segment *resized = hz_arena_direct_resize(segment, 2 * bytes, true);
    ASSERT_NE(resized, nullptr);
    base = unit::page_address(resized, 0);
    EXPECT_TRUE(support::aligned_to(base, unit::segment_bytes));
    EXPECT_TRUE(support::holds(base, bytes, 1));
    memset(base + bytes, 1, bytes);
    EXPECT_EQ(hz_segment_find(base), resized);
    hz_arena_direct_free(resized);
    EXPECT_EQ(figures().direct_count, before.direct_count);
    hz_arena_purge(0, SIZE_MAX);
    EXPECT_EQ(hz_segment_find(base), nullptr);
    EXPECT_EQ(figures().direct_count, before.direct_count);
    EXPECT_EQ(figures().mapped_bytes, before.mapped_bytes);
    EXPECT_EQ(hz_arena_direct_alloc(size_t{1} << 60, 1, false), nullptr);
    EXPECT_EQ(figures().direct_count, before.direct_count);
}

TEST_F(Arena, AFreedBlockServesTheNextRequest) {
    ASSERT_TRUE(rests_nothing_soon());
    size_t bytes = 2 * unit::segment_bytes;
    Rests rests(bytes);
    struct hz_segment *segment = hz_arena_direct_alloc(bytes, 1, false);
    ASSERT_NE(segment, nullptr);
    char *base = unit::page_address(segment, 0);
    support::fill(base, bytes, 1);
    struct hz_arena_figures before = figures();
    hz_arena_direct_free(segment);
    EXPECT_EQ(hz_segment_find(base), nullptr);
    EXPECT_EQ(figures().direct_count, before.direct_count - 1);
    EXPECT_EQ(figures().free_dirty_bytes, before.free_dirty_bytes + bytes);
    EXPECT_EQ(figures().mapped_bytes, before.mapped_bytes) << "the memory is kept";
    EXPECT_EQ(hz_arena_resting_bytes(), bytes);
    struct hz_segment *again = hz_arena_direct_alloc(bytes - 4096, 1, false);
    EXPECT_EQ(unit::page_address(again, 0), base);
    EXPECT_TRUE(support::holds(base, 4096, 1)) << "it was not purged";
    EXPECT_EQ(again->direct_bytes, bytes - 4096) << "the usable size is the requested one";
    EXPECT_EQ(hz_arena_direct_resize(again, bytes, true), again) << "grows within its units";
    EXPECT_EQ(again->direct_bytes, bytes);
    expect_exact_counts();
    hz_arena_direct_free(again);
    again = hz_arena_direct_alloc(bytes, 1, true);
    EXPECT_EQ(unit::page_address(again, 0), base);
    EXPECT_TRUE(support::is_zero(base, bytes)) << "the caller wants zeroes";
    hz_arena_direct_free(again);
    EXPECT_TRUE(rests_nothing_soon());
    expect_exact_counts();
}

/* The freed memory of larger blocks exceeds the budget, until a second round shows that the purge was premature. */
TEST_F(Arena, ALoopOfLargeBlocksReusesThem) {
    for (size_t bytes : {12 * MiB, 30 * MiB, 64 * MiB}) {
        ASSERT_TRUE(rests_nothing_soon());
        for (int i = 0; i < 4; i++) {
            struct hz_segment *segment = hz_arena_direct_alloc(bytes, 1, false);
            ASSERT_NE(segment, nullptr);
            char *base = unit::page_address(segment, 0);
            EXPECT_EQ(base[bytes / 2], i >= 2 ? 'x' : 0) << bytes << " bytes, round " << i;
            memset(base, 'x', bytes);
            hz_arena_direct_free(segment);
        }
        EXPECT_GE(hz_arena_resting_bytes(), bytes);
        EXPECT_TRUE(rests_nothing_soon());
    }
}

TEST_F(Arena, HugeMappingsAreNotKept) {
    hz_arena_purge(0, SIZE_MAX);
    struct hz_segment *segment = hz_arena_direct_alloc(64 * MiB + 4096, 1, false);
    ASSERT_NE(segment, nullptr);
    size_t mapped = figures().mapped_bytes;
    hz_arena_direct_free(segment);
    EXPECT_EQ(figures().mapped_bytes, mapped - 64 * MiB - 4096);
    EXPECT_EQ(hz_arena_resting_bytes(), 0U);
}

TEST_F(Arena, ABlockGrowsInPlaceOrMovesAndLeavesItsUnits) {
    ASSERT_TRUE(rests_nothing_soon());
    Rests rests(8 * MiB);
    struct hz_segment *first = hz_arena_direct_alloc(3 * MiB, 1, false);
    char *base = unit::page_address(first, 0);
    support::fill(base, 3 * MiB, 1);
    ASSERT_EQ(hz_arena_direct_resize(first, 11 * MiB, true), first);
    EXPECT_EQ(unit::page_address(first, 0), base) << "the units behind it are free";
    EXPECT_TRUE(support::holds(base, 3 * MiB, 1));
    ASSERT_EQ(hz_arena_direct_resize(first, 3 * MiB, true), first);
    EXPECT_EQ(hz_arena_resting_bytes(), 8 * MiB) << "two units of four MiB";
    struct hz_segment *second = hz_arena_direct_alloc(3 * MiB, 1, false);
    ASSERT_EQ(unit::page_address(second, 0), base + 4 * MiB);
    struct hz_segment *moved = hz_arena_direct_resize(first, 20 * MiB, true);
    ASSERT_EQ(moved, first);
    char *target = unit::page_address(moved, 0);
    EXPECT_NE(target, base) << "the second block is in the way";
    EXPECT_TRUE(support::holds(target, 3 * MiB, 1));
    EXPECT_EQ(hz_segment_find(base), nullptr);
    struct hz_segment *third = hz_arena_direct_alloc(4 * MiB, 1, false);
    struct hz_segment *fourth = hz_arena_direct_alloc(4 * MiB, 1, false);
    EXPECT_TRUE(unit::page_address(third, 0) == base || unit::page_address(fourth, 0) == base)
        << "its units are used again";
    for (struct hz_segment *one : {moved, second, third, fourth})
        hz_arena_direct_free(one);
    EXPECT_TRUE(rests_nothing_soon());
    expect_exact_counts();
}

TEST_F(Arena, AShrunkBlockGivesItsTailBack) {
    ASSERT_TRUE(rests_nothing_soon());
    struct hz_segment *segment = hz_arena_direct_alloc(8 * MiB, 1, false);
    char *base = unit::page_address(segment, 0);
    memset(base, 1, 8 * MiB);
    ASSERT_EQ(hz_arena_direct_resize(segment, 3 * MiB, true), segment);
    ASSERT_EQ(hz_arena_direct_resize(segment, 4 * MiB, true), segment);
    EXPECT_EQ(base[3 * MiB - 1], 1);
    EXPECT_TRUE(support::is_zero(base + 3 * MiB, MiB)) << "it was purged";
    hz_arena_direct_free(segment);
}

TEST_F(Arena, ShrunkBlocksKeepTheBudget) {
    ASSERT_TRUE(rests_nothing_soon());
    struct hz_segment *segments[6];
    for (struct hz_segment *&segment : segments) {
        segment = hz_arena_direct_alloc(20 * MiB, 1, false);
        memset(unit::page_address(segment, 0), 1, 20 * MiB);
    }
    for (struct hz_segment *segment : segments)
        ASSERT_EQ(hz_arena_direct_resize(segment, 3 * MiB, true), segment);
    EXPECT_LT(hz_arena_resting_bytes(), 32 * MiB) << "of 96 MiB that the blocks have left";
    for (struct hz_segment *segment : segments)
        hz_arena_direct_free(segment);
}

/* Counts the mappings of this process, and the kernel's limit. */
size_t mappings() {
    std::ifstream maps("/proc/self/maps");
    return static_cast<size_t>(
        std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n'));
}

TEST_F(Arena, ManyBlocksAreFewMappings) {
    if (support::tsan)
        GTEST_SKIP() << "its shadow memory has mappings of its own";
    constexpr size_t count = 70000; /* the kernel allows a process 65530 mappings */
    size_t before = mappings();
    std::vector<struct hz_segment *> blocks;
    for (size_t i = 0; i < count; i++) {
        struct hz_segment *segment = hz_arena_direct_alloc(3 * MiB, 1, false);
        ASSERT_NE(segment, nullptr) << "block " << i;
        *unit::page_address(segment, 0) = 1;
        blocks.push_back(segment);
    }
    size_t live = mappings();
    EXPECT_LT(live, before + 5000);
    size_t meta = hz_meta_bytes();
    for (size_t i = 0; i < count; i += 2) {
        hz_arena_direct_free(blocks[i]);
        blocks[i] = nullptr;
    }
    EXPECT_LT(mappings(), live + 4096) << "free units between used ones";
    for (struct hz_segment *&segment : blocks)
        if (segment == nullptr)
            segment = hz_arena_direct_alloc(3 * MiB, 1, false);
    EXPECT_EQ(hz_meta_bytes(), meta) << "descriptions are used again";
    for (struct hz_segment *segment : blocks) {
        ASSERT_NE(segment, nullptr);
        hz_arena_direct_free(segment);
    }
    struct hz_run run = alloc(1);
    free(run);
    expect_exact_counts();
}

} // namespace
