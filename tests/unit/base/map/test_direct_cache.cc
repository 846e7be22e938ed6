/* Direct blocks that were freed a moment ago: who gets them, how long they stay, and what they count as. */
#include "unit/base/arena_fixture.h"

#include <set>

extern "C" {
#include "base/map/budget.h"
#include "base/map/direct_cache.h"
}

namespace {

class DirectCache : public Arena {
  protected:
    void SetUp() override {
        Arena::SetUp();
        if (!hz_pagetags.flat)
            GTEST_SKIP() << "in tight mode each block is a mapping of its own";
        ASSERT_TRUE(rests_nothing_soon());
        hz_arena_rest_set(8 * MiB);
    }
    void TearDown() override {
        hz_arena_rest_set(rest_default);
        hz_arena_purge(0, SIZE_MAX);
        Arena::TearDown();
    }
    static struct hz_segment *direct(size_t bytes, bool zeroed = false) {
        struct hz_segment *segment = hz_arena_direct_alloc(bytes, 1, zeroed);
        EXPECT_NE(segment, nullptr);
        return segment;
    }
    static char *base(struct hz_segment *segment) {
        return unit::page_address(segment, 0);
    }
};

TEST_F(DirectCache, OnlyABlockOfAboutThatLengthIsTaken) {
    struct Case {
        size_t freed, wanted;
        bool is_taken;
    };
    const size_t page = hz_os_page_bytes();
    for (const Case &each : {Case{3 * MiB, 3 * MiB, true},
                             {3 * MiB, 4 * MiB, true},
                             {3 * MiB, 4 * MiB + page, false},
                             {4 * MiB, 7 * MiB / 2, true},
                             {4 * MiB, 3 * MiB, false},
                             {64 * MiB, 61 * MiB, true},
                             {64 * MiB, 40 * MiB, false}}) {
        SCOPED_TRACE(std::to_string(each.freed) + " freed, wanted: " + std::to_string(each.wanted));
        hz_arena_purge(0, SIZE_MAX);
        hz_arena_rest_set(256 * MiB);
        hz_arena_direct_free(direct(each.freed));
        ASSERT_EQ(hz_direct_cache_bytes(), each.freed);
        struct hz_segment *segment = direct(each.wanted);
        EXPECT_EQ(hz_direct_cache_bytes(), each.is_taken || each.freed >= each.wanted ? 0 : each.freed);
        EXPECT_EQ(segment->direct_bytes, each.wanted);
        EXPECT_EQ(hz_segment_find(base(segment)), segment);
        expect_exact_counts();
        hz_arena_direct_free(segment);
        expect_exact_counts();
    }
    hz_arena_rest_set(rest_default);
}

TEST_F(DirectCache, AFreedBlockIsNobodysUntilItIsTaken) {
    struct hz_arena_figures before = figures();
    struct hz_segment *segment = direct(5 * MiB);
    char *start = base(segment);
    memset(start, 1, 5 * MiB);
    hz_arena_direct_free(segment);
    EXPECT_EQ(hz_segment_find(start), nullptr);
    EXPECT_EQ(figures().direct_count, before.direct_count);
    EXPECT_EQ(hz_arena_resting_bytes(), 8 * MiB) << "its units may hold so much";
    EXPECT_EQ(hz_arena_used_bytes(), before.used_bytes + before.direct_bytes);
    struct hz_segment *again = direct(5 * MiB, true);
    EXPECT_EQ(base(again), start);
    EXPECT_TRUE(support::is_zero(start, 5 * MiB));
    hz_arena_direct_free(again);
}

TEST_F(DirectCache, ABlockThatNobodyTakesLeaves) {
    hz_arena_direct_free(direct(3 * MiB));
    hz_arena_purge(250, 0); /* may be too early for a look */
    uint64_t start = hz_os_now_ms();
    while (hz_direct_cache_bytes() > 0 && hz_os_now_ms() < start + 2000)
        hz_arena_purge(250, 0);
    EXPECT_EQ(hz_direct_cache_bytes(), 0U);
    EXPECT_EQ(hz_arena_resting_bytes(), 4 * MiB) << "its unit rests on, as if it had just been freed";
    EXPECT_LE(hz_os_now_ms() - start, 1000U);
}

TEST_F(DirectCache, ABlockInUseStays) {
    char *start = nullptr;
    uint64_t begin = hz_os_now_ms();
    while (hz_os_now_ms() < begin + 800) {
        struct hz_segment *segment = direct(3 * MiB);
        EXPECT_TRUE(start == nullptr || start == base(segment));
        start = base(segment);
        hz_arena_direct_free(segment);
        hz_arena_purge(250, 0);
    }
}

TEST_F(DirectCache, WhatEmptiesIt) {
    hz_arena_direct_free(direct(3 * MiB));
    hz_arena_trim();
    EXPECT_EQ(hz_direct_cache_bytes(), 0U) << "a trim";
    hz_arena_direct_free(direct(3 * MiB));
    hz_arena_purge(0, SIZE_MAX);
    EXPECT_EQ(hz_arena_resting_bytes(), 0U) << "a purge";
    hz_arena_direct_free(direct(3 * MiB));
    hz_arena_rest_set(0);
    EXPECT_EQ(hz_arena_resting_bytes(), 0U) << "a budget of nothing";
    hz_arena_direct_free(direct(3 * MiB));
    EXPECT_EQ(hz_arena_resting_bytes(), 0U) << "within a budget of nothing";
    hz_arena_rest_set(rest_default);
}

/* A block that grows may need the units of one that was freed a moment ago. */
TEST_F(DirectCache, ABlockGrowsIntoWhatACachedOneLeaves) {
    struct hz_segment *first = direct(4 * MiB);
    struct hz_segment *second = direct(4 * MiB);
    if (base(first) > base(second))
        std::swap(first, second);
    ASSERT_EQ(base(first) + 4 * MiB, base(second));
    hz_arena_direct_free(second);
    EXPECT_EQ(hz_arena_direct_resize(first, 8 * MiB, false), first);
    EXPECT_EQ(hz_direct_cache_bytes(), 0U);
    hz_arena_direct_free(first);
}

TEST_F(DirectCache, AHardLimitHoldsForItToo) {
    hz_arena_direct_free(direct(6 * MiB));
    hz_budget_limits_set(0, hz_arena_used_bytes() + 4 * MiB, false);
    EXPECT_EQ(hz_arena_direct_alloc(6 * MiB, 1, false), nullptr);
    hz_budget_limits_set(0, 0, false);
    hz_arena_direct_free(direct(6 * MiB));
}

TEST_F(DirectCache, ABlockOfAnotherLengthGetsItsMemory) {
    struct hz_segment *segment = direct(7 * MiB);
    char *start = base(segment);
    hz_arena_direct_free(segment);
    segment = direct(3 * MiB);
    EXPECT_EQ(base(segment), start) << "rather than memory that is not there yet";
    hz_arena_direct_free(segment);
}

/* More blocks than there are slots: all leave in the end, and none is had twice. */
TEST_F(DirectCache, ManyBlocksAtOnce) {
    hz_arena_rest_set(1024 * MiB);
    for (int turn = 0; turn < 3; turn++) {
        std::vector<struct hz_segment *> segments;
        std::set<char *> starts;
        for (size_t i = 0; i < 40; i++) {
            segments.push_back(direct((3 + i % 5) * MiB));
            starts.insert(base(segments.back()));
        }
        EXPECT_EQ(starts.size(), segments.size());
        for (struct hz_segment *segment : segments)
            hz_arena_direct_free(segment);
        expect_exact_counts();
        EXPECT_LE(hz_direct_cache_bytes(), 16 * 8 * 7 * MiB);
    }
    hz_arena_rest_set(rest_default);
    hz_arena_purge(0, SIZE_MAX);
    EXPECT_EQ(hz_arena_resting_bytes(), 0U);
}

TEST_F(DirectCache, AForksChildCountsTheSame) {
    struct hz_segment *live = direct(3 * MiB);
    hz_arena_direct_free(direct(5 * MiB));
    children::expect_good_end(children::start([&] {
        hz_arena_recount_after_fork(figures().direct_bytes);
        require(hz_arena_resting_bytes() == 8 * MiB, "rests", hz_arena_resting_bytes());
        require(hz_arena_used_bytes() == figures().used_bytes + 3 * MiB, "used", hz_arena_used_bytes());
        hz_arena_purge(0, SIZE_MAX);
        require(hz_arena_resting_bytes() == 0, "all goes back");
        return 0;
    }));
    hz_arena_direct_free(live);
}

/* Blocks go from thread to thread. Each is one thread's alone, whole, and as long as asked. */
TEST_F(DirectCache, ThreadsTakeAndFree) {
    std::atomic<bool> good{true};
    unit::together(4, [&](unsigned index) {
        support::Random random(index);
        for (unsigned i = 0; i < unit::rounds(3000); i++) {
            size_t bytes = hz_round_up(random.between(2 * MiB + 1, 9 * MiB), hz_os_page_bytes());
            struct hz_segment *segment = hz_arena_direct_alloc(bytes, 1, false);
            char *start = unit::page_address(segment, 0);
            good = good && segment->direct_bytes == bytes && hz_segment_find(start + 100) == segment;
            support::fill(start, 64, index * 100000 + i);
            support::fill(start + bytes - 64, 64, index * 100000 + i);
            if (i % 7 == 0)
                std::this_thread::yield();
            good = good && support::holds(start, 64, index * 100000 + i) &&
                   support::holds(start + bytes - 64, 64, index * 100000 + i);
            hz_arena_direct_free(segment);
            if (i % 50 == index)
                hz_arena_tick();
            if (i % 400 == index)
                hz_arena_purge(0, SIZE_MAX);
        }
    });
    EXPECT_TRUE(good);
    expect_exact_counts();
    hz_arena_purge(0, SIZE_MAX);
    EXPECT_EQ(hz_direct_cache_bytes(), 0U);
    EXPECT_EQ(hz_direct_cache_unit_bytes(), 0U);
    EXPECT_EQ(hz_arena_resting_bytes(), 0U);
}

/* A thread that a fork's child lacks may have counted a block that it had not yet put in, or one that it had taken. The
   entries' numbers are invented: nothing else uses the cache meanwhile. */
TEST_F(DirectCache, AForksChildCountsWhatIsThere) {
    std::atomic<bool> ends{false};
    std::thread other([&] {
        for (uint32_t i = 1; !ends; i++) {
            (void)hz_direct_cache_put(i, 3 * MiB + i % 64 * hz_os_page_bytes());
            (void)hz_direct_cache_take(3 * MiB);
        }
    });
    for (unsigned i = 0; i < unit::rounds(300); i++)
        children::expect_good_end(children::start([] {
            hz_direct_cache_recount_after_fork();
            while (hz_direct_cache_take_any() != HZ_DIRECT_NONE) {
            }
            require(hz_direct_cache_bytes() == 0, "all blocks are gone", hz_direct_cache_bytes());
            require(hz_direct_cache_unit_bytes() == 0, "all units are gone", hz_direct_cache_unit_bytes());
            return 0;
        }));
    ends = true;
    other.join();
    while (hz_direct_cache_take_any() != HZ_DIRECT_NONE) {
    }
    EXPECT_EQ(hz_direct_cache_bytes(), 0U);
    EXPECT_EQ(hz_direct_cache_unit_bytes(), 0U);
}

} // namespace
