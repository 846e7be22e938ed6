/* Segments and runs of pages: a page never has two holders, clean pages are zero, free pages are purged. */
#include "stress/children.h"
#include "unit/base/fixture.h"

#include <algorithm>
#include <climits>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <sys/resource.h>

namespace {

using children::require;
using support::MiB;
using unit::figures;

constexpr uint32_t an_hour_ms = 3600000;

char *start_of(const struct hz_run &run) {
    return unit::page_address(run.segment, run.first);
}

size_t bytes_of(const struct hz_run &run) {
    return run.pages * unit::page_bytes;
}

bool is_dirty(const struct hz_run &run, unsigned page) {
    return (run.dirty_mask >> page & 1) != 0;
}

/* Pages that were not reported dirty read as zero. */
bool clean_pages_are_zero(const struct hz_run &run) {
    for (unsigned page = run.first; page < run.first + run.pages; page++)
        if (!is_dirty(run, page) && !support::is_zero(unit::page_address(run.segment, page), unit::page_bytes))
            return false;
    return true;
}

class Arena : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        ASSERT_TRUE(unit::base_init());
    }
    void SetUp() override {
        used_before_ = figures().used_bytes;
    }
    void TearDown() override {
        EXPECT_EQ(figures().used_bytes, used_before_) << "a run was not freed";
    }
    static struct hz_run alloc(unsigned pages, unsigned align_pages = 1) {
        struct hz_run run = {};
        EXPECT_TRUE(hz_arena_run_alloc(pages, align_pages, &run));
        return run;
    }
    static void free(const struct hz_run &run) {
        hz_arena_run_free(run.segment, run.first);
    }

  private:
    size_t used_before_ = 0;
};

TEST_F(Arena, NothingIsOursBeforeAndBeside) {
    int on_stack = 0;
    EXPECT_EQ(hz_segment_find(nullptr), nullptr);
    EXPECT_EQ(hz_segment_find(&on_stack), nullptr);
    struct hz_run run = alloc(1);
    auto base = reinterpret_cast<uintptr_t>(unit::page_address(run.segment, 0));
    EXPECT_EQ(hz_segment_find(reinterpret_cast<void *>(base)), run.segment);
    EXPECT_EQ(hz_segment_find(reinterpret_cast<void *>(base + unit::segment_bytes - 1)), run.segment);
    EXPECT_NE(hz_segment_find(reinterpret_cast<void *>(base + unit::segment_bytes)), run.segment);
    EXPECT_NE(hz_segment_find(reinterpret_cast<void *>(base - 1)), run.segment);
    for (int bit = 47; bit < 64; bit++)
        EXPECT_EQ(hz_segment_find(reinterpret_cast<void *>(base | uintptr_t{1} << bit)), nullptr)
            << "an address that shares the table entry, bit " << bit;
    free(run);
}

TEST_F(Arena, RunsOfEverySizeAndAlignment) {
    std::vector<struct hz_run> runs;
    for (unsigned align = 1; align <= unit::run_pages_max; align *= 2)
        for (unsigned pages = 1; pages <= unit::run_pages_max; pages += pages < 6 ? 1 : 5) {
            struct hz_run run = alloc(pages, align);
            ASSERT_EQ(run.pages, pages);
            ASSERT_EQ(run.first % align, 0U);
            ASSERT_LE(run.first + pages, unit::segment_pages) << "a run never leaves its segment";
            ASSERT_EQ(run.segment->run_pages[run.first], pages);
            ASSERT_TRUE(clean_pages_are_zero(run));
            support::fill(start_of(run), bytes_of(run), runs.size());
            runs.push_back(run);
        }
    for (size_t i = 0; i < runs.size(); i++) {
        const struct hz_run &run = runs[i];
        ASSERT_TRUE(support::holds(start_of(run), bytes_of(run), i)) << "two runs overlap";
        for (unsigned page = run.first; page < run.first + run.pages; page++) {
            char *address = unit::page_address(run.segment, page);
            ASSERT_EQ(hz_segment_find(address + unit::page_bytes / 2), run.segment);
            ASSERT_EQ(hz_segment_get(address), run.segment);
            ASSERT_EQ(hz_segment_page(address + unit::page_bytes - 1), page);
            ASSERT_EQ(run.segment->run_first[page], run.first);
        }
        free(run);
    }
}

