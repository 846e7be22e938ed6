/* Every size, class and alignment. The functions are pure, so the tests try all of them. */
#include "unit/library.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

namespace {

constexpr unsigned first_class = HZ_CLASS_NONE + 1;
constexpr unsigned class_count = HZ_CLASS_COUNT;
constexpr size_t largest = HZ_CLASS_BYTES_MAX;

TEST(SizeClass, EverySizeHasTheSmallestClassThatHoldsIt) {
    for (size_t size = 0; size <= largest; size++) {
        unsigned size_class = hz_class_of(size);
        ASSERT_GE(size_class, first_class) << "size " << size;
        ASSERT_LT(size_class, class_count) << "size " << size;
        ASSERT_GE(hz_class_bytes(size_class), size);
        if (size_class > first_class) {
            ASSERT_LT(hz_class_bytes(size_class - 1), size) << "a smaller class is enough";
        }
    }
}

TEST(SizeClass, ClassesRiseInGranules) {
    for (unsigned size_class = first_class; size_class < class_count; size_class++) {
        size_t bytes = hz_class_bytes(size_class);
        EXPECT_EQ(bytes % HZ_GRANULE_BYTES, 0U) << "class " << size_class;
        EXPECT_EQ(hz_class_of(bytes), size_class);
        if (size_class > first_class) {
            EXPECT_GT(bytes, hz_class_bytes(size_class - 1));
        }
    }
    EXPECT_EQ(hz_class_bytes(first_class), static_cast<size_t>(HZ_GRANULE_BYTES));
    EXPECT_EQ(hz_class_bytes(class_count - 1), largest);
    EXPECT_EQ(hz_class_bytes(HZ_LINEAR_CLASSES), static_cast<size_t>(HZ_LINEAR_MAX));
}

TEST(SizeClass, LinearClassesAreMultiplesOfSixteen) {
    for (size_t size = 1; size <= HZ_LINEAR_MAX; size++)
        ASSERT_EQ(hz_class_of(size), (size + 15) / 16);
    EXPECT_EQ(hz_class_of(0), first_class);
}

TEST(SizeClass, WasteIsBounded) {
    for (size_t size = 1; size <= largest; size++) {
        size_t bytes = hz_class_bytes(hz_class_of(size));
        if (size <= HZ_LINEAR_MAX) {
            ASSERT_LT(bytes - size, static_cast<size_t>(HZ_GRANULE_BYTES));
        } else {
            ASSERT_LE((bytes - size) * 9, bytes) << "size " << size << " wastes more than a ninth";
        }
    }
}

TEST(SizeClass, LongClassesAreThoseAboveAPage) {
    EXPECT_EQ(hz_class_bytes(HZ_LONG_CLASS_FIRST - 1), static_cast<size_t>(HZ_RUN_ABOVE_BYTES));
    for (unsigned size_class = first_class; size_class < class_count; size_class++)
        EXPECT_EQ(hz_class_is_long(size_class), hz_class_bytes(size_class) > HZ_RUN_ABOVE_BYTES) << size_class;
}

/* A large block of the size serves as well as one of the class. */
TEST(SizeClass, ClassesOfRunsAreWholePages) {
    for (unsigned size_class = HZ_RUN_CLASS_FIRST; size_class < class_count; size_class++) {
        EXPECT_TRUE(hz_class_is_run(size_class));
        EXPECT_EQ(hz_class_bytes(size_class) % HZ_PAGE_BYTES, 0U) << size_class;
    }
    EXPECT_FALSE(hz_class_is_run(HZ_RUN_CLASS_FIRST - 1));
    EXPECT_TRUE(hz_class_is_long(HZ_RUN_CLASS_FIRST));
}

TEST(SizeClass, PowersOfTwoHaveClassesOfTheirOwn) {
    for (size_t bytes = HZ_GRANULE_BYTES; bytes <= largest; bytes *= 2)
        EXPECT_EQ(hz_class_bytes(hz_class_of(bytes)), bytes);
}

/* The smallest of the candidates that holds `size`, found by trying all. */
unsigned search(const std::vector<unsigned> &candidates, size_t size) {
    for (unsigned size_class : candidates)
        if (hz_class_bytes(size_class) >= size)
            return size_class;
    return HZ_CLASS_NONE;
}

TEST(SizeClassAligned, IsTheSmallestMultiple) {
    for (size_t alignment = 1; alignment <= HZ_PAGE_BYTES; alignment *= 2) {
        std::vector<unsigned> candidates;
        for (unsigned size_class = first_class; size_class < class_count; size_class++)
            if (hz_class_bytes(size_class) % alignment == 0)
                candidates.push_back(size_class);
        for (size_t size = 0; size <= largest; size += size < 4096 ? 1 : size < 65536 ? 13 : 499)
            ASSERT_EQ(hz_class_of_aligned(size, alignment), search(candidates, size))
                << "size " << size << " alignment " << alignment;
        ASSERT_EQ(hz_class_of_aligned(largest, alignment), class_count - 1);
    }
}

TEST(SizeClassAligned, NoneWhenTooLarge) {
    EXPECT_EQ(hz_class_of_aligned(largest + 1, 1), static_cast<unsigned>(HZ_CLASS_NONE));
    EXPECT_EQ(hz_class_of_aligned(1, largest * 2), static_cast<unsigned>(HZ_CLASS_NONE));
    EXPECT_EQ(hz_class_of_aligned(SIZE_MAX, HZ_PAGE_BYTES), static_cast<unsigned>(HZ_CLASS_NONE));
    EXPECT_EQ(hz_class_of_aligned(largest - HZ_PAGE_BYTES + 1, HZ_PAGE_BYTES), class_count - 1);
    for (size_t alignment = 2 * size_t{HZ_PAGE_BYTES}; alignment <= largest; alignment *= 2)
        EXPECT_EQ(hz_class_of_aligned(alignment, alignment), static_cast<unsigned>(HZ_CLASS_NONE))
            << "a page begins at a multiple of 64 KiB, and that is all";
    EXPECT_EQ(hz_class_of_aligned(SIZE_MAX, 1), static_cast<unsigned>(HZ_CLASS_NONE));
}

TEST(SizeClassDeathTest, AssertsItsRanges) {
    if (!HZ_CONFIG_CHECKS)
        GTEST_SKIP() << "internal assertions are in the check build";
    EXPECT_DEATH(hz_class_bytes(HZ_CLASS_NONE), "internal error: .*size_class");
    EXPECT_DEATH(hz_class_bytes(HZ_CLASS_COUNT), "internal error: .*size_class");
    EXPECT_DEATH(hz_class_of(largest + 1), "internal error: .*size");
}

} // namespace
