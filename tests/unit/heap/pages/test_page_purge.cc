/* A page with live blocks gives back the system pages on which it has none. */
#include "unit/heap/fixture.h"

#include <algorithm>
#include <map>
#include <sys/mman.h>

namespace {

using unit::Blocks;

size_t os_page() {
    return hz_os_page_bytes();
}

bool is_resident(const char *address) {
    unsigned char seen = 0;
    if (mincore(const_cast<char *>(address), os_page(), &seen) != 0)
        abort();
    return (seen & 1) != 0;
}

size_t run_bytes(struct hz_page *page) {
    return size_t{hz_load_rlx(&page->run_pages)} * unit::page_bytes;
}

/* The blocks by the pages that they lie in, each page's in the order of their addresses. */
std::map<struct hz_page *, Blocks> by_page(Blocks blocks) {
    std::map<struct hz_page *, Blocks> pages;
    std::sort(blocks.begin(), blocks.end());
    for (void *block : blocks)
        pages[hz_page_of(block)].push_back(block);
    return pages;
}

/* The units of a page that one of its live blocks touches. Block by block, unlike the library. */
uint64_t units_of(struct hz_page *page, const Blocks &live) {
    uint64_t units = 0;
    for (void *block : live)
        if (hz_page_of(block) == page) {
            size_t first = static_cast<size_t>(static_cast<char *>(block) - page->start);
            for (size_t offset = first; offset < first + page->block_bytes; offset++)
                units |= uint64_t{1} << (offset >> hz_page_unit_log2(page));
        }
    return units;
}

/* The two ways to call for a purge that finds everything: pages must rest for one look, or need not. */
class PagePurge : public unit::OwnShard, public testing::WithParamInterface<enum hz_page_purge_mode> {
  protected:
    /* The program uses all blocks of some pages, and knows what it wrote into each. */
    Blocks use(unsigned size_class, uint32_t pages) {
        Blocks blocks = unit::take(shard_, size_class, 1);
        uint32_t capacity = hz_page_of(blocks[0])->capacity;
        Blocks more = unit::take(shard_, size_class, pages * capacity - 1);
        blocks.insert(blocks.end(), more.begin(), more.end());
        for (void *block : blocks)
            write(block);
        return blocks;
    }
    static void write(void *block) {
        support::fill(block, hz_page_of(block)->block_bytes, reinterpret_cast<uintptr_t>(block));
    }
    static bool is_intact(void *block) {
        return support::holds(block, hz_page_of(block)->block_bytes, reinterpret_cast<uintptr_t>(block));
    }
    void walk(enum hz_page_purge_mode mode) {
        uint32_t next = 0;
        EXPECT_TRUE(hz_pages_purge(self_, mode, &next, UINT32_MAX, UINT32_MAX));
        EXPECT_EQ(next, 0U);
    }
    void purge() {
        if (GetParam() == HZ_PURGE_AGED)
            walk(HZ_PURGE_AGED); /* sees the pages as they are */
        walk(GetParam());
    }
    /* System pages with live blocks hold them, and no other system page of the run is there. */
    static void check(struct hz_page *page, const Blocks &live) {
        uint64_t units = units_of(page, live);
        for (size_t offset = 0; offset < run_bytes(page); offset += os_page())
            EXPECT_EQ(is_resident(page->start + offset), (units >> (offset >> hz_page_unit_log2(page)) & 1) != 0)
                << "offset " << offset;
        for (void *block : live)
            EXPECT_TRUE(hz_page_of(block) != page || is_intact(block));
    }
    /* Keeps some blocks of each page and puts the others home. Which: the first and the last, which are neighbours in
       the ring of bits; a few in a row; and some here and there. */
    Blocks put_most(const Blocks &blocks) {
        support::Random random(blocks.size());
        Blocks live;
        Blocks others;
        unsigned kind = 0;
        for (auto &[page, of_page] : by_page(blocks)) {
            size_t count = of_page.size();
            std::vector<bool> stays(count);
            if (kind == 0)
                stays[0] = stays[count - 1] = true;
            else if (kind == 1)
                std::fill_n(stays.begin() + static_cast<ptrdiff_t>(count / 3), std::min<size_t>(count / 3, 70), true);
            else
                for (int i = 0; i < 5; i++)
                    stays[random.below(count)] = true;
            for (size_t i = 0; i < count; i++)
                (stays[i] ? live : others).push_back(of_page[i]);
            kind++;
        }
        unit::put(shard_, others);
        return live;
    }
    size_t purged_bytes() {
        return hz_load_rlx(&shard_->purged_bytes);
    }
    size_t free_bytes() {
        return hz_load_rlx(&shard_->free_bytes);
    }
};

INSTANTIATE_TEST_SUITE_P(Modes, PagePurge, testing::Values(HZ_PURGE_AGED, HZ_PURGE_RECENT), [](const auto &mode) {
    return mode.param == HZ_PURGE_AGED ? std::string("aged") : std::string("recent");
});

TEST_P(PagePurge, LeavesWhatLiveBlocksLieOn) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        Blocks blocks = use(size_class, 4);
        Blocks live = put_most(blocks);
        purge();
        for (auto &each : by_page(live))
            check(each.first, live);
        unit::put(shard_, live);
        unit::retire_all(shard_);
    }
}

