/* realloc and reallocarray: contents survive every change of size range; failures leave the block unchanged. */
#include "api.h"
#include "support.h"

#include <cerrno>
#include <gtest/gtest.h>

namespace {

using namespace support;

std::vector<size_t> range_sizes() {
    std::vector<size_t> sizes = sample_sizes();
    sizes.push_back(17 * MiB);
    return sizes;
}

TEST(Realloc, KeepsContentsFromEverySizeToEverySize) {
    for (size_t from : range_sizes()) {
        for (size_t to : range_sizes()) {
            if (sanitized && from + to > 8 * MiB)
                continue;
            void *block = t_malloc(from);
            ASSERT_NE(block, nullptr);
            fill(block, from, from ^ to);
            void *resized = t_realloc(block, to);
            ASSERT_NE(resized, nullptr) << from << " to " << to;
            EXPECT_TRUE(holds(resized, std::min(from, to), from ^ to)) << from << " to " << to;
            size_t usable = t_usable_size(resized);
            EXPECT_GE(usable, to);
            fill(resized, usable, to);
            EXPECT_TRUE(holds(resized, usable, to)) << from << " to " << to;
            t_free(resized);
        }
    }
}

/* One block grows in small steps through every size range and shrinks back. Each step also allocates a neighbour,
   so that the block cannot always grow in place. */
TEST(Realloc, GrowsAndShrinksStepwise) {
    std::vector<size_t> steps;
    for (size_t size = 1; size < 24 * MiB; size += 1 + size / 9)
        steps.push_back(size);
    std::vector<void *> neighbours;
    void *block = nullptr;
    size_t current = 0;
    auto resize = [&](size_t size) {
        void *resized = t_realloc(block, size);
        ASSERT_NE(resized, nullptr) << current << " to " << size;
        ASSERT_TRUE(holds(resized, std::min(current, size), 5)) << current << " to " << size;
        block = resized;
        current = size;
        fill(block, size, 5);
        neighbours.push_back(t_malloc(std::min(size, 64 * KiB)));
    };
    for (size_t size : steps)
        ASSERT_NO_FATAL_FAILURE(resize(size));
    std::reverse(steps.begin(), steps.end());
    for (size_t size : steps)
        ASSERT_NO_FATAL_FAILURE(resize(size));
    t_free(block);
    for (void *neighbour : neighbours)
        t_free(neighbour);
}

/* What shrinks gives memory back: a block that stays leaves at most an eighth unused, or less than a page of a run. */
TEST(Realloc, OfLongBlocksLeavesLittleUnused) {
    T_ONLY_OURS();
    const size_t sizes[] = {64 * KiB,  64 * KiB + 1, 70000,       100 * KiB, 128 * KiB, 150000,
                            300 * KiB, MiB,          MiB + 12345, 1900000,   2 * MiB,   2 * MiB + 1};
    for (bool zeroed : {false, true})
        for (size_t from : sizes)
            for (size_t to : sizes) {
                void *block = zeroed ? t_calloc(1, from) : t_malloc(from);
                ASSERT_NE(block, nullptr);
                fill(block, from, from ^ to);
                block = t_realloc(block, to);
                ASSERT_NE(block, nullptr);
                EXPECT_TRUE(holds(block, std::min(from, to), from ^ to)) << from << " to " << to;
                size_t usable = t_usable_size(block);
                ASSERT_GE(usable, to);
                if (to > 64 * KiB) {
                    EXPECT_LE(usable - to, std::max(usable / 8, 64 * KiB - 1)) << from << " to " << to;
                }
                if (t_table.free_sized_fn != nullptr)
                    t_free_sized(block, to);
                else
                    t_free(block);
            }
}

TEST(Realloc, RandomSizesAmongManyBlocks) {
    struct Slot {
        void *block = nullptr;
        size_t size = 0;
        uint64_t seed = 0;
    };
    std::vector<Slot> slots(200);
    Random random(42);
    for (int i = 0; i < 40000; i++) {
        Slot &slot = slots[random.below(slots.size())];
        size_t limit = size_t{1} << random.between(4, i % 64 == 0 ? 22 : 16);
        size_t size = random.between(1, limit);
        void *resized = t_realloc(slot.block, size);
        ASSERT_NE(resized, nullptr);
        ASSERT_TRUE(holds(resized, std::min(slot.size, size), slot.seed)) << slot.size << " to " << size;
        slot = {resized, size, random.next()};
        fill(resized, size, slot.seed);
    }
    for (Slot &slot : slots) {
        EXPECT_TRUE(slot.block == nullptr || holds(slot.block, slot.size, slot.seed));
        t_free(slot.block);
    }
}

TEST(Realloc, OfNullIsMalloc) {
    for (size_t size : sample_sizes()) {
        void *block = t_realloc(nullptr, size);
        ASSERT_NE(block, nullptr);
        EXPECT_GE(t_usable_size(block), size);
        fill(block, size, 1);
        EXPECT_TRUE(holds(block, size, 1));
        t_free(block);
    }
    void *empty = t_realloc(nullptr, 0);
    EXPECT_NE(empty, nullptr) << "realloc(NULL, 0) is malloc(0)";
    t_free(empty);
}

/* Resident memory shows that realloc(p, 0) really frees: otherwise 2 GB in total would stay. */
TEST(Realloc, ToZeroGivesTheMemoryBack) {
    if (sanitized)
        GTEST_SKIP() << "sanitizers keep freed memory";
    size_t before = resident_bytes();
    for (size_t size : {100 * KiB, 1 * MiB, 5 * MiB}) {
        for (size_t total = 0; total < 700 * MiB; total += size) {
            void *block = t_malloc(size);
            ASSERT_NE(block, nullptr);
            for (size_t at = 0; at < size; at += 4096)
                static_cast<char *>(block)[at] = 1;
            EXPECT_EQ(t_realloc(block, 0), nullptr);
        }
    }
    EXPECT_LT(resident_bytes(), before + 100 * MiB);
}

TEST(Realloc, FailureLeavesTheBlockUntouched) {
    for (size_t size : sample_sizes()) {
        void *block = t_malloc(size);
        ASSERT_NE(block, nullptr);
        fill(block, size, size);
        size_t usable = t_usable_size(block);
        for (size_t wanted : {SIZE_MAX, SIZE_MAX - 16, SIZE_MAX / 2 + 1, static_cast<size_t>(PTRDIFF_MAX),
                              static_cast<size_t>(PTRDIFF_MAX) - 8 * KiB, size_t{1} << 48}) {
            errno = 0;
            EXPECT_EQ(t_realloc(block, wanted), nullptr) << size << " to " << wanted;
            EXPECT_EQ(errno, ENOMEM) << size << " to " << wanted;
        }
        EXPECT_EQ(t_usable_size(block), usable);
        EXPECT_TRUE(holds(block, size, size)) << "a failed realloc changed a block of " << size;
        t_free(block);
    }
}

TEST(Realloc, ToTheSameSizeKeepsTheContents) {
    for (size_t size : sample_sizes()) {
        void *block = t_malloc(size);
        ASSERT_NE(block, nullptr);
        size_t usable = t_usable_size(block);
        fill(block, usable, 3);
        block = t_realloc(block, usable);
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(holds(block, usable, 3)) << size;
        t_free(block);
    }
}

TEST(Reallocarray, MultipliesAndKeepsContents) {
    void *block = t_reallocarray(nullptr, 100, 10);
    ASSERT_NE(block, nullptr);
    EXPECT_GE(t_usable_size(block), 1000U);
    fill(block, 1000, 9);
    block = t_reallocarray(block, 1000, 300);
    ASSERT_NE(block, nullptr);
    EXPECT_GE(t_usable_size(block), 300000U);
    EXPECT_TRUE(holds(block, 1000, 9));
    t_free(block);
}

TEST(Reallocarray, OverflowIsENOMEMAndLeavesTheBlockAlone) {
    struct Pair {
        size_t count, size;
    };
    void *block = t_malloc(1000);
    ASSERT_NE(block, nullptr);
    fill(block, 1000, 8);
    for (Pair pair :
         {Pair{SIZE_MAX, 2}, Pair{2, SIZE_MAX}, Pair{SIZE_MAX / 2 + 1, 2}, Pair{size_t{1} << 32, size_t{1} << 32},
          Pair{size_t{1} << 33, size_t{1} << 31}, Pair{SIZE_MAX, SIZE_MAX}}) {
        errno = 0;
        EXPECT_EQ(t_reallocarray(block, pair.count, pair.size), nullptr) << pair.count << " * " << pair.size;
        EXPECT_EQ(errno, ENOMEM) << pair.count << " * " << pair.size;
    }
    EXPECT_TRUE(holds(block, 1000, 8));
    t_free(block);
}

/*
 * A mapped block grows by mremap, which moves its pages instead of copying them, so the process never holds both the
 * old and the new block. Writing 5 to clear_refs resets the kernel's record of the highest resident size (proc(5)).
 */
TEST(Realloc, LargeBlocksGrowWithoutASecondCopy) {
    if (sanitized)
        GTEST_SKIP() << "sanitizers do not use mremap";
    void *block = t_malloc(96 * MiB);
    ASSERT_NE(block, nullptr);
    fill(block, 96 * MiB, 77);
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    bool reset = fd >= 0 && write(fd, "5", 1) == 1;
    close(fd);
    size_t before = resident_bytes();
    block = t_realloc(block, 160 * MiB);
    ASSERT_NE(block, nullptr);
    size_t peak = proc_bytes("/proc/self/status", "VmHWM:");
    EXPECT_TRUE(holds(block, 96 * MiB, 77));
    t_free(block);
    if (!reset)
        GTEST_SKIP() << "/proc/self/clear_refs cannot be written here";
    EXPECT_LT(peak, before + 48 * MiB);
}

TEST(Realloc, ShrinkingALargeBlockReturnsItsTail) {
    if (sanitized)
        GTEST_SKIP() << "sanitizers keep freed memory";
    void *block = t_malloc(128 * MiB);
    ASSERT_NE(block, nullptr);
    fill(block, 128 * MiB, 78);
    size_t before = resident_bytes();
    block = t_realloc(block, 5 * MiB);
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(holds(block, 5 * MiB, 78));
    t_give_back();
    EXPECT_LT(resident_bytes() + 100 * MiB, before);
    t_free(block);
}

} // namespace
