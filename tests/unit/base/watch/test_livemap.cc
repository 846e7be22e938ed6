/* The check build's map of live blocks. It is compiled in every build, so every build tests it. */
#include "unit/base/fixture.h"

#include <gtest/gtest.h>
#include <utility>
#include <vector>

namespace {

constexpr size_t step = HZ_GRANULE_BYTES;

/* Each test has a run of one page. */
class LiveMap : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        ASSERT_TRUE(unit::base_init());
    }
    void SetUp() override {
        ASSERT_TRUE(hz_arena_run_alloc(1, 1, &run_));
        page_ = unit::page_address(run_.segment, run_.first);
    }
    void TearDown() override {
        hz_arena_run_free(run_.segment, run_.first);
    }
    struct hz_run run_ = {};
    char *page_ = nullptr;
};

TEST_F(LiveMap, UnwatchedSegmentsPass) {
    /* must be the first test: nothing was added yet, so there is no map */
    EXPECT_EQ(hz_livemap_remove(page_), HZ_LIVEMAP_OK);
}

TEST_F(LiveMap, RemovesOnce) {
    hz_livemap_add(page_);
    EXPECT_EQ(hz_livemap_remove(page_), HZ_LIVEMAP_OK);
    EXPECT_EQ(hz_livemap_remove(page_), HZ_LIVEMAP_NOT_LIVE);
    hz_livemap_add(page_);
    EXPECT_EQ(hz_livemap_remove(page_), HZ_LIVEMAP_OK) << "a block can live again";
}

TEST_F(LiveMap, InteriorPointersAreNotLive) {
    hz_livemap_add(page_ + step);
    for (size_t offset = 0; offset <= 3 * step; offset++)
        if (offset != step) {
            EXPECT_EQ(hz_livemap_remove(page_ + offset), HZ_LIVEMAP_NOT_LIVE) << "offset " << offset;
        }
    EXPECT_EQ(hz_livemap_remove(page_ + step), HZ_LIVEMAP_OK);
}

TEST_F(LiveMap, StrangersAreForeign) {
    int on_stack = 0;
    EXPECT_EQ(hz_livemap_remove(&on_stack), HZ_LIVEMAP_FOREIGN);
    EXPECT_EQ(hz_livemap_remove(reinterpret_cast<void *>(uintptr_t{16})), HZ_LIVEMAP_FOREIGN);
    EXPECT_EQ(hz_livemap_remove(reinterpret_cast<void *>(UINTPTR_MAX)), HZ_LIVEMAP_FOREIGN);
}

TEST_F(LiveMap, EdgesOfTheSegmentHaveBits) {
    hz_livemap_add(page_ + step); /* from here on the map exists */
    char *base = unit::page_address(run_.segment, 0);
    for (char *block : {base, base + unit::segment_bytes - step}) {
        ASSERT_EQ(hz_livemap_remove(block), HZ_LIVEMAP_NOT_LIVE);
        hz_livemap_add(block);
        ASSERT_EQ(hz_livemap_remove(block), HZ_LIVEMAP_OK);
    }
    EXPECT_EQ(hz_livemap_remove(page_ + step), HZ_LIVEMAP_OK);
}

TEST_F(LiveMap, SealsAreRemovedByRanges) {
    constexpr unsigned blocks = 300; /* several words of the map */
    auto sealed = [&] {
        std::vector<unsigned> found;
        for (unsigned i = 0; i < blocks; i++)
            if (hz_livemap_is_sealed(page_ + i * step))
                found.push_back(i);
        return found;
    };
    EXPECT_TRUE(sealed().empty()) << "there may be no map yet";
    for (auto [first, count] : {std::pair{0U, 1U}, {63U, 1U}, {63U, 2U}, {64U, 64U}, {10U, 200U}, {0U, blocks}}) {
        std::vector<unsigned> rest;
        for (unsigned i = 0; i < blocks; i++) {
            hz_livemap_seal(page_ + i * step);
            if (i < first || i >= first + count)
                rest.push_back(i);
        }
        hz_livemap_unseal(page_ + first * step, count * step);
        EXPECT_EQ(sealed(), rest) << first << " and " << count;
    }
    hz_livemap_unseal(page_, blocks * step);
    EXPECT_EQ(hz_livemap_remove(page_), HZ_LIVEMAP_NOT_LIVE) << "a sealed block is not live";
    int on_stack = 0;
    EXPECT_FALSE(hz_livemap_is_sealed(&on_stack));
    hz_livemap_unseal(&on_stack, step);
}

TEST_F(LiveMap, NeighboursInOneWordDoNotDisturbEachOther) {
    constexpr unsigned threads = 4;
    std::atomic<unsigned> wrong{0};
    unit::together(threads, [&](unsigned index) {
        for (unsigned i = 0; i < unit::rounds(20000); i++) {
            char *block = page_ + step * (index + threads * (i % 16));
            hz_livemap_add(block);
            wrong += hz_livemap_remove(block) != HZ_LIVEMAP_OK;
            wrong += hz_livemap_remove(block) != HZ_LIVEMAP_NOT_LIVE;
        }
    });
    EXPECT_EQ(wrong, 0U);
}

} // namespace
