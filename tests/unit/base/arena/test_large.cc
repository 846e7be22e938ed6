/* Large blocks: runs of pages, and direct mappings. */
#include "stress/children.h"
#include "unit/base/fixture.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

namespace {

using children::require;
using support::KiB;
using support::MiB;

size_t run_bytes_max() {
    return unit::run_pages_max * unit::page_bytes;
}

size_t direct_count() {
    return unit::figures().direct_count;
}

size_t used_bytes() {
    return unit::figures().used_bytes + unit::figures().direct_bytes;
}

std::vector<size_t> sizes() {
    std::vector<size_t> all = {unit::page_bytes + 1, 100 * KiB, MiB, 3 * MiB, 20 * MiB + 1};
    for (size_t edge : {unit::page_bytes, 2 * unit::page_bytes, run_bytes_max(), unit::segment_bytes})
        support::push_edge(all, edge);
    return all;
}

class Large : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        ASSERT_TRUE(unit::base_init());
    }
    void SetUp() override {
        hz_arena_purge(0, SIZE_MAX); /* so that no mapping of an earlier test is reused */
        used_before_ = used_bytes();
        errno = EILSEQ;
    }
    void TearDown() override {
        EXPECT_EQ(errno, EILSEQ);
        EXPECT_EQ(used_bytes(), used_before_);
    }

  private:
    size_t used_before_ = 0;
};

TEST_F(Large, BlocksHoldWhatTheySay) {
    std::vector<char *> blocks;
    for (size_t size : sizes()) {
        auto *block = static_cast<char *>(hz_large_alloc(size, 1, false));
        ASSERT_NE(block, nullptr) << size;
        EXPECT_GE(hz_large_usable(block), size);
        EXPECT_EQ(hz_large_bytes(block), hz_large_bytes_for(size));
        EXPECT_EQ(hz_pagetag_class(block), static_cast<unsigned>(HZ_CLASS_LARGE));
        EXPECT_EQ(hz_load_rlx(&hz_pagetag_of(block)->bin), 0U) << "free must take the slow path";
        support::fill(block, hz_large_usable(block), blocks.size());
        blocks.push_back(block);
    }
    for (size_t i = 0; i < blocks.size(); i++) {
        EXPECT_TRUE(support::holds(blocks[i], hz_large_usable(blocks[i]), i));
        hz_large_free(blocks[i]);
        EXPECT_EQ(hz_pagetag_class(blocks[i]), static_cast<unsigned>(HZ_CLASS_NONE));
    }
}

TEST_F(Large, ZeroedAfterReuse) {
    for (size_t size : sizes()) {
        void *block = hz_large_alloc(size, 1, false);
        memset(block, 0xff, hz_large_usable(block));
        hz_large_free(block);
        for (size_t next : {size, size - 1, size / 2 + unit::page_bytes}) {
            block = hz_large_alloc(next, 1, true);
            ASSERT_TRUE(support::is_zero(block, next)) << next << " after " << size;
            memset(block, 0xff, hz_large_usable(block));
            hz_large_free(block);
        }
    }
}

TEST_F(Large, RunsComeFromSegmentsLargerBlocksAreMapped) {
    size_t before = direct_count();
    void *run = hz_large_alloc(run_bytes_max(), 1, false);
    EXPECT_EQ(direct_count(), before);
    void *mapping = hz_large_alloc(run_bytes_max() + 1, 1, false);
    EXPECT_EQ(direct_count(), before + 1);
    void *aligned = hz_large_alloc(1, 2 * run_bytes_max(), false);
    EXPECT_EQ(direct_count(), before + 2);
    for (void *block : {run, mapping, aligned})
        hz_large_free(block);
    EXPECT_EQ(direct_count(), before);
}

TEST_F(Large, Alignments) {
    for (size_t alignment = 1; alignment <= 1024 * MiB; alignment *= 2)
        for (size_t size : {size_t{1}, 70 * KiB, 5 * MiB}) {
            void *block = hz_large_alloc(size, alignment, true);
            ASSERT_NE(block, nullptr) << size << " at " << alignment;
            EXPECT_TRUE(support::aligned_to(block, alignment));
            EXPECT_GE(hz_large_usable(block), size);
            EXPECT_TRUE(support::is_zero(block, size));
            support::fill(block, size, 1);
            hz_large_free(block);
        }
}

