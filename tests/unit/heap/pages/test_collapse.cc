/* Only units that are full of small blocks are collapsed into huge pages. */
#include "stress/children.h"
#include "unit/heap/pages/collapse_fixture.h"

#include <numeric>
#include <set>

namespace {

using unit::Blocks;
using unit::Collapse;
using unit::unit_bytes;

constexpr unsigned page_count = 3 * HZ_SEGMENT_PAGES; /* so that some units are the test's alone */

size_t resident_bytes(uintptr_t unit) {
    return hz_os_resident_bytes(reinterpret_cast<void *>(unit), unit_bytes);
}

uintptr_t unit_of(const void *block) {
    return reinterpret_cast<uintptr_t>(block) & ~(uintptr_t{unit_bytes} - 1);
}

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
    hz_pages_purge_all(self_, false);
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
