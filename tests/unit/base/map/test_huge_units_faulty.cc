/* Huge pages: units are asked for in a large dense heap, and refused before a part of one is given back. The faulty OS
   is there for its clocks: no unit counts as slow, however long the kernel takes to find it. */
#include "unit/base/faulty.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <vector>

namespace {

using support::MiB;

constexpr size_t dense_bytes = 64 * MiB;
constexpr unsigned unit_pages = HZ_HUGE_BYTES / unit::page_bytes;

/* What smaps says about the mapping that holds the address, a line each; empty if none does. */
std::vector<std::string> mapping_at(const void *address) {
    auto wanted = reinterpret_cast<uintptr_t>(address);
    std::ifstream maps("/proc/self/smaps");
    std::vector<std::string> found;
    std::string line;
    bool is_here = false;
    while (std::getline(maps, line)) {
        unsigned long first = 0;
        unsigned long behind = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &behind) == 2)
            is_here = first <= wanted && wanted < behind;
        if (is_here)
            found.push_back(line);
    }
    return found;
}

/* What the kernel was told about the mapping that holds the address: "hg", "nh" or "". */
std::string advice_at(const void *address) {
    for (const std::string &line : mapping_at(address))
        if (line.rfind("VmFlags:", 0) == 0)
            return line.find(" hg") != std::string::npos ? "hg" : line.find(" nh") != std::string::npos ? "nh" : "";
    return "unmapped";
}

size_t resident_bytes(const char *start, size_t bytes) {
    std::vector<unsigned char> pages(bytes / hz_os_page_bytes());
    EXPECT_EQ(mincore(const_cast<char *>(start), bytes, pages.data()), 0);
    size_t count = 0;
    for (unsigned char page : pages)
        count += page & 1;
    return count * hz_os_page_bytes();
}

/* KiB of huge pages in the mapping that holds the address. */
size_t huge_kb_at(const void *address) {
    size_t kb = 0;
    for (const std::string &line : mapping_at(address))
        if (std::sscanf(line.c_str(), "AnonHugePages: %zu", &kb) == 1)
            return kb;
    return 0;
}

/* An emulator may ignore the advice. */
bool kernel_has_huge_pages() {
    void *range = hz_os_map(HZ_HUGE_BYTES, HZ_HUGE_BYTES, false);
    if (range == nullptr)
        return false;
    hz_os_huge(range, HZ_HUGE_BYTES);
    bool has = advice_at(range) == "hg";
    EXPECT_TRUE(hz_os_unmap(range, HZ_HUGE_BYTES));
    return has;
}