TEST_F(Arena, SegmentsAreFilledBeforeOthersAreMade) {
    size_t mapped = figures().mapped_bytes;
    std::vector<struct hz_run> runs;
    for (unsigned i = 0; i < 4 * unit::segment_pages; i++)
        runs.push_back(alloc(1));
    EXPECT_LE(figures().mapped_bytes, mapped + 5 * unit::segment_bytes);
    std::vector<char *> starts;
    for (const struct hz_run &run : runs)
        starts.push_back(start_of(run));
    std::sort(starts.begin(), starts.end());
    EXPECT_EQ(std::unique(starts.begin(), starts.end()), starts.end());
    for (const struct hz_run &run : runs)
        free(run);
    size_t mapped_full = figures().mapped_bytes;
    for (struct hz_run &run : runs)
        run = alloc(1);
    EXPECT_EQ(figures().mapped_bytes, mapped_full) << "freed runs are used again";
    for (const struct hz_run &run : runs)
        free(run);
}

TEST_F(Arena, DirtyPagesAreReportedAndReused) {
    hz_arena_purge(0, SIZE_MAX);
    struct hz_run run = alloc(4);
    EXPECT_EQ(run.dirty_mask >> run.first & 15, 0U);
    memset(start_of(run), 1, bytes_of(run));
    free(run);
    size_t dirty = figures().free_dirty_bytes;
    EXPECT_EQ(dirty, bytes_of(run));
    struct hz_run again = alloc(2);
    EXPECT_TRUE(is_dirty(again, again.first) && is_dirty(again, again.first + 1)) << "dirty pages are preferred";
    EXPECT_EQ(figures().free_dirty_bytes, dirty - bytes_of(again));
    free(again);
}

TEST_F(Arena, PurgedPagesAreCleanAndZero) {
    struct hz_run run = alloc(8);
    memset(start_of(run), 1, bytes_of(run));
    struct hz_run kept = alloc(1);
    memset(start_of(kept), 2, bytes_of(kept));
    free(run);
    struct hz_arena_figures before = figures();
    size_t purged = hz_arena_purge(0, SIZE_MAX);
    struct hz_arena_figures after = figures();
    EXPECT_GE(purged, bytes_of(run));
    EXPECT_EQ(purged, before.free_dirty_bytes);
    EXPECT_EQ(after.purged_bytes - before.purged_bytes, purged);
    EXPECT_EQ(after.free_dirty_bytes, 0U);
    EXPECT_EQ(before.dirty_bytes - after.dirty_bytes, purged);
    EXPECT_EQ(hz_arena_purge(0, SIZE_MAX), 0U) << "nothing is left to purge";
    EXPECT_EQ(start_of(kept)[unit::page_bytes - 1], 2) << "used pages stay";
    struct hz_run again = alloc(8);
    EXPECT_EQ(again.dirty_mask >> again.first & 0xff, 0U);
    EXPECT_TRUE(clean_pages_are_zero(again));
    free(again);
    free(kept);
}

TEST_F(Arena, PurgeKeepsToItsDelayAndBudget) {
    hz_arena_purge(0, SIZE_MAX);
    std::vector<struct hz_run> runs;
    for (int i = 0; i < 6; i++) {
        runs.push_back(alloc(unit::run_pages_max));
        memset(start_of(runs.back()), 1, bytes_of(runs.back()));
    }
    for (const struct hz_run &run : runs)
        free(run);
    size_t dirty = figures().free_dirty_bytes;
    EXPECT_EQ(dirty, 6 * unit::run_pages_max * unit::page_bytes);
    EXPECT_EQ(hz_arena_purge(an_hour_ms, SIZE_MAX), 0U) << "just freed";
    size_t some = hz_arena_purge(0, 1);
    EXPECT_GT(some, 0U);
    EXPECT_LE(some, unit::segment_bytes) << "the purge exceeds its budget by less than a segment";
    EXPECT_EQ(figures().free_dirty_bytes, dirty - some);
    EXPECT_EQ(hz_arena_purge(0, SIZE_MAX), dirty - some);
}

