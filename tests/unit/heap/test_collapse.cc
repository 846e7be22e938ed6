/* Only units that are full of small blocks are collapsed into huge pages. */
#include "stress/children.h"
#include "unit/heap/fixture.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>

namespace {

using support::MiB;
using unit::Blocks;

constexpr size_t unit_bytes = HZ_HUGE_BYTES;
constexpr unsigned page_count = 3 * HZ_SEGMENT_PAGES; /* so that some units are the test's alone */
constexpr size_t dense_more = 1024 * MiB;

size_t resident_bytes(uintptr_t unit) {
    return hz_os_resident_bytes(reinterpret_cast<void *>(unit), unit_bytes);
}

uintptr_t unit_of(const void *block) {
    return reinterpret_cast<uintptr_t>(block) & ~(uintptr_t{unit_bytes} - 1);
}

bool kernel_collapses() {
    auto *range = static_cast<char *>(hz_os_map(unit_bytes, unit_bytes, false));
    if (range == nullptr)
        return false;
    memset(range, 1, unit_bytes);
    bool does = hz_os_collapse(range, unit_bytes) == 0;
    EXPECT_TRUE(hz_os_unmap(range, unit_bytes));
    return does;
}

class Collapse : public unit::OwnShard {
  protected:
    void SetUp() override {
        OwnShard::SetUp();
        if (!kernel_collapses())
            GTEST_SKIP() << "the kernel does not collapse";
        hz_heap_purge(); /* the units that other tests used become clean, that is, new */
    }
    void TearDown() override {
        unit::put(shard_, blocks_);
        OwnShard::TearDown();
        hz_heap_purge();
        units_forget();
        hz_huge_count_dense(-static_cast<ptrdiff_t>(is_dense_ ? dense_more : 0));
    }
    /* Otherwise the next test, in a heap that is not dense yet, would refuse the units that were asked for. */
    static void units_forget() {
        for (uint32_t index = 0; index < hz_arena_segment_count(); index++) {
            struct hz_segment *segment = hz_arena_segment(index);
            if (segment == nullptr || hz_load_rlx(&segment->kind) != HZ_SEGMENT_PAGED)
                continue;
            hz_huge_forget(&segment->huge);
            hz_os_huge(hz_segment_page_address(segment, 0), HZ_SEGMENT_BYTES);
        }
    }

    /* Takes all blocks of `pages` pages, and writes all of them. */
    void use(unsigned size_class, unsigned pages) {
        Blocks more = unit::take(shard_, size_class, 1);
        uint32_t capacity = hz_page_of(more[0])->capacity;
        for (void *block : unit::take(shard_, size_class, pages * capacity - 1))
            more.push_back(block);
        for (void *block : more)
            write(block);
        blocks_.insert(blocks_.end(), more.begin(), more.end());
    }
    static void write(void *block) {
        support::fill(block, hz_page_of(block)->block_bytes, reinterpret_cast<uintptr_t>(block));
    }
    bool are_intact() const {
        return std::all_of(blocks_.begin(), blocks_.end(), [](void *block) {
            return support::holds(block, hz_page_of(block)->block_bytes, reinterpret_cast<uintptr_t>(block));
        });
    }
    /* The heap counts as large and dense from now on. Call it after the pages are made, so that no unit is asked for.
     */
    void become_dense() {
        if (!is_dense_)
            hz_huge_count_dense(dense_more);
        is_dense_ = true;
    }
    /* Collapses all units that can be. Returns their number. */
    size_t collapse_all() {
        become_dense();
        size_t before = collapsed();
        auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        do {
            while (!hz_huge_collapse_is_wanted(hz_arena_runs_bytes()) && std::chrono::steady_clock::now() < end) {
            }
        } while (hz_collapse(self_) && std::chrono::steady_clock::now() < end);
        return collapsed() - before;
    }
    static size_t collapsed() {
        struct hz_huge_figures figures;
        hz_huge_figures_get(&figures);
        return figures.collapsed;
    }
    /* Puts all blocks home that begin in the same system page as `block`. */
    void put_neighbours(void *block) {
        size_t os_page = hz_os_page_bytes();
        uintptr_t at = reinterpret_cast<uintptr_t>(block) / os_page;
        auto is_near = [=](void *other) { return reinterpret_cast<uintptr_t>(other) / os_page == at; };
        auto first =
            std::stable_partition(blocks_.begin(), blocks_.end(), [=](void *other) { return !is_near(other); });
        unit::put(shard_, Blocks(first, blocks_.end()));
        blocks_.erase(first, blocks_.end());
    }
    /* The block at the start of each arena page. */
    Blocks one_of_each_page() const {
        Blocks ones;
        for (void *block : blocks_)
            if (hz_page_of(block)->start == block)
                ones.push_back(block);
        return ones;
    }