class Huge : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        ASSERT_TRUE(unit::base_init());
        const struct hz_os_usage only_waits = {0, 0};
        hz_os_faulty_pace(1, &only_waits);
    }
    void SetUp() override {
        if (!kernel_has_huge_pages())
            GTEST_SKIP() << "the kernel has no huge pages";
        say("always [madvise] never");
    }
    void TearDown() override {
        for (const struct hz_run &run : runs_)
            hz_arena_run_free(run.segment, run.first);
        hz_arena_purge(0, SIZE_MAX);
        hz_huge_dense_set(0);
    }

    /* Lets the library read a folder like the system's. `of_2mib`: the mode of the size 2 MiB; "": none, as in an older
       kernel. */
    static void say(const std::string &mode, const std::string &of_2mib = "") {
        std::filesystem::path folder = ::testing::TempDir() + "thp-" + std::to_string(getpid());
        std::filesystem::create_directories(folder / "hugepages-2048kB");
        std::ofstream(folder / "enabled") << mode << "\n";
        if (!of_2mib.empty())
            std::ofstream(folder / "hugepages-2048kB" / "enabled") << of_2mib << "\n";
        hz_huge_look(folder.c_str());
        std::filesystem::remove_all(folder);
    }

    void take() {
        struct hz_run run = {};
        EXPECT_TRUE(hz_arena_run_alloc(1, 1, &run));
        runs_.push_back(run);
    }
    /* Takes single pages until one is the first of a unit, and then the rest of the unit. */
    size_t unit_take() {
        do {
            take();
        } while (runs_.back().first % unit_pages != 0);
        size_t first = runs_.size() - 1;
        while (runs_.size() - first < unit_pages) {
            take();
            EXPECT_EQ(runs_.back().first / unit_pages, runs_[first].first / unit_pages) << "the unit is filled first";
        }
        return first;
    }
    void give(size_t index) {
        hz_arena_run_free(runs_[index].segment, runs_[index].first);
        runs_.erase(runs_.begin() + static_cast<ptrdiff_t>(index));
    }
    /* Takes a unit, which then goes back to the kernel as a whole. Returns its address. */
    const char *unit_give_back() {
        size_t first = unit_take();
        const char *start = unit::page_address(runs_[first].segment, runs_[first].first);
        for (unsigned page = 0; page < unit_pages; page++)
            give(first);
        hz_arena_purge(0, SIZE_MAX);
        return start;
    }
    std::string advice(size_t index) const {
        return advice_at(unit::page_address(runs_[index].segment, runs_[index].first));
    }
    static struct hz_huge_figures figures() {
        struct hz_huge_figures got;
        hz_huge_figures_get(&got);
        return got;
    }

    std::vector<struct hz_run> runs_;
};

TEST_F(Huge, ASmallHeapAsksForNone) {
    hz_huge_dense_set(16 * MiB);
    size_t asked = figures().asked;
    unit_take();
    EXPECT_EQ(figures().asked, asked);
}

TEST_F(Huge, ALargeDenseHeapAsksForWholeUnits) {
    hz_huge_dense_set(dense_bytes);
    size_t first = unit_take();
    EXPECT_EQ(advice(first), "hg");
    EXPECT_EQ(advice(first + unit_pages - 1), "hg");
    EXPECT_TRUE(support::is_zero(unit::page_address(runs_[first].segment, runs_[first].first), unit::page_bytes));
}

/* The rule for collapsing is that for new units. But a slow unit does not pause collapsing. */
TEST_F(Huge, OtherRunsMayBeAnEighth) {
    hz_huge_dense_set(70 * MiB);
    EXPECT_TRUE(hz_huge_collapse_is_wanted(80 * MiB));
    EXPECT_FALSE(hz_huge_collapse_is_wanted(81 * MiB));
    EXPECT_FALSE(hz_huge_is_wanted(81 * MiB));
}

TEST_F(Huge, NothingIsAskedWhereTheKernelGivesNone) {
    say("always madvise [never]");
    hz_huge_dense_set(dense_bytes);
    EXPECT_FALSE(hz_huge_is_wanted(dense_bytes));
}

TEST_F(Huge, TheSizesOwnModeComesFirst) {
    hz_huge_dense_set(dense_bytes);
    say("always [madvise] never", "always inherit madvise [never]");
    EXPECT_FALSE(hz_huge_collapse_is_wanted(dense_bytes));
    EXPECT_FALSE(hz_huge_is_wanted(dense_bytes));
    say("always madvise [never]", "always [inherit] madvise never");
    EXPECT_FALSE(hz_huge_collapse_is_wanted(dense_bytes));
    say("always madvise [never]", "always inherit [madvise] never");
    EXPECT_TRUE(hz_huge_collapse_is_wanted(dense_bytes));
}

/* As after chroot, or without a file descriptor left. */
TEST_F(Huge, WhatCannotBeReadStaysAsItWas) {
    hz_huge_dense_set(dense_bytes);
    say("always madvise [never]");
    hz_huge_look("/no/such/folder");
    EXPECT_FALSE(hz_huge_is_wanted(dense_bytes));
    char *base = static_cast<char *>(hz_os_map(HZ_SEGMENT_BYTES, HZ_SEGMENT_BYTES, false));
    ASSERT_NE(base, nullptr);
    hz_huge_units units = {0};
    say("[always] madvise never");
    hz_huge_look("/no/such/folder");
    EXPECT_NE(hz_huge_refuse_parts(&units, base, 4096, 4096), 0U) << "the kernel would fill the part again";
    hz_huge_forget(&units);
    EXPECT_TRUE(hz_os_unmap(base, HZ_SEGMENT_BYTES));
}