TEST_F(Large, RefusesWhatCannotBe) {
    for (size_t size : {SIZE_MAX, static_cast<size_t>(PTRDIFF_MAX) + 1, static_cast<size_t>(PTRDIFF_MAX)})
        EXPECT_EQ(hz_large_alloc(size, 1, false), nullptr);
    EXPECT_EQ(hz_large_alloc(1, size_t{1} << 62, false), nullptr);
    EXPECT_EQ(hz_large_bytes_for(SIZE_MAX), 0U);
    EXPECT_EQ(hz_large_bytes_for(static_cast<size_t>(PTRDIFF_MAX) + 1), 0U);
    void *block = hz_large_alloc(5 * MiB, 1, false);
    EXPECT_EQ(hz_large_resize(block, SIZE_MAX, true), nullptr);
    EXPECT_EQ(hz_large_resize(block, size_t{1} << 60, true), nullptr);
    EXPECT_EQ(hz_large_usable(block), 5 * MiB);
    hz_large_free(block);
}

TEST_F(Large, RunShrinksAndGrowsInPlace) {
    auto *block = static_cast<char *>(hz_large_alloc(8 * unit::page_bytes, 1, false));
    support::fill(block, 8 * unit::page_bytes, 1);
    ASSERT_EQ(hz_large_resize(block, 3 * unit::page_bytes - 5, true), block);
    EXPECT_EQ(hz_large_usable(block), 3 * unit::page_bytes);
    ASSERT_EQ(hz_large_resize(block, 6 * unit::page_bytes, true), block) << "the pages behind it are free";
    EXPECT_EQ(hz_large_usable(block), 6 * unit::page_bytes);
    EXPECT_TRUE(support::holds(block, 3 * unit::page_bytes, 1));
    EXPECT_EQ(hz_large_resize(block, unit::page_bytes, true), nullptr) << "a size class serves this size";
    EXPECT_EQ(hz_large_resize(block, run_bytes_max() + 1, true), nullptr) << "a mapping serves this size";
    EXPECT_EQ(hz_large_usable(block), 6 * unit::page_bytes);
    hz_large_free(block);
}

TEST_F(Large, RunDoesNotGrowOverOthers) {
    std::vector<char *> blocks;
    for (unsigned i = 0; i < 3 * unit::segment_pages / 2; i++) {
        blocks.push_back(static_cast<char *>(hz_large_alloc(2 * unit::page_bytes, 1, false)));
        support::fill(blocks.back(), 2 * unit::page_bytes, i);
    }
    unsigned refused = 0;
    for (size_t i = 0; i < blocks.size(); i++) {
        void *resized = hz_large_resize(blocks[i], 3 * unit::page_bytes, true);
        refused += resized == nullptr;
        ASSERT_TRUE(resized == nullptr || resized == blocks[i]);
        if (resized != nullptr)
            memset(blocks[i] + 2 * unit::page_bytes, 0xee, unit::page_bytes);
        else
            ASSERT_EQ(hz_large_usable(blocks[i]), 2 * unit::page_bytes);
    }
    EXPECT_GT(refused, blocks.size() / 2);
    for (size_t i = 0; i < blocks.size(); i++) {
        EXPECT_TRUE(support::holds(blocks[i], 2 * unit::page_bytes, i));
        hz_large_free(blocks[i]);
    }
}

TEST_F(Large, MappingResizesInPlace) {
    auto *block = static_cast<char *>(hz_large_alloc(8 * MiB, 1, false));
    support::fill(block, 8 * MiB, 1);
    ASSERT_EQ(hz_large_resize(block, 5 * MiB + 1, true), block);
    EXPECT_EQ(hz_large_bytes(block), hz_large_bytes_for(5 * MiB + 1));
    EXPECT_TRUE(support::holds(block, 5 * MiB, 1));
    ASSERT_EQ(hz_large_resize(block, 5 * MiB + 2, true), block) << "the same pages";
    EXPECT_EQ(hz_large_resize(block, run_bytes_max(), true), nullptr) << "a run serves this size";
    EXPECT_TRUE(support::holds(block, 5 * MiB, 1));
    hz_large_free(block);
}