    Blocks blocks_;
    bool is_dense_ = false;
};

TEST_F(Collapse, AUnitFullOfSmallBlocksBecomesHuge) {
    use(hz_class_of(64), page_count);
    std::set<uintptr_t> held;
    for (void *block : blocks_)
        held.insert(unit_of(block));
    auto resident = [&held] {
        return std::accumulate(held.begin(), held.end(), size_t{0},
                               [](size_t sum, uintptr_t unit) { return sum + resident_bytes(unit); });
    };
    size_t before = resident();
    EXPECT_FALSE(hz_collapse(self_)) << "not while the heap is small";
    size_t units = collapse_all();
    EXPECT_GE(units, page_count / 32U - 1);
    EXPECT_LE(units, held.size());
    EXPECT_TRUE(are_intact());
    EXPECT_EQ(resident(), before) << "all that is huge was resident before";
    EXPECT_EQ(collapse_all(), 0U) << "once";
}

TEST_F(Collapse, APageWithAQuarterFreeKeepsItsUnitSmall) {
    use(hz_class_of(1024), page_count);
    Blocks free;
    Blocks live;
    for (void *block : blocks_) {
        const struct hz_page *page = hz_page_of(block);
        auto index = static_cast<size_t>(static_cast<char *>(block) - page->start) / page->block_bytes;
        (hz_segment_page(block) % 32 == 5 && index < page->capacity / 4 ? free : live).push_back(block);
    }
    unit::put(shard_, free);
    blocks_ = live;
    EXPECT_EQ(collapse_all(), 0U);
}

TEST_F(Collapse, ALongerBlockKeepsItsUnitSmall) {
    for (unsigned pages = 0; pages < page_count; pages += 16) {
        use(hz_class_of(64), 15);
        use(hz_class_of(8192), 1);
    }
    EXPECT_EQ(collapse_all(), 0U);
}

TEST_F(Collapse, WhatWentBackDoesNotComeAgain) {
    if (hz_os_page_bytes() == HZ_PAGE_BYTES)
        GTEST_SKIP() << "no part of a page can go back";
    unsigned size_class = hz_class_of(64);
    use(size_class, page_count);
    for (void *block : one_of_each_page())
        if (hz_segment_page(block) % 32 == 7)
            put_neighbours(block);
    hz_pages_purge_all(self_);
    size_t purged = hz_load_rlx(&shard_->purged_bytes);
    ASSERT_GT(purged, 0U);
    EXPECT_EQ(collapse_all(), 0U);
    EXPECT_EQ(hz_load_rlx(&shard_->purged_bytes), purged);

    for (void *block : unit::take(shard_, size_class, static_cast<uint32_t>(purged / 64))) {
        write(block);
        blocks_.push_back(block);
    }
    ASSERT_EQ(hz_load_rlx(&shard_->purged_bytes), 0U);
    EXPECT_GT(collapse_all(), 0U) << "the program uses it again";
    EXPECT_TRUE(are_intact());
}

/* A child may share the pages, and collapsing would copy them. */
TEST_F(Collapse, NotSoonAfterAFork) {
    use(hz_class_of(64), page_count);
    become_dense();
    children::expect_good_end(children::start([this] { return hz_collapse(self_) ? 1 : 0; }));
    EXPECT_FALSE(hz_collapse(self_));
}

} // namespace