TEST_F(Huge, CollapsingIsWantedOnlyWhereTheKernelGivesHugePages) {
    hz_huge_dense_set(dense_bytes);
    EXPECT_TRUE(hz_huge_collapse_is_wanted(dense_bytes));
    hz_huge_dense_set(16 * MiB);
    EXPECT_FALSE(hz_huge_collapse_is_wanted(16 * MiB));
    hz_huge_dense_set(dense_bytes);
    say("always madvise [never]");
    EXPECT_FALSE(hz_huge_collapse_is_wanted(dense_bytes)) << "the kernel would collapse all the same";
}

/* A segment whose memory is all resident, in small pages unless the system gives huge ones to everybody. */
class HugeCollapse : public Huge {
  protected:
    void SetUp() override {
        Huge::SetUp();
        if (IsSkipped())
            return;
        base_ = static_cast<char *>(hz_os_map(HZ_SEGMENT_BYTES, HZ_SEGMENT_BYTES, false));
        ASSERT_NE(base_, nullptr);
        memset(base_, 'x', HZ_SEGMENT_BYTES);
        hz_huge_dense_set(dense_bytes);
    }
    void TearDown() override {
        if (base_ != nullptr) {
            hz_huge_forget(&units_);
            EXPECT_TRUE(hz_os_unmap(base_, HZ_SEGMENT_BYTES));
        }
        Huge::TearDown();
    }
    static size_t collapsed() {
        return figures().collapsed;
    }
    bool is_intact() const {
        return std::all_of(base_, base_ + HZ_SEGMENT_BYTES, [](char byte) { return byte == 'x'; });
    }
    /* Kernels before 6.1 cannot collapse, and later ones may have no huge page to give. */
    bool kernel_can() {
        return hz_os_collapse(base_ + HZ_HUGE_BYTES, HZ_HUGE_BYTES) == 0;
    }

    hz_huge_units units_ = {0};
    char *base_ = nullptr;
};

TEST_F(HugeCollapse, MakesAUnitOneThatWasAskedFor) {
    if (!kernel_can())
        GTEST_SKIP() << "the kernel does not collapse";
    size_t before = collapsed();
    ASSERT_TRUE(hz_huge_collapse_begin(&units_, 0));
    size_t resident = support::resident_bytes();
    EXPECT_TRUE(hz_huge_collapse(&units_, base_, 0));
    if (!support::sanitized) {
        EXPECT_LT(support::resident_bytes(), resident + MiB) << "the page that was warmed went back";
    }
    EXPECT_EQ(collapsed(), before + 1);
    EXPECT_TRUE(hz_huge_is_asked(&units_, 0));
    EXPECT_FALSE(hz_huge_is_asked(&units_, 1));
    EXPECT_EQ(advice_at(base_), "hg");
    EXPECT_EQ(huge_kb_at(base_), HZ_HUGE_BYTES / 1024);
    EXPECT_TRUE(is_intact());
    EXPECT_FALSE(hz_huge_collapse_begin(&units_, 0)) << "once";
    hz_huge_refuse_parts(&units_, base_, 4096, 4096);
    EXPECT_EQ(advice_at(base_), "nh") << "as any unit that was asked for";
    EXPECT_FALSE(hz_huge_collapse_begin(&units_, 0)) << "not after a part went back";
}

TEST_F(HugeCollapse, ACancelledAttemptLeavesNothing) {
    ASSERT_TRUE(hz_huge_collapse_begin(&units_, 1));
    hz_huge_collapse_cancel(&units_, 1);
    EXPECT_EQ(hz_load_rlx(&units_), 0);
    EXPECT_EQ(hz_huge_refuse_parts(&units_, base_, HZ_HUGE_BYTES, 4096), 0U) << "nothing to refuse";
}