/* The bound that arena.h promises for a thread that is alone, without what a loop may have in addition. */
size_t budget() {
    return 8 * MiB + hz_arena_used_bytes() / 8;
}

void expect_exact_counts() {
    struct hz_arena_figures now = figures();
    EXPECT_EQ(hz_arena_resting_bytes(), now.free_dirty_bytes);
    EXPECT_EQ(hz_arena_used_bytes(), now.used_bytes + now.direct_bytes);
}

/* Ticks until nothing rests, and for two ticks at least, which forget loops of earlier tests; false if that takes
   longer than two seconds. */
bool rests_nothing_soon() {
    uint64_t start = hz_os_now_ms();
    while (hz_arena_tick() ? hz_os_now_ms() < start + 2000 : hz_os_now_ms() < start + 250)
        std::this_thread::yield();
    return hz_arena_resting_bytes() == 0;
}

TEST_F(Arena, NoMoreRestsThanTheBudget) {
    ASSERT_TRUE(rests_nothing_soon());
    std::vector<struct hz_run> runs;
    for (unsigned i = 0; i < 200; i++) {
        runs.push_back(alloc(1 + i % unit::run_pages_max));
        memset(start_of(runs.back()), 1, bytes_of(runs.back()));
    }
    expect_exact_counts();
    size_t purged = figures().purged_bytes;
    size_t most = 0;
    for (const struct hz_run &run : runs) {
        free(run);
        ASSERT_LE(hz_arena_resting_bytes(), budget());
        most = std::max(most, hz_arena_resting_bytes());
    }
    EXPECT_GT(most, 8 * MiB) << "the budget is used";
    EXPECT_GT(figures().purged_bytes, purged);
    expect_exact_counts();
}

TEST_F(Arena, AShrunkRunCountsToo) {
    ASSERT_TRUE(rests_nothing_soon());
    struct hz_run run = alloc(unit::run_pages_max);
    hz_arena_run_shrink(run.segment, run.first, 10);
    EXPECT_EQ(hz_arena_resting_bytes(), (unit::run_pages_max - 10) * unit::page_bytes);
    uint64_t dirty = 0;
    ASSERT_TRUE(hz_arena_run_grow(run.segment, run.first, 3, &dirty));
    EXPECT_EQ(hz_arena_resting_bytes(), (unit::run_pages_max - 13) * unit::page_bytes);
    expect_exact_counts();
    free(run);
    expect_exact_counts();
}

/* Live blocks whose sizes vary, replaced one by one: what is freed is used again, not purged. */
TEST_F(Arena, ASteadyStateDoesNotPurge) {
    support::Random random(7);
    std::vector<struct hz_run> runs;
    auto one = [&] { return alloc(static_cast<unsigned>(random.between(1, unit::run_pages_max))); };
    for (int i = 0; i < 400; i++)
        runs.push_back(one());
    auto replace = [&](unsigned rounds) {
        for (unsigned i = 0; i < rounds; i++) {
            struct hz_run &run = runs[random.below(runs.size())];
            free(run);
            run = one();
        }
    };
    replace(4000); /* until it is steady */
    size_t before = figures().purged_bytes;
    replace(4000);
    size_t churned = 4000 * unit::run_pages_max / 2 * unit::page_bytes;
    EXPECT_LT(figures().purged_bytes - before, churned / 50);
    for (const struct hz_run &run : runs)
        free(run);
}

/* The second round regrets what the first one purged; from the third on the memory is reused. Then it ages. */
TEST_F(Arena, ALoopOverLargeBlocksKeepsWhatItUsesAndGivesItBackLater) {
    if (!hz_pagetags.flat)
        GTEST_SKIP() << "in tight mode large blocks do not rest";
    ASSERT_TRUE(rests_nothing_soon());
    auto round = [] {
        std::vector<struct hz_segment *> blocks;
        for (int i = 0; i < 6; i++) {
            blocks.push_back(hz_arena_direct_alloc(8 * MiB, 1, false));
            memset(hz_segment_page_address(blocks.back(), 0), 1, 8 * MiB);
        }
        size_t before = figures().purged_bytes;
        for (struct hz_segment *block : blocks)
            hz_arena_direct_free(block);
        return figures().purged_bytes - before;
    };
    EXPECT_GT(round(), 20 * MiB) << "48 MiB are more than the budget";
    round();
    EXPECT_EQ(round(), 0U);
    EXPECT_GT(hz_arena_resting_bytes(), 40 * MiB);
    EXPECT_TRUE(rests_nothing_soon());
    expect_exact_counts();
    EXPECT_GT(round(), 20 * MiB) << "what was learnt is forgotten";
}

