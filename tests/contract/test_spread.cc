/* Blocks above 8 KiB begin at different places of a system page, so that the same element of many of them does not
   fall into the same few cache sets; requests for an alignment get it all the same. */
#include "api.h"
#include "support.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace support;

constexpr size_t os_page = 4 * KiB;
constexpr size_t line = 64;

struct Way {
    const char *name;
    void *(*call)(size_t size);
    size_t starts_least; /* of 64 blocks; what realloc has grown keeps most of its slack, to grow again */
};

void *by_malloc(size_t size) {
    return t_malloc(size);
}

void *by_calloc(size_t size) {
    return t_calloc(1, size);
}

void *by_realloc(size_t size) {
    return t_realloc(t_malloc(100), size);
}

class Spread : public testing::TestWithParam<Way> {
  protected:
    struct Block {
        char *start;
        size_t usable;
    };
    void TearDown() override {
        free_all();
    }
    void make(size_t count, size_t size) {
        for (size_t i = 0; i < count; i++) {
            auto *start = static_cast<char *>(GetParam().call(size));
            ASSERT_NE(start, nullptr);
            ASSERT_TRUE(aligned_to(start, 16));
            blocks_.push_back({start, t_usable_size(start)});
            ASSERT_GE(blocks_.back().usable, size);
        }
    }
    void free_all() {
        for (const Block &block : blocks_)
            t_free(block.start);
        blocks_.clear();
    }
    size_t different_starts() const {
        std::set<uintptr_t> lines;
        for (const Block &block : blocks_)
            lines.insert(reinterpret_cast<uintptr_t>(block.start) % os_page / line);
        return lines.size();
    }
    std::vector<Block> blocks_;
};

/* Slack of half a system page is enough for half of the starts. */
TEST_P(Spread, BlocksOfOneSizeBeginOnDifferentLines) {
    if (HZ_TEST_SYSTEM || sanitized || t_config_has("fences=1"))
        GTEST_SKIP() << "other allocators and fences have their own ways";
    for (size_t size : {size_t{18500}, size_t{33000}, size_t{66000}, size_t{70000}, size_t{100000}, size_t{262148},
                        size_t{600000}, MiB + 5000, 2 * MiB - 2100, 5 * MiB + 2000}) {
        SCOPED_TRACE(size);
        make(64, size);
        EXPECT_GE(different_starts(), GetParam().starts_least);
        free_all();
        make(64, size); /* from bins, whose pointers are those that were freed */
        EXPECT_GE(different_starts(), GetParam().starts_least);
        free_all();
    }
}

/* The same, one by one: a bin has the block that was freed a moment before. */
TEST_P(Spread, StartsDifferAgainWhenBlocksAreReplaced) {
    if (HZ_TEST_SYSTEM || sanitized || t_config_has("fences=1"))
        GTEST_SKIP() << "other allocators and fences have their own ways";
    for (size_t full : {size_t{36864}, size_t{40960}, 64 * KiB, size_t{81920}, 256 * KiB}) {
        SCOPED_TRACE(full);
        make(128, full);
        std::vector<Block> old;
        old.swap(blocks_);
        for (const Block &block : old) {
            t_free(block.start);
            make(1, full - full / 17);
        }
        EXPECT_GE(different_starts(), GetParam().starts_least / 2);
        free_all();
    }
}

/* Blocks that a size without slack has had begin elsewhere again. */
TEST_P(Spread, StartsDifferAgainAfterSizesWithoutSlack) {
    if (HZ_TEST_SYSTEM || sanitized || t_config_has("fences=1"))
        GTEST_SKIP() << "other allocators and fences have their own ways";
    for (size_t full : {size_t{20480}, size_t{36864}, 64 * KiB, size_t{81920}, 256 * KiB, MiB}) {
        SCOPED_TRACE(full);
        for (unsigned round = 0; round < 3; round++) {
            make(64, full);
            free_all();
            make(64, full - full / 17);
            EXPECT_GE(different_starts(), GetParam().starts_least / 2);
            free_all();
        }
    }
}