/* The library refuses the unit before the part goes back, so the kernel cannot make the part resident again. */
TEST_F(HugeCollapse, APartThatGoesBackMeanwhileStaysAway) {
    size_t before = collapsed();
    ASSERT_TRUE(hz_huge_collapse_begin(&units_, 0));
    EXPECT_NE(hz_huge_refuse_parts(&units_, base_, 0, MiB), 0U);
    EXPECT_TRUE(hz_os_purge(base_, MiB));
    EXPECT_FALSE(hz_huge_collapse(&units_, base_, 0));
    EXPECT_EQ(collapsed(), before);
    EXPECT_EQ(resident_bytes(base_, HZ_HUGE_BYTES), MiB);
    EXPECT_EQ(advice_at(base_), "nh");
    EXPECT_TRUE(hz_huge_collapse_is_wanted(dense_bytes)) << "the kernel can collapse: it was only told not to";
}

/* The kernel has nothing to collapse then, and says so as it would if it could not. */
TEST_F(HugeCollapse, AUnitThatGoesBackAsAWholeMeanwhileIsNoFailure) {
    ASSERT_TRUE(hz_huge_collapse_begin(&units_, 0));
    EXPECT_EQ(hz_huge_refuse_parts(&units_, base_, 0, HZ_HUGE_BYTES), 0U);
    EXPECT_EQ(hz_load_rlx(&units_), 0);
    EXPECT_TRUE(hz_os_purge(base_, HZ_HUGE_BYTES));
    EXPECT_FALSE(hz_huge_collapse(&units_, base_, 0));
    EXPECT_EQ(resident_bytes(base_, HZ_HUGE_BYTES), 0U);
    EXPECT_TRUE(hz_huge_collapse_is_wanted(dense_bytes));
}

TEST_F(HugeCollapse, AKernelThatHasCollapsedCan) {
    if (!kernel_can())
        GTEST_SKIP() << "the kernel does not collapse";
    ASSERT_TRUE(hz_huge_collapse_begin(&units_, 0));
    EXPECT_TRUE(hz_huge_collapse(&units_, base_, 0));
    EXPECT_TRUE(hz_os_purge(base_ + HZ_HUGE_BYTES, HZ_HUGE_BYTES));
    ASSERT_TRUE(hz_huge_collapse_begin(&units_, 1));
    EXPECT_FALSE(hz_huge_collapse(&units_, base_, 1)) << "the unit holds nothing";
    uint64_t begin = hz_os_now_ms();
    while (!hz_huge_collapse_is_wanted(dense_bytes) && hz_os_now_ms() < begin + 10000) {
    }
    EXPECT_LT(hz_os_now_ms(), begin + 10000) << "only this unit could not be collapsed";
}

TEST_F(HugeCollapse, RestsForNineteenTimesAsLong) {
    uint64_t before = hz_os_now_ms();
    hz_huge_collapse_rest(10000);
    bool is_wanted = hz_huge_collapse_is_wanted(dense_bytes);
    EXPECT_FALSE(is_wanted && hz_os_now_ms() < before + 190);
    while (hz_os_now_ms() <= before + 200) {
    }
    EXPECT_TRUE(hz_huge_collapse_is_wanted(dense_bytes));
}

TEST_F(Huge, APartThatGoesBackRefusesItsUnitOnly) {
    hz_huge_dense_set(dense_bytes);
    size_t first = unit_take();
    size_t other = unit_take();
    size_t refused = figures().refused;
    give(first + 3);
    other--;
    hz_arena_purge(0, SIZE_MAX);
    EXPECT_EQ(advice(first), "nh");
    EXPECT_EQ(advice(other), "hg");
    EXPECT_EQ(figures().refused, refused + 1);
    give(first + 5);
    hz_arena_purge(0, SIZE_MAX);
    EXPECT_EQ(figures().refused, refused + 1) << "the kernel is told once";
}