/* The program may never tick again, so what a loop over pages leaves behind stays small. */
TEST_F(Arena, ALoopOverPagesLeavesLittle) {
    ASSERT_TRUE(rests_nothing_soon());
    for (int round = 0; round < 4; round++) {
        std::vector<struct hz_run> runs;
        for (int i = 0; i < 25; i++)
            runs.push_back(alloc(unit::run_pages_max));
        for (const struct hz_run &run : runs)
            free(run);
    }
    EXPECT_LE(hz_arena_resting_bytes(), 12 * MiB + unit::run_pages_max * unit::page_bytes);
}

/* Pages of a segment that a thread allocates from and frees into all the time. */
TEST_F(Arena, ATickPurgesPagesWithBusyNeighbours) {
    ASSERT_TRUE(rests_nothing_soon());
    struct hz_run run = alloc(8);
    hz_arena_run_shrink(run.segment, run.first, 1);
    uint64_t end = hz_os_now_ms() + 2000;
    while (hz_arena_resting_bytes() > unit::page_bytes && hz_os_now_ms() < end) {
        uint64_t dirty = 0;
        ASSERT_TRUE(hz_arena_run_grow(run.segment, run.first, 1, &dirty));
        hz_arena_run_shrink(run.segment, run.first, 1);
        hz_arena_tick();
    }
    EXPECT_EQ(hz_arena_resting_bytes(), unit::page_bytes) << "only the busy page rests";
    free(run);
}

unsigned unused_segments() {
    unsigned count = 0;
    for (uint32_t index = 0; index < hz_arena_segment_count(); index++) {
        const struct hz_segment *segment = hz_arena_segment(index);
        bool is_paged = segment != nullptr && hz_load_rlx(&segment->kind) == HZ_SEGMENT_PAGED;
        count += is_paged && hz_arena_masks_get(index).unused == UINT64_MAX ? 1U : 0U;
    }
    return count;
}

TEST_F(Arena, SegmentsThatNothingNeedsAreUnmapped) {
    std::vector<struct hz_run> runs;
    for (int i = 0; i < 40; i++) {
        runs.push_back(alloc(unit::run_pages_max));
        memset(start_of(runs.back()), 1, bytes_of(runs.back()));
    }
    struct hz_run held = alloc(1);
    memset(start_of(held), 2, bytes_of(held));
    for (const struct hz_run &run : runs)
        free(run);
    hz_arena_purge(0, SIZE_MAX);
    unsigned unused = unused_segments();
    ASSERT_GE(unused, 19U);
    hz_arena_idle_end(an_hour_ms, UINT_MAX);
    EXPECT_EQ(unused_segments(), unused) << "none was free for so long";
    hz_arena_idle_end(0, 3);
    EXPECT_EQ(unused_segments(), unused - 3);
    hz_arena_idle_end(0, UINT_MAX);
    EXPECT_EQ(unused_segments(), 4U);
    hz_arena_trim();
    EXPECT_EQ(unused_segments(), 0U);
    EXPECT_EQ(std::count_if(runs.begin(), runs.end(),
                            [&](const struct hz_run &run) {
                                return run.segment != held.segment && hz_segment_find(start_of(run)) != nullptr;
                            }),
              0);
    EXPECT_EQ(start_of(held)[0], 2) << "a segment in use stays";
    for (struct hz_run &run : runs) {
        run = alloc(unit::run_pages_max);
        ASSERT_TRUE(clean_pages_are_zero(run));
        memset(start_of(run), 3, bytes_of(run));
    }
    for (const struct hz_run &run : runs)
        free(run);
    hz_arena_trim();
    EXPECT_GE(unused_segments(), 1U) << "memory that rests is not lost by a trim that keeps it";
    free(held);
}