TEST_P(Spread, AllThatIsUsableIsTheBlocksOwn) {
    for (size_t size : {64 * KiB + 1, size_t{66000}, size_t{131072}, size_t{262148}, size_t{1234567}, 2 * MiB,
                        2 * MiB + 1, size_t{3000000}, 9 * MiB - 5}) {
        SCOPED_TRACE(size);
        make(6, size);
        for (size_t i = 0; i < blocks_.size(); i++)
            fill(blocks_[i].start, blocks_[i].usable, i);
        for (size_t i = 0; i < blocks_.size(); i++)
            ASSERT_TRUE(holds(blocks_[i].start, blocks_[i].usable, i)) << i;
        free_all();
    }
}

/* The slack of a block is the system's, too: all that was asked for lies within what a block at its place would have.
 */
TEST_P(Spread, NoBlockIsLongerThanItsSizeNeeds) {
    if (HZ_TEST_SYSTEM || sanitized || t_config_has("fences=1"))
        GTEST_SKIP() << "other allocators and fences have their own ways";
    for (size_t size = 64 * KiB + 1; size < 4 * MiB; size += size / 7) {
        SCOPED_TRACE(size);
        make(4, size);
        for (const Block &block : blocks_)
            EXPECT_LE(block.usable, size + std::max(64 * KiB, size / 8));
        free_all();
    }
}

TEST_P(Spread, AnAlignedRequestGetsItsAlignmentFromWhatWasSpread) {
    for (size_t size : {size_t{66000}, size_t{262148}, size_t{1000000}, size_t{3000000}}) {
        SCOPED_TRACE(size);
        make(8, size);
        free_all();
        for (size_t alignment : {size_t{32}, line, 2 * line, size_t{1024}, os_page, 16 * os_page, MiB}) {
            SCOPED_TRACE(alignment);
            void *block = t_aligned_alloc(alignment, size);
            ASSERT_NE(block, nullptr);
            EXPECT_TRUE(aligned_to(block, alignment));
            fill(block, size, alignment);
            blocks_.push_back({static_cast<char *>(block), size});
        }
        for (size_t i = 0; i < blocks_.size(); i++)
            for (size_t j = 0; j < i; j++)
                ASSERT_TRUE(blocks_[i].start + size <= blocks_[j].start || blocks_[j].start + size <= blocks_[i].start);
        free_all();
    }
}

/* In place, by copying, and by moving pages, over all kinds of blocks. */
TEST_P(Spread, ReallocKeepsTheContents) {
    Random random(15);
    for (unsigned round = 0; round < 40; round++) {
        size_t size = random.between(64 * KiB + 1, 6 * MiB);
        auto *block = static_cast<char *>(GetParam().call(size));
        ASSERT_NE(block, nullptr);
        fill(block, size, round);
        for (unsigned step = 0; step < 8; step++) {
            size_t wanted = random.between(0, 1) == 0 ? size + random.between(1, 5000) : random.between(1000, 12 * MiB);
            auto *moved = static_cast<char *>(t_realloc(block, wanted));
            ASSERT_NE(moved, nullptr);
            block = moved;
            ASSERT_TRUE(holds(block, std::min(size, wanted), round)) << size << " to " << wanted;
            ASSERT_GE(t_usable_size(block), wanted);
            size = wanted;
            fill(block, size, round);
        }
        t_free(block);
    }
}

TEST_P(Spread, CallocOfWhatWasUsedIsZero) {
    for (size_t size : {size_t{66000}, size_t{200000}, size_t{1500000}, size_t{5000000}}) {
        make(5, size);
        for (const Block &block : blocks_)
            memset(block.start, 0xa5, block.usable);
        free_all();
        for (size_t i = 0; i < 5; i++) {
            auto *block = static_cast<char *>(t_calloc(1, size));
            ASSERT_NE(block, nullptr);
            EXPECT_TRUE(std::all_of(block, block + size, [](char byte) { return byte == 0; })) << size;
            blocks_.push_back({block, size});
        }
        free_all();
    }
}

INSTANTIATE_TEST_SUITE_P(Ways, Spread,
                         testing::Values(Way{"malloc", by_malloc, 16}, Way{"calloc", by_calloc, 16},
                                         Way{"realloc", by_realloc, 6}),
                         [](const auto &way) { return std::string(way.param.name); });

} // namespace