/* The first run in a unit makes all of it resident, and a purge of what rests does not look at pages never used. */
TEST_F(Huge, APartThatGoesBackTakesTheUnusedPagesAlong) {
    hz_huge_dense_set(dense_bytes);
    take();
    while (runs_.back().first % unit_pages != 0)
        take();
    const char *start = unit::page_address(runs_.back().segment, runs_.back().first);
    take();
    if (resident_bytes(start, HZ_HUGE_BYTES) != HZ_HUGE_BYTES)
        GTEST_SKIP() << "the kernel gave no huge page";
    give(runs_.size() - 1);
    hz_arena_purge(0, SIZE_MAX);
    EXPECT_EQ(resident_bytes(start, HZ_HUGE_BYTES), unit::page_bytes);
}

TEST_F(Huge, AWholeUnitGoesBackAsItIs) {
    hz_huge_dense_set(dense_bytes);
    EXPECT_EQ(advice_at(unit_give_back()), "hg");
}

TEST_F(Huge, AUnitThatWasAskedForIsRefusedWhenTheHeapIsNoLongerDense) {
    hz_huge_dense_set(dense_bytes);
    const char *start = unit_give_back();
    ASSERT_EQ(advice_at(start), "hg");
    hz_huge_dense_set(0);
    while (advice_at(start) == "hg" && runs_.size() < 64 * unit_pages)
        unit_take();
    EXPECT_EQ(advice_at(start), "nh");
}

/* All large blocks with huge pages together may hold a quarter of the dense bytes. */
TEST_F(Huge, LargeBlocksShareAQuota) {
    constexpr size_t block_bytes = 100 * MiB + 4096;
    hz_huge_dense_set(880 * MiB);
    auto alloc = [] { return hz_arena_direct_alloc(block_bytes, 1, false); };
    auto advice_of = [](struct hz_segment *segment) { return advice_at(unit::page_address(segment, 0)); };
    struct hz_segment *blocks[] = {alloc(), alloc(), alloc()};
    EXPECT_EQ(advice_of(blocks[0]), "hg");
    EXPECT_EQ(advice_of(blocks[1]), "hg");
    EXPECT_EQ(advice_of(blocks[2]), "");
    hz_arena_direct_free(blocks[1]);
    blocks[1] = alloc();
    EXPECT_EQ(advice_of(blocks[1]), "hg") << "a block that ends gives its share back";

    ASSERT_NE(hz_arena_direct_resize(blocks[0], 300 * MiB, true), nullptr);
    EXPECT_EQ(advice_of(blocks[0]), "nh") << "too long for the quota";
    ASSERT_NE(hz_arena_direct_resize(blocks[2], 110 * MiB, true), nullptr);
    EXPECT_EQ(advice_of(blocks[2]), "hg") << "the other block's share is free";
    for (struct hz_segment *block : blocks)
        hz_arena_direct_free(block);
}

/* A block that fits a region is mapped alone for the sake of huge pages, unless memory can be reused, now or soon. */
TEST_F(Huge, BlocksThatWouldNeedNewMemoryAreMappedAlone) {
    hz_huge_dense_set(880 * MiB);
    char *base = static_cast<char *>(hz_os_map(4 * MiB, 4 * MiB, true));
    ASSERT_TRUE(hz_huge_block_begin(base, 4 * MiB));
    hz_huge_block_end(4 * MiB); /* now this is the last that has ended, whatever other tests did */
    hz_os_unmap(base, 4 * MiB);
    auto advice_of_new = [](size_t bytes) {
        struct hz_segment *block = hz_arena_direct_alloc(bytes, 1, false);
        auto *start = static_cast<char *>(unit::page_address(block, 0));
        start[0] = 1;
        std::string advice = advice_at(start);
        hz_arena_direct_free(block);
        return advice;
    };
    EXPECT_EQ(advice_of_new(32 * MiB), "hg");
    EXPECT_NE(advice_of_new(32 * MiB), "hg") << "as large a block has just ended: a loop";
    EXPECT_NE(advice_of_new(12 * MiB), "hg") << "as much rests";
    hz_arena_purge(0, SIZE_MAX);
    EXPECT_EQ(advice_of_new(40 * MiB), "hg");
    EXPECT_NE(advice_of_new(3 * MiB), "hg") << "short blocks get none";
}

