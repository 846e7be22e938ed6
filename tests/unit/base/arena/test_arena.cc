/* Segments and runs of pages: a page never has two holders, clean pages are zero, free pages are purged. */
#include "unit/base/arena_fixture.h"

#include <algorithm>
#include <climits>
#include <fstream>
#include <memory>
#include <sys/resource.h>

namespace {

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

/* Whether core files lack the address. */
bool is_left_out(const void *address) {
    std::ifstream smaps("/proc/self/smaps");
    bool is_here = false;
    for (std::string line; std::getline(smaps, line);) {
        unsigned long begin = 0;
        unsigned long end = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
            is_here = begin <= reinterpret_cast<uintptr_t>(address) && reinterpret_cast<uintptr_t>(address) < end;
        else if (is_here && line.rfind("VmFlags:", 0) == 0)
            return line.find(" dd") != std::string::npos;
    }
    ADD_FAILURE() << "no mapping has " << address;
    return false;
}

TEST_F(Arena, CoreFilesHaveSegmentsThatHoldMemory) {
    Rests rests(HZ_ARENA_REST_ALL);
    std::vector<struct hz_run> runs;
    for (int i = 0; i < 10; i++) {
        runs.push_back(alloc(unit::run_pages_max));
        memset(start_of(runs.back()), 'x', bytes_of(runs.back()));
        EXPECT_FALSE(is_left_out(start_of(runs.back())));
    }
    for (const struct hz_run &run : runs) {
        free(run);
        EXPECT_FALSE(is_left_out(start_of(run))) << "it still holds memory";
    }
    hz_arena_purge(0, SIZE_MAX);
    size_t left_out = 0;
    for (const struct hz_run &run : runs) {
        uint64_t half = UINT64_C(0xffffffff) << (run.first & 32);
        bool is_unused = (hz_arena_masks_get(run.segment->index).unused & half) == half;
        EXPECT_EQ(is_left_out(start_of(run)), is_unused);
        left_out += is_unused;
    }
    EXPECT_GE(left_out, 8U) << "halves of segments in which only this test has runs";
    struct hz_run one = alloc(1);
    EXPECT_FALSE(is_left_out(start_of(one))) << "a page of it is in use";
    hz_arena_show();
    for (const struct hz_run &run : runs)
        EXPECT_FALSE(is_left_out(start_of(run)));
    free(one);
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
    Rests rests(HZ_ARENA_REST_ALL);
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
    return rest_default + hz_arena_used_bytes() / 64;
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
    EXPECT_GT(most, rest_default - MiB) << "the budget is used";
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
    std::atomic<unsigned> grown{0};
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
            /* The kernel moves no range of two mappings, which is what remapped holes can leave: refused, as it was. */
            struct hz_segment *resized = hz_arena_direct_resize(segment, bytes + hz_os_page_bytes(), true);
            grown += resized != nullptr;
            good = good && (resized == nullptr || resized == segment);
            base = unit::page_address(segment, 0);
            base[resized != nullptr ? bytes : bytes - 1] = 1; /* what is new can hold anything, but it is there */
            good = good && support::holds(base, 64, index * 1000 + i);
            hz_arena_direct_free(segment);
        }
    });
    EXPECT_TRUE(good);
    EXPECT_GT(grown.load(), 0U);
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