/* A block of a region that becomes too long for it, and one that is mapped alone already. */
TEST_F(Large, BlockMovesWhenItCannotGrow) {
    for (size_t size : {6 * MiB, 70 * MiB}) {
        auto *block = static_cast<char *>(hz_large_alloc(size, 1, false));
        support::fill(block, size, 1);
        /* a page right behind the block, unless something is mapped there already */
        void *blocker =
            mmap(block + size, hz_os_page_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        auto *moved = static_cast<char *>(hz_large_resize(block, size + 80 * MiB, true));
        ASSERT_NE(moved, nullptr);
        ASSERT_NE(moved, block);
        EXPECT_EQ(hz_large_usable(moved), size + 80 * MiB);
        EXPECT_TRUE(support::holds(moved, size, 1));
        memset(moved + size, 2, 80 * MiB);
        EXPECT_EQ(hz_pagetag_class(moved), static_cast<unsigned>(HZ_CLASS_LARGE));
        EXPECT_EQ(hz_pagetag_class(block), static_cast<unsigned>(HZ_CLASS_NONE));
        EXPECT_EQ(hz_segment_find(block), nullptr) << "nothing of ours is at the old address";
        hz_large_free(moved);
        if (blocker != MAP_FAILED)
            munmap(blocker, hz_os_page_bytes());
    }
    errno = EILSEQ;
}

TEST_F(Large, ThreadsKeepTheirContents) {
    std::atomic<bool> good{true};
    unit::together(4, [&](unsigned index) {
        support::Random random(index);
        for (unsigned i = 0; i < unit::rounds(400); i++) {
            size_t size = random.between(unit::page_bytes + 1, random.below(4) == 0 ? 5 * MiB : 400 * KiB);
            size_t mark = std::min(size - 1, 70 * KiB);
            bool zeroed = random.below(2) == 0;
            auto *block = static_cast<char *>(hz_large_alloc(size, 1, zeroed));
            good = good && (!zeroed || support::is_zero(block, size));
            support::fill(block, mark, i * 4 + index);
            block[size - 1] = 7;
            void *resized = hz_large_resize(block, size + random.below(200 * KiB), true);
            if (resized != nullptr)
                block = static_cast<char *>(resized);
            good = good && support::holds(block, mark, i * 4 + index) && block[size - 1] == 7;
            hz_large_free(block);
        }
    });
    EXPECT_TRUE(good);
}

/* A limit of the address space that a program sets after the start: the 8 GiB of page tags exceed it at once. */
TEST(LargeLimit, ALateLimitOfTheAddressSpaceLeavesAWorkingHeap) {
    if (support::sanitized)
        GTEST_SKIP() << "a sanitizer's shadow does not fit";
    children::expect_good_end(children::start([] {
        require(unit::base_init(), "the base starts");
        auto *early = static_cast<char *>(hz_large_alloc(3 * MiB, 1, false));
        struct rlimit limit = {1024 * MiB, 1024 * MiB};
        require(setrlimit(RLIMIT_AS, &limit) == 0, "the limit is set");
        std::vector<char *> blocks;
        while (auto *block = static_cast<char *>(hz_large_alloc(blocks.size() % 2 == 0 ? MiB : 3 * MiB, 1, false))) {
            require(hz_pagetag_class(block) == HZ_CLASS_LARGE, "the block has a tag");
            memset(block, 1, MiB);
            blocks.push_back(block);
        }
        require(blocks.size() > 370, "740 MiB can be had");
        for (char *block : blocks)
            hz_large_free(block);
        require(hz_pagetag_class(nullptr) == HZ_CLASS_NONE, "NULL can be looked up");
        for (unsigned bits = 0; bits < 47; bits++)
            require(hz_segment_find(reinterpret_cast<void *>(uintptr_t{1} << bits)) == nullptr, "no segment is there");
        require(hz_pagetag_class(early) == HZ_CLASS_LARGE, "older blocks keep their tags");
        hz_large_free(early);
        void *huge = hz_large_alloc(400 * MiB, 1, false);
        require(huge != nullptr, "what was freed makes room for another kind of block");
        hz_large_free(huge);
        void *other = mmap(nullptr, 300 * MiB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        require(other != MAP_FAILED, "the program can map something");
        return 0;
    }));
}

} // namespace