TEST_F(Huge, ARefusedUnitIsAskedForAgainWhenItIsNew) {
    hz_huge_dense_set(dense_bytes);
    size_t first = unit_take();
    char *start = unit::page_address(runs_[first].segment, runs_[first].first);
    give(first);
    hz_arena_purge(0, SIZE_MAX);
    ASSERT_EQ(advice_at(start), "nh");
    for (unsigned page = 1; page < unit_pages; page++)
        give(first);
    hz_arena_purge(0, SIZE_MAX);
    ASSERT_EQ(advice_at(start), "nh");
    while (advice_at(start) == "nh" && runs_.size() < 64 * unit_pages)
        unit_take();
    EXPECT_EQ(advice_at(start), "hg");
}

TEST_F(Huge, WhereAllGetHugePagesUnitsNobodyAskedForAreRefusedToo) {
    char *base = static_cast<char *>(hz_os_map(HZ_SEGMENT_BYTES, HZ_SEGMENT_BYTES, false));
    ASSERT_NE(base, nullptr);
    hz_huge_units units = {0};
    EXPECT_EQ(hz_huge_refuse_parts(&units, base, 4096, 4096), 0U);
    EXPECT_EQ(advice_at(base), "") << "madvise: nothing to refuse";
    say("[always] madvise never");
    uint64_t pages = (uint64_t{1} << unit_pages) - 1;
    EXPECT_EQ(hz_huge_refuse_parts(&units, base, 4096, 4096), pages) << "the kernel may have filled all of them";
    EXPECT_EQ(advice_at(base), "nh");
    EXPECT_EQ(hz_huge_refuse_parts(&units, base, 4096, 4096), 0U) << "once";
    EXPECT_EQ(advice_at(base + 2 * MiB), "");
    hz_huge_forget(&units);
    EXPECT_TRUE(hz_os_unmap(base, HZ_SEGMENT_BYTES));
}

/* A part in the middle, at both ends, and across the border of two units. */
TEST_F(Huge, TheUnitsOfARangeThatItCoversInPart) {
    char *base = static_cast<char *>(hz_os_map(HZ_SEGMENT_BYTES, HZ_SEGMENT_BYTES, false));
    ASSERT_NE(base, nullptr);
    const struct {
        size_t offset, bytes;
        bool first, second;
    } cases[] = {
        {4096, 4096, true, false},        {0, MiB, true, false},
        {MiB, MiB, true, false},          {0, 2 * MiB, false, false},
        {2 * MiB, 2 * MiB, false, false}, {0, 4 * MiB, false, false},
        {MiB, 2 * MiB, true, true},       {0, 3 * MiB, false, true},
        {MiB, 3 * MiB, true, false},      {3 * MiB, MiB, false, true},
    };
    for (const auto &each : cases) {
        hz_huge_units units = {0};
        for (unsigned index : {0U, 1U})
            hz_huge_ask(&units, base, index, base + index * size_t{HZ_HUGE_BYTES});
        hz_huge_refuse_parts(&units, base, each.offset, each.bytes);

        EXPECT_EQ(advice_at(base), each.first ? "nh" : "hg");
        EXPECT_EQ(advice_at(base + 2 * MiB), each.second ? "nh" : "hg");
        hz_huge_forget(&units);
    }
    EXPECT_TRUE(hz_os_unmap(base, HZ_SEGMENT_BYTES));
}

} // namespace