/* A block a system page: an eighth of the pages is free. */
TEST_P(PagePurge, AHugePageIsBrokenUpForLittleOnlyByATrim) {
    if (os_page() > 4096)
        GTEST_SKIP() << "one system page is more than an eighth";
    unsigned size_class = hz_class_of(os_page());
    Blocks blocks = use(size_class, 1);
    struct hz_page *page = hz_page_of(blocks[0]);
    struct hz_segment *segment = hz_segment_get(page->start);
    unsigned unit = hz_segment_page(page->start) / (HZ_HUGE_BYTES / HZ_PAGE_BYTES);
    hz_or_rlx(&segment->huge, static_cast<uint8_t>(1U << unit)); /* as if it had been asked for */
    Blocks some;
    for (size_t i = 0; i < page->capacity; i += 8) {
        void *block = page->start + i * page->block_bytes;
        some.push_back(block);
        blocks.erase(std::find(blocks.begin(), blocks.end(), block));
    }
    unit::put(shard_, some);
    for (int look = 0; look < 3; look++)
        purge();
    EXPECT_EQ(purged_bytes(), 0U);
    EXPECT_TRUE(hz_huge_is_asked(&segment->huge, unit));
    hz_pages_purge_all(self_, true);
    EXPECT_EQ(purged_bytes(), some.size() * page->block_bytes);
    EXPECT_FALSE(hz_huge_is_asked(&segment->huge, unit));
    check(page, blocks);
    unit::put(shard_, blocks);
}

TEST_P(PagePurge, PurgedBlocksAreZeroAndWorkAgain) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        Blocks blocks = use(size_class, 4);
        size_t pages = unit::pages_of(shard_);
        Blocks live = put_most(blocks);
        purge();
        Blocks again = unit::take(shard_, size_class, static_cast<uint32_t>(blocks.size() - live.size()));
        ASSERT_EQ(unit::pages_of(shard_), pages) << "they come from the same pages";
        size_t zeros = 0;
        for (void *block : again) {
            struct hz_page *page = hz_page_of(block);
            if ((units_of(page, {block}) & units_of(page, live)) == 0) {
                EXPECT_TRUE(support::is_zero(block, page->block_bytes));
                zeros++;
            }
            write(block);
        }
        EXPECT_GT(zeros, 0U);
        for (const Blocks &all : {live, again})
            for (void *block : all)
                EXPECT_TRUE(is_intact(block));
        purge();
        for (const Blocks &all : {live, again})
            for (void *block : all)
                EXPECT_TRUE(is_intact(block)) << "what was carved anew is not taken for purged";
        unit::put(shard_, live);
        unit::put(shard_, again);
        unit::retire_all(shard_);
    }
}

/* What is hollow: units without memory. What is purged: those bytes of them that belong to blocks. */
TEST_P(PagePurge, FiguresComeBackToWhatTheyWere) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        hz_arena_purge(0, SIZE_MAX); /* so that the arena's pages are clean, and pages made of them hollow */
        size_t hollow = unit::figures().hollow_bytes;
        ASSERT_EQ(purged_bytes(), 0U);
        ASSERT_EQ(free_bytes(), 0U);
        Blocks blocks = use(size_class, 4);
        size_t behind = unit::figures().hollow_bytes - hollow; /* units that have no block */
        EXPECT_EQ(purged_bytes(), 0U) << "each block was carved";
        Blocks live = put_most(blocks);
        size_t unused = (blocks.size() - live.size()) * hz_class_bytes(size_class);
        ASSERT_EQ(free_bytes(), unused);
        size_t before = hz_arena_purged_bytes();
        purge();
        size_t gone = 0;
        size_t of_blocks = 0;
        for (auto &[page, of_page] : by_page(blocks)) {
            uint64_t units = units_of(page, live);
            for (size_t offset = 0; offset < run_bytes(page); offset++)
                if ((units >> (offset >> hz_page_unit_log2(page)) & 1) == 0) {
                    gone++;
                    of_blocks += offset < size_t{page->capacity} * page->block_bytes;
                }
        }
        EXPECT_EQ(unit::figures().hollow_bytes, hollow + gone);
        EXPECT_EQ(hz_arena_purged_bytes() - before, gone - behind);
        EXPECT_EQ(purged_bytes(), of_blocks);
        EXPECT_EQ(free_bytes(), unused - of_blocks) << "the slack is what free blocks hold";
        Blocks again = unit::take(shard_, size_class, static_cast<uint32_t>(blocks.size() - live.size()));
        EXPECT_EQ(unit::figures().hollow_bytes, hollow + behind);
        EXPECT_EQ(purged_bytes(), 0U) << "each block was carved again";
        EXPECT_EQ(free_bytes(), 0U);
        unit::put(shard_, again);
        purge();
        EXPECT_EQ(purged_bytes(), of_blocks);
        unit::put(shard_, live);
        unit::retire_all(shard_);
        EXPECT_EQ(unit::figures().hollow_bytes, hollow);
        EXPECT_EQ(purged_bytes(), 0U);
        EXPECT_EQ(free_bytes(), 0U);
    }
}