TEST_F(Arena, GrowsIntoFreePagesOnly) {
    struct hz_run run = alloc(unit::run_pages_max);
    hz_arena_run_shrink(run.segment, run.first, 1);
    run.pages = 1;
    EXPECT_EQ(run.segment->run_pages[run.first], 1U);
    memset(start_of(run), 1, bytes_of(run));
    uint64_t dirty = 0;
    ASSERT_TRUE(hz_arena_run_grow(run.segment, run.first, 3, &dirty));
    run.pages = 4;
    EXPECT_EQ(run.segment->run_pages[run.first], 4U);
    for (unsigned page = run.first; page < run.first + 4; page++)
        EXPECT_EQ(run.segment->run_first[page], run.first);
    EXPECT_EQ(start_of(run)[unit::page_bytes - 1], 1) << "contents stay";
    EXPECT_FALSE(hz_arena_run_grow(run.segment, run.first, unit::run_pages_max, &dirty)) << "longer than any run";
    EXPECT_FALSE(hz_arena_run_grow(run.segment, run.first, UINT32_MAX, &dirty));
    hz_arena_run_shrink(run.segment, run.first, 4);
    EXPECT_EQ(run.segment->run_pages[run.first], 4U) << "shrinking to the present length changes nothing";
    free(run);
}

TEST_F(Arena, DoesNotGrowIntoANeighbour) {
    struct hz_run run = alloc(unit::run_pages_max);
    unsigned first = run.first;
    struct hz_segment *segment = run.segment;
    hz_arena_run_shrink(segment, first, 1);
    /* allocate pages until the one behind the run is taken */
    std::vector<struct hz_run> others;
    while (others.empty() || others.back().segment != segment || others.back().first != first + 1) {
        others.push_back(alloc(1));
        ASSERT_LT(others.size(), 100000U);
    }
    uint64_t dirty = 0;
    EXPECT_FALSE(hz_arena_run_grow(segment, first, 1, &dirty));
    EXPECT_EQ(segment->run_pages[first], 1U);
    hz_arena_run_free(segment, first + 1);
    others.pop_back();
    EXPECT_TRUE(hz_arena_run_grow(segment, first, 1, &dirty));
    hz_arena_run_free(segment, first);
    for (const struct hz_run &other : others)
        free(other);
}

TEST_F(Arena, DoesNotGrowBeyondItsSegment) {
    /* aligned to half a segment: of two such runs, one lies in the second half of its segment */
    struct hz_run a = alloc(unit::run_pages_max, unit::run_pages_max);
    struct hz_run b = alloc(unit::run_pages_max, unit::run_pages_max);
    for (const struct hz_run &run : {a, b}) {
        if (run.first + run.pages < unit::segment_pages)
            continue;
        uint64_t dirty = 0;
        EXPECT_FALSE(hz_arena_run_grow(run.segment, run.first, 1, &dirty));
    }
    EXPECT_TRUE(a.first + a.pages == unit::segment_pages || b.first + b.pages == unit::segment_pages ||
                a.segment != b.segment);
    free(a);
    free(b);
}

TEST_F(Arena, GrownPagesReportTheirDirt) {
    hz_arena_purge(0, SIZE_MAX);
    struct hz_run run = alloc(4);
    memset(start_of(run), 1, bytes_of(run));
    hz_arena_run_shrink(run.segment, run.first, 2);
    hz_arena_purge(0, SIZE_MAX);
    uint64_t dirty = UINT64_MAX;
    ASSERT_TRUE(hz_arena_run_grow(run.segment, run.first, 2, &dirty));
    EXPECT_EQ(dirty >> (run.first + 2) & 3, 0U);
    EXPECT_TRUE(support::is_zero(start_of(run) + 2 * unit::page_bytes, 2 * unit::page_bytes));
    hz_arena_run_shrink(run.segment, run.first, 2);
    ASSERT_TRUE(hz_arena_run_grow(run.segment, run.first, 2, &dirty));
    EXPECT_EQ(dirty >> (run.first + 2) & 3, 3U) << "a page that was handed out is dirty";
    free(run);
}

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

