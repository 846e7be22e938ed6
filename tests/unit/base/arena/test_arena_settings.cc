/* What a program can set of the arena: how much may rest, and which blocks are mapped alone. */
#include "unit/base/fixture.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace {

using support::MiB;
using unit::figures;

constexpr size_t may_rest = 8 * MiB; /* in these tests: two units */
constexpr size_t run_bytes = unit::run_pages_max * unit::page_bytes;

class ArenaSettings : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        ASSERT_TRUE(unit::base_init());
    }
    void SetUp() override {
        hz_arena_rest_set(0); /* forgets what an earlier test's loop was allowed in addition */
        hz_arena_rest_set(may_rest);
        hz_arena_purge(0, SIZE_MAX);
        ASSERT_EQ(hz_arena_resting_bytes(), 0U);
        ASSERT_EQ(hz_arena_used_bytes(), 0U) << "so the budget is its fixed part";
    }
    void TearDown() override {
        hz_arena_rest_set(may_rest);
        hz_arena_alone_set(SIZE_MAX);
        EXPECT_EQ(hz_arena_used_bytes(), 0U) << "something was not freed";
    }
};

/* Hands out `count` of the longest runs, and frees them. */
void use_and_free_runs(size_t count) {
    std::vector<struct hz_run> runs(count);
    for (struct hz_run &run : runs)
        ASSERT_TRUE(hz_arena_run_alloc(unit::run_pages_max, 1, &run));
    for (const struct hz_run &run : runs)
        hz_arena_run_free(run.segment, run.first);
}

struct hz_segment *direct(size_t bytes) {
    struct hz_segment *segment = hz_arena_direct_alloc(bytes, 1, false);
    EXPECT_NE(segment, nullptr) << bytes;
    return segment;
}

/* Whether the kernel has a mapping at the address. */
bool is_mapped(void *address) {
    unsigned char resident;
    return mincore(address, 1, &resident) == 0;
}

TEST_F(ArenaSettings, LessMayRestFromNowOn) {
    use_and_free_runs(3);
    ASSERT_EQ(hz_arena_resting_bytes(), 3 * run_bytes) << "it is within the budget";
    size_t purged = hz_arena_purged_bytes();
    hz_arena_rest_set(MiB);
    EXPECT_EQ(hz_arena_resting_bytes(), MiB) << "purged at once, and no more than exceeds it";
    EXPECT_EQ(hz_arena_purged_bytes() - purged, 3 * run_bytes - MiB);
    use_and_free_runs(1);
    EXPECT_LE(hz_arena_resting_bytes(), MiB) << "a later free keeps to it";
    hz_arena_rest_set(0);
    EXPECT_EQ(hz_arena_resting_bytes(), 0U);
}

TEST_F(ArenaSettings, UnitsOfBlocksCountAsWhatRestsToo) {
    if (!hz_pagetags.flat)
        GTEST_SKIP() << "in tight mode large blocks do not rest";
    hz_arena_rest_set(8 * MiB);
    hz_arena_direct_free(direct(7 * MiB));
    ASSERT_EQ(hz_arena_resting_bytes(), 8 * MiB);
    hz_arena_rest_set(4 * MiB);
    EXPECT_EQ(hz_arena_resting_bytes(), 4 * MiB) << "a unit of 4 MiB may stay";
    hz_arena_rest_set(4 * MiB - 1);
    EXPECT_EQ(hz_arena_resting_bytes(), 0U) << "units go as a whole";
}

TEST_F(ArenaSettings, WhatIsInUseAllowsMoreToRest) {
    struct hz_segment *used = direct(64 * MiB);
    use_and_free_runs(3);
    hz_arena_rest_set(MiB);
    EXPECT_EQ(hz_arena_resting_bytes(), 2 * MiB) << "1 MiB, and 1/64 of the 64 MiB that are used";
    hz_arena_direct_free(used);
    hz_arena_rest_set(0);
}

TEST_F(ArenaSettings, MoreMayRest) {
    hz_arena_rest_set(40 * MiB);
    size_t purged = hz_arena_purged_bytes();
    use_and_free_runs(18);
    EXPECT_EQ(hz_arena_resting_bytes(), 18 * run_bytes);
    EXPECT_EQ(hz_arena_purged_bytes(), purged);
}

TEST_F(ArenaSettings, AHigherValueForgetsNoLoop) {
    if (!hz_pagetags.flat)
        GTEST_SKIP() << "in tight mode large blocks do not rest";
    for (int round = 0; round < 4; round++)
        hz_arena_direct_free(direct(32 * MiB));
    hz_arena_rest_set(may_rest + MiB);
    EXPECT_EQ(hz_arena_resting_bytes(), 32 * MiB) << "the loop keeps its memory";
}