/* A block on several system pages keeps them all; with the last block of a system page, it goes too. */
TEST_P(PagePurge, WhatComesHomeLaterGoesLater) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        Blocks live = put_most(use(size_class, 3));
        purge();
        auto pages = by_page(live);
        while (live.size() > pages.size()) { /* one block stays in each page */
            void *block = live.back();
            live.pop_back();
            if (std::none_of(live.begin(), live.end(), [&](void *o) { return hz_page_of(o) == hz_page_of(block); })) {
                live.insert(live.begin(), block);
                continue;
            }
            unit::put(shard_, {block});
            purge();
            check(hz_page_of(block), live);
        }
        unit::put(shard_, live);
        unit::retire_all(shard_);
    }
}

/* The page that a class keeps for its next allocation. */
TEST_P(PagePurge, APageWhoseBlocksAreAllHomeIsRetired) {
    Blocks blocks = use(5, 1);
    unit::put(shard_, blocks);
    ASSERT_EQ(unit::pages_of(shard_), 1U);
    purge();
    EXPECT_EQ(unit::pages_of(shard_), 0U);
}

TEST_P(PagePurge, OnlyAnAgedPageHasToRest) {
    Blocks live = put_most(use(5, 1));
    size_t before = hz_arena_purged_bytes();
    walk(GetParam());
    EXPECT_EQ(hz_arena_purged_bytes() > before, GetParam() == HZ_PURGE_RECENT);
    before = hz_arena_purged_bytes();
    unit::put(shard_, {live.back()});
    live.pop_back();
    void *again = unit::take(shard_, 5, 1)[0];
    write(again);
    live.push_back(again);
    walk(GetParam());
    EXPECT_TRUE(GetParam() == HZ_PURGE_RECENT || hz_arena_purged_bytes() == before)
        << "it has changed, though it has as many free blocks as before";
    walk(GetParam());
    check(hz_page_of(again), live);
    before = hz_arena_purged_bytes();
    walk(GetParam());
    walk(GetParam());
    EXPECT_EQ(hz_arena_purged_bytes(), before) << "nothing is purged twice";
    uint64_t locks = self_->counters.ls_rel_steal;
    walk(GetParam());
    EXPECT_EQ(self_->counters.ls_rel_steal, locks) << "a page that has not changed since costs no lock";
    unit::put(shard_, live);
}

/* A call looks at a few segments and makes a few calls of the OS; the next one goes on behind it. */
TEST_P(PagePurge, GoesOnWhereItStopped) {
    constexpr size_t pages = 200;
    unsigned size_class = hz_class_of(1024);
    Blocks live;
    Blocks others;
    for (auto &each : by_page(use(size_class, pages)))
        for (void *block : each.second) /* every other system page has a live block */
            (reinterpret_cast<uintptr_t>(block) % (2 * os_page()) == 0 ? live : others).push_back(block);
    unit::put(shard_, others);
    if (GetParam() == HZ_PURGE_AGED)
        walk(HZ_PURGE_AGED);
    uint32_t next = 0;
    unsigned calls = 0;
    size_t before = hz_arena_purged_bytes();
    bool done = false;
    while (!done && calls < pages * unit::page_bytes / os_page()) {
        size_t seen = hz_arena_purged_bytes();
        uint32_t from = next;
        done = hz_pages_purge(self_, GetParam(), &next, 1, 10);
        EXPECT_LE(hz_arena_purged_bytes() - seen, (10U + unit::page_bytes / os_page()) * os_page());
        EXPECT_LE(next, from + 1);
        calls++;
    }
    EXPECT_TRUE(done);
    EXPECT_EQ(next, 0U);
    EXPECT_EQ(hz_arena_purged_bytes() - before, pages * unit::page_bytes / 2);
    for (uint32_t segment = 1; segment < hz_arena_segment_count(); segment++) {
        EXPECT_FALSE(hz_pages_purge(self_, GetParam(), &next, 1, UINT32_MAX));
        EXPECT_EQ(next, segment);
    }
    EXPECT_TRUE(hz_pages_purge(self_, GetParam(), &next, 1, UINT32_MAX));
    for (auto &each : by_page(live))
        check(each.first, live);
    unit::put(shard_, live);
}