/* The freed memory of larger blocks exceeds the budget, until a second round regrets its purge. */
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
    EXPECT_LT(mappings(), before + 5000);
    size_t meta = hz_meta_bytes();
    for (size_t i = 0; i < count; i += 2) {
        hz_arena_direct_free(blocks[i]);
        blocks[i] = nullptr;
    }
    EXPECT_LT(mappings(), before + 5000) << "free units between used ones";
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

TEST_F(Arena, DirectorySlotsAreUsedAgain) {
    struct hz_segment *segment = hz_arena_direct_alloc(unit::segment_bytes, 1, false);
    hz_arena_direct_free(segment);
    hz_arena_purge(0, SIZE_MAX);
    uint32_t count = hz_arena_segment_count();
    for (int i = 0; i < 100; i++) {
        segment = hz_arena_direct_alloc(unit::segment_bytes, 1, false);
        ASSERT_NE(segment, nullptr);
        ASSERT_EQ(hz_arena_segment(segment->index), segment);
        hz_arena_direct_free(segment);
        hz_arena_purge(0, SIZE_MAX); /* also empties the cache of free mappings */
        ASSERT_EQ(hz_arena_segment(segment->index), nullptr);
    }
    EXPECT_EQ(hz_arena_segment_count(), count);
}

/* Under RLIMIT_DATA, memory that was used for pages serves blocks, and the other way round. */
TEST(ArenaLimit, WhatIsUnusedIsGivenUpForTheOtherKind) {
    if (support::sanitized)
        GTEST_SKIP() << "a sanitizer's memory does not fit";
    children::expect_good_end(children::start([] {
        require(unit::base_init(), "the base starts");
        struct rlimit limit = {300 * MiB, 300 * MiB};
        require(setrlimit(RLIMIT_DATA, &limit) == 0, "the limit is set");
        for (int round = 0; round < 3; round++) {
            std::vector<struct hz_run> runs(1);
            while (hz_arena_run_alloc(unit::run_pages_max, 1, &runs.back()))
                runs.emplace_back();
            runs.pop_back();
            require(runs.size() > 100, "200 MiB of runs fit");
            for (const struct hz_run &run : runs)
                hz_arena_run_free(run.segment, run.first);
            std::vector<struct hz_segment *> blocks;
            while (struct hz_segment *segment = hz_arena_direct_alloc(8 * MiB, 1, false))
                blocks.push_back(segment);
            require(blocks.size() > 25, "200 MiB of blocks fit");
            for (struct hz_segment *segment : blocks)
                hz_arena_direct_free(segment);
        }
        require(hz_arena_direct_alloc(size_t{1} << 40, 1, false) == nullptr, "a terabyte does not fit");
        return 0;
    }));
}

/* Records which pages are held, so a claim of a held page is found immediately. */
class Owners {
  public:
    bool claim(const struct hz_run &run) {
        bool mine = true;
        for (unsigned page = run.first; page < run.first + run.pages; page++)
            mine = !at(run, page).exchange(true) && mine;
        return mine;
    }
    void release(const struct hz_run &run) {
        for (unsigned page = run.first; page < run.first + run.pages; page++)
            at(run, page) = false;
    }

  private:
    static constexpr size_t segments = 4096;
    std::atomic<bool> &at(const struct hz_run &run, unsigned page) {
        return held_[(run.segment->index % segments) * 64 + page];
    }
    std::unique_ptr<std::atomic<bool>[]> held_ = std::make_unique<std::atomic<bool>[]>(segments * 64);
};

struct Worker {
    Owners &owners;
    support::Random random;
    std::vector<struct hz_run> held = {};
    std::vector<uint64_t> seeds = {};
    bool good = true;