TEST_F(ArenaSettings, WithoutABudgetAllRestsUntilItAges) {
    hz_arena_rest_set(HZ_ARENA_REST_ALL);
    size_t purged = hz_arena_purged_bytes();
    use_and_free_runs(100);
    EXPECT_EQ(hz_arena_resting_bytes(), 100 * run_bytes);
    EXPECT_EQ(hz_arena_purged_bytes(), purged) << "200 MiB are far above the usual budget";
    uint64_t start = hz_os_now_ms();
    while (hz_arena_resting_bytes() > 0 && hz_os_now_ms() < start + 10000) {
        std::this_thread::yield();
        hz_arena_tick();
    }
    EXPECT_EQ(hz_arena_resting_bytes(), 0U);
}

/* What a loop had learnt would otherwise allow 128 MiB more. */
TEST_F(ArenaSettings, ALowerValueForgetsALoop) {
    if (!hz_pagetags.flat)
        GTEST_SKIP() << "in tight mode large blocks do not rest";
    for (int round = 0; round < 4; round++)
        hz_arena_direct_free(direct(32 * MiB));
    ASSERT_EQ(hz_arena_resting_bytes(), 32 * MiB) << "the loop keeps its memory";
    hz_arena_rest_set(4 * MiB);
    EXPECT_EQ(hz_arena_resting_bytes(), 4 * MiB);
    hz_arena_direct_free(direct(32 * MiB));
    EXPECT_LT(hz_arena_resting_bytes(), 32 * MiB);
}

TEST_F(ArenaSettings, BlocksAreMappedAloneFromTheSizeThatIsSet) {
    if (!hz_pagetags.flat)
        GTEST_SKIP() << "in tight mode all blocks are mapped alone";
    hz_arena_alone_set(6 * MiB);
    size_t page = hz_os_page_bytes();
    struct hz_segment *below = direct(6 * MiB - page);
    struct hz_segment *at = direct(6 * MiB);
    void *below_base = unit::page_address(below, 0);
    void *at_base = unit::page_address(at, 0);
    EXPECT_NE(below->region, 0U);
    EXPECT_EQ(at->region, 0U);
    size_t purged = hz_arena_purged_bytes();
    hz_arena_direct_free(at);
    EXPECT_FALSE(is_mapped(at_base)) << "it is unmapped when it is freed";
    EXPECT_EQ(hz_arena_purged_bytes() - purged, 6 * MiB);
    EXPECT_EQ(hz_arena_resting_bytes(), 0U);
    hz_arena_direct_free(below);
    EXPECT_TRUE(is_mapped(below_base));
    EXPECT_EQ(hz_arena_resting_bytes(), 8 * MiB) << "two units rest";
}

TEST_F(ArenaSettings, ABlockFromBeforeKeepsItsUnits) {
    if (!hz_pagetags.flat)
        GTEST_SKIP() << "in tight mode all blocks are mapped alone";
    struct hz_segment *segment = direct(8 * MiB);
    hz_arena_alone_set(3 * MiB);
    ASSERT_NE(hz_arena_direct_resize(segment, 7 * MiB, true), nullptr);
    EXPECT_NE(segment->region, 0U) << "a block that shrinks stays where it is";
    hz_arena_direct_free(segment);
    EXPECT_EQ(hz_arena_resting_bytes(), 8 * MiB);
}

TEST_F(ArenaSettings, ABlockThatGrowsToThatSizeMovesOut) {
    if (!hz_pagetags.flat)
        GTEST_SKIP() << "in tight mode all blocks are mapped alone";
    hz_arena_alone_set(6 * MiB);
    struct hz_segment *segment = direct(5 * MiB);
    support::fill(unit::page_address(segment, 0), 5 * MiB, 1);
    ASSERT_NE(segment->region, 0U);
    ASSERT_EQ(hz_arena_direct_resize(segment, 6 * MiB, true), segment);
    EXPECT_EQ(segment->region, 0U);
    void *base = unit::page_address(segment, 0);
    EXPECT_TRUE(support::holds(base, 5 * MiB, 1));
    hz_arena_direct_free(segment);
    EXPECT_FALSE(is_mapped(base));
}

TEST_F(ArenaSettings, SizesOutOfRange) {
    if (!hz_pagetags.flat)
        GTEST_SKIP() << "in tight mode all blocks are mapped alone";
    for (size_t bytes : {64 * MiB + 1, 200 * MiB, SIZE_MAX}) {
        hz_arena_alone_set(10 * MiB);
        hz_arena_alone_set(bytes);
        struct hz_segment *segment = direct(64 * MiB);
        EXPECT_NE(segment->region, 0U) << "more than 64 MiB counts as no value";
        hz_arena_direct_free(segment);
        segment = direct(64 * MiB + hz_os_page_bytes());
        EXPECT_EQ(segment->region, 0U) << bytes;
        hz_arena_direct_free(segment);
    }
    hz_arena_alone_set(0);
    struct hz_segment *segment = direct(hz_os_page_bytes()); /* a small block becomes direct because of its alignment */
    EXPECT_NE(segment->region, 0U) << "less than 2 MiB counts as 2 MiB";
    hz_arena_direct_free(segment);
    segment = direct(2 * MiB + hz_os_page_bytes());
    EXPECT_EQ(segment->region, 0U);
    hz_arena_direct_free(segment);
}

} // namespace