/* Units without memory are told for each block that is carved, and zeroing leaves them alone. */
TEST_P(PagePurge, AZeroedBlockTouchesOnlyWhatHasMemory) {
    uint64_t seen = 0;
    for (unsigned size_class : unit::some_short_and_long_classes()) {
        if (hz_class_bytes(size_class) < 1000)
            continue; /* thousands of blocks, each compared with all others */
        SCOPED_TRACE("class " + std::to_string(size_class));
        Blocks blocks = use(size_class, 4);
        Blocks live = put_most(blocks);
        purge();
        Blocks again;
        for (size_t left = blocks.size() - live.size(); left > 0; left--) {
            void *carved = nullptr;
            uint64_t fresh = 0;
            uint64_t before = 0;
            {
                unit::Exclusive exclusive(shard_);
                if (unit::partial(shard_, size_class) == nullptr) { /* pages of long blocks go when all are home */
                    ASSERT_TRUE(hz_page_create_locked(shard_, size_class));
                }
                before = hz_load_rlx(&unit::partial(shard_, size_class)->purged_units);
                ASSERT_EQ(hz_pages_carve_locked(shard_, size_class, &carved, 1, &fresh), 1U);
            }
            auto *block = static_cast<char *>(carved);
            struct hz_page *page = hz_page_of(block);
            EXPECT_EQ(fresh, before & units_of(page, {block}));
            seen |= fresh;
            EXPECT_EQ(fresh & units_of(page, live), 0U);
            EXPECT_EQ(fresh & units_of(page, again), 0U);
            hz_page_block_zero(block, page->block_bytes, fresh);
            size_t unit_bytes = size_t{1} << hz_page_unit_log2(page);
            for (size_t offset = 0; offset < run_bytes(page); offset += unit_bytes)
                if ((fresh >> (offset / unit_bytes) & 1) != 0) {
                    EXPECT_FALSE(is_resident(page->start + offset));
                }
            EXPECT_TRUE(support::is_zero(block, page->block_bytes));
            write(block);
            again.push_back(block);
        }
        for (const Blocks &all : {live, again})
            for (void *block : all)
                EXPECT_TRUE(is_intact(block));
        unit::put(shard_, live);
        unit::put(shard_, again);
        unit::retire_all(shard_);
    }
    EXPECT_NE(seen, 0U) << "some blocks had no memory";
}

/* ---- through malloc, calloc and free ---- */

TEST(PagePurgeApi, CallocGivesZerosFromPagesThatWerePurgedInParts) {
    constexpr size_t count = 4000;
    for (size_t size : {size_t{48}, size_t{1000}, size_t{5000}}) {
        SCOPED_TRACE("size " + std::to_string(size));
        hz_purge();
        Blocks live;
        Blocks others;
        for (size_t i = 0; i < count; i++)
            (i % (16 * support::KiB / size) == 0 ? live : others).push_back(t_malloc(size));
        for (const Blocks &all : {live, others})
            for (void *block : all)
                support::fill(block, size, reinterpret_cast<uintptr_t>(block));
        size_t hollow = unit::figures().hollow_bytes;
        for (void *block : others)
            t_free(block);
        hz_purge();
        EXPECT_GT(unit::figures().hollow_bytes - hollow, count * size / 5);
        others.clear();
        while (others.size() < count) {
            others.push_back(t_calloc(1, size));
            ASSERT_TRUE(support::is_zero(others.back(), size));
            support::fill(others.back(), size, reinterpret_cast<uintptr_t>(others.back()));
        }
        for (const Blocks &all : {live, others})
            for (void *block : all) {
                ASSERT_TRUE(support::holds(block, size, reinterpret_cast<uintptr_t>(block)));
                t_free(block);
            }
        hz_purge();
        EXPECT_EQ(support::live_bytes(), 0U);
        EXPECT_EQ(unit::figures().hollow_bytes, 0U);
    }
}

} // namespace