    /* Fills the start and the end of each page. */
    void mark(const struct hz_run &run, uint64_t seed) {
        for (unsigned page = run.first; page < run.first + run.pages; page++)
            for (size_t offset : {size_t{0}, unit::page_bytes - 64})
                support::fill(unit::page_address(run.segment, page) + offset, 64, seed + page);
    }
    bool marked(const struct hz_run &run, uint64_t seed) {
        bool yes = true;
        for (unsigned page = run.first; page < run.first + run.pages; page++)
            for (size_t offset : {size_t{0}, unit::page_bytes - 64})
                yes = yes && support::holds(unit::page_address(run.segment, page) + offset, 64, seed + page);
        return yes;
    }
    void take() {
        struct hz_run run;
        unsigned pages = static_cast<unsigned>(random.between(1, 6));
        good = hz_arena_run_alloc(pages, 1U << random.below(3), &run) && owners.claim(run) && good;
        good = clean_pages_are_zero(run) && good;
        seeds.push_back(random.next());
        mark(run, seeds.back());
        held.push_back(run);
    }
    void drop(size_t index) {
        good = marked(held[index], seeds[index]) && good;
        owners.release(held[index]);
        hz_arena_run_free(held[index].segment, held[index].first);
        held[index] = held.back();
        seeds[index] = seeds.back();
        held.pop_back();
        seeds.pop_back();
    }
    void grow(size_t index) {
        struct hz_run &run = held[index];
        struct hz_run tail = {run.segment, run.first + run.pages, 1, 0};
        if (!hz_arena_run_grow(run.segment, run.first, 1, &tail.dirty_mask))
            return;
        good = owners.claim(tail) && clean_pages_are_zero(tail) && good;
        run.pages++;
        mark(tail, seeds[index]);
    }
    void shrink(size_t index) {
        struct hz_run &run = held[index];
        if (run.pages == 1)
            return;
        good = marked(run, seeds[index]) && good;
        run.pages--;
        owners.release({run.segment, run.first + run.pages, 1, 0});
        hz_arena_run_shrink(run.segment, run.first, run.pages);
    }
};

TEST_F(Arena, ThreadsNeverShareAPage) {
    constexpr unsigned threads = 4;
    Owners owners;
    std::atomic<unsigned> working{threads};
    std::atomic<bool> good{true};
    unit::together(threads + 1, [&](unsigned index) {
        if (index == threads) {
            while (working.load() > 0) {
                hz_arena_purge(0, 8);
                std::this_thread::yield();
            }
            return;
        }
        Worker worker = {owners, support::Random(index)};
        for (unsigned i = 0; i < unit::rounds(8000); i++) {
            size_t dice = worker.random.below(8);
            if (worker.held.size() < 4 || (dice < 3 && worker.held.size() < 40))
                worker.take();
            else if (dice < 4)
                worker.grow(worker.random.below(worker.held.size()));
            else if (dice < 5)
                worker.shrink(worker.random.below(worker.held.size()));
            else
                worker.drop(worker.random.below(worker.held.size()));
        }
        while (!worker.held.empty())
            worker.drop(worker.held.size() - 1);
        good = good && worker.good;
        working--;
    });
    EXPECT_TRUE(good) << "a page had two holders, lost its contents, or was called clean but is not zero";
}

TEST_F(Arena, ThreadsMapAndUnmapDirectly) {
    std::atomic<bool> good{true};
    size_t count = figures().direct_count;
    unit::together(4, [&](unsigned index) {
        support::Random random(index);
        for (unsigned i = 0; i < unit::rounds(300); i++) {
            size_t bytes = hz_round_up(random.between(1, 9 * MiB), hz_os_page_bytes());
            struct hz_segment *segment = hz_arena_direct_alloc(bytes, 1, true);
            char *base = unit::page_address(segment, 0);
            good = good && base[0] == 0 && base[bytes - 1] == 0;
            support::fill(base, 64, index * 1000 + i);
            base[bytes - 1] = 1;
            segment = hz_arena_direct_resize(segment, bytes + hz_os_page_bytes(), true);
            base = unit::page_address(segment, 0);
            base[bytes] = 1; /* what is new can hold anything, but it is there */
            good = good && support::holds(base, 64, index * 1000 + i);
            hz_arena_direct_free(segment);
        }
    });
    EXPECT_TRUE(good);
    EXPECT_EQ(figures().direct_count, count);
}

TEST(ArenaDeathTest, GetOfAStrangerSaysSo) {
    auto get = [] {
        int on_stack = 0;
        if (unit::base_init())
            hz_segment_get(&on_stack);
    };
    EXPECT_DEATH(get(), "hakozuna: free of a pointer that is not from this allocator: 0x");
}

} // namespace
