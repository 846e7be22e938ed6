/* The aligned functions: every alignment up to 1 GiB, odd sizes, contents, errors. */
#include "api.h"
#include "support.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <string>

namespace {

using namespace support;

constexpr size_t GiB = 1024 * MiB;
/* Above this alignment the allocator may fail with ENOMEM for lack of address space, but with no other error. */
constexpr size_t must_succeed_up_to = 64 * MiB;

using Aligned = void *(*)(size_t alignment, size_t size);

void *by_posix_memalign(size_t alignment, size_t size) {
    void *block = nullptr;
    int error = t_posix_memalign(&block, std::max(alignment, sizeof(void *)), size);
    if (error != 0) {
        EXPECT_EQ(block, nullptr);
        errno = error;
        return nullptr;
    }
    return block;
}

struct Function {
    const char *name;
    Aligned call;
};

class Alignment : public testing::TestWithParam<Function> {};

void check_block(void *block, size_t alignment, size_t size) {
    EXPECT_TRUE(aligned_to(block, alignment)) << block << " is not aligned to " << alignment;
    size_t usable = t_usable_size(block);
    ASSERT_GE(usable, size);
    fill(block, std::min(usable, size + 4 * KiB), size);
    EXPECT_TRUE(holds(block, std::min(usable, size + 4 * KiB), size));
}

TEST_P(Alignment, EveryPowerOfTwoUpToOneGigabyte) {
    for (size_t alignment = 1; alignment <= GiB; alignment *= 2) {
        for (size_t size : {size_t{0}, size_t{1}, size_t{24}, size_t{1000}, 5 * KiB, 65 * KiB, 3 * MiB}) {
            errno = 0;
            void *block = GetParam().call(alignment, size);
            if (block == nullptr) {
                EXPECT_EQ(errno, ENOMEM);
                ASSERT_GT(alignment, must_succeed_up_to) << "alignment " << alignment << ", size " << size;
                continue;
            }
            check_block(block, alignment, size);
            t_free(block);
        }
    }
}

TEST_P(Alignment, LiveBlocksOfAllAlignmentsDoNotOverlap) {
    struct Held {
        void *block;
        size_t size;
        uint64_t seed;
    };
    std::vector<Held> held;
    Random random(17);
    for (int round = 0; round < 8; round++) {
        for (size_t alignment = 1; alignment <= 4 * MiB; alignment *= 2) {
            size_t size = random.between(0, round % 2 == 0 ? 3 * KiB : 100 * KiB);
            void *block = GetParam().call(alignment, size);
            ASSERT_NE(block, nullptr) << "alignment " << alignment << ", size " << size;
            ASSERT_TRUE(aligned_to(block, alignment));
            held.push_back({block, size, random.next()});
            fill(block, size, held.back().seed);
        }
    }
    for (const Held &one : held) {
        EXPECT_TRUE(holds(one.block, one.size, one.seed)) << "size " << one.size;
        t_free(one.block);
    }
}

/* An aligned block must not cost a mapping of its own: blocks come and go without resident memory growing. */
TEST_P(Alignment, ReuseIsBounded) {
    if (sanitized)
        GTEST_SKIP() << "sanitizers keep freed memory";
    auto churn = [](int rounds) {
        for (int i = 0; i < rounds; i++) {
            for (size_t alignment : {size_t{64}, size_t{4096}, 64 * KiB, 1 * MiB}) {
                void *block = GetParam().call(alignment, 3000);
                ASSERT_NE(block, nullptr);
                memset(block, 1, 3000);
                t_free(block);
            }
        }
    };
    churn(100);
    size_t before = resident_bytes();
    churn(4000);
    EXPECT_LT(resident_bytes(), before + 16 * MiB);
}

TEST_P(Alignment, ReallocKeepsContentsOfAlignedBlocks) {
    for (size_t alignment = 32; alignment <= 2 * MiB; alignment *= 4) {
        for (size_t to : {size_t{10}, size_t{5000}, 300 * KiB, 5 * MiB}) {
            void *block = GetParam().call(alignment, 5000);
            ASSERT_NE(block, nullptr);
            fill(block, 5000, alignment);
            void *moved = t_realloc(block, to);
            ASSERT_NE(moved, nullptr);
            EXPECT_TRUE(holds(moved, std::min<size_t>(5000, to), alignment)) << alignment << " to " << to;
            t_free(moved);
        }
    }
}

TEST_P(Alignment, ImpossibleSizesAreENOMEM) {
    for (size_t alignment : {size_t{8}, size_t{16}, size_t{64}, size_t{4096}, 1 * MiB, GiB}) {
        for (size_t size : {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - alignment, static_cast<size_t>(PTRDIFF_MAX) + 1,
                            static_cast<size_t>(PTRDIFF_MAX), static_cast<size_t>(PTRDIFF_MAX) - 4096}) {
            errno = 0;
            EXPECT_EQ(GetParam().call(alignment, size), nullptr) << alignment << ", " << size;
            EXPECT_EQ(errno, ENOMEM) << alignment << ", " << size;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Functions, Alignment,
                         testing::Values(Function{"aligned_alloc", t_aligned_alloc}, Function{"memalign", t_memalign},
                                         Function{"posix_memalign", by_posix_memalign}),
                         [](const testing::TestParamInfo<Function> &each) { return std::string(each.param.name); });

TEST(AlignedAlloc, AlignmentThatIsNotAPowerOfTwoIsEINVAL) {
    T_ONLY_OURS(); /* glibc 2.36 rounds up as memalign does; it checks since 2.38 */
    for (size_t alignment : {size_t{0}, size_t{3}, size_t{65}, size_t{4095}, SIZE_MAX}) {
        errno = 0;
        EXPECT_EQ(t_aligned_alloc(alignment, 128), nullptr) << alignment;
        EXPECT_EQ(errno, EINVAL) << alignment;
    }
}

TEST(AlignedAlloc, SizeNeedNotBeAMultiple) {
    void *block = t_aligned_alloc(256, 10);
    ASSERT_NE(block, nullptr);
    check_block(block, 256, 10);
    t_free(block);
}

TEST(PosixMemalign, BadAlignmentIsEINVALAndLeavesOutAndErrnoAlone) {
    for (size_t alignment : {size_t{0}, size_t{1}, size_t{2}, size_t{4}, size_t{7}, size_t{24}, size_t{65}, SIZE_MAX}) {
        int marker = 0;
        void *out = &marker;
        errno = EDOM;
        EXPECT_EQ(t_posix_memalign(&out, alignment, 100), EINVAL) << alignment;
        EXPECT_EQ(errno, EDOM) << alignment;
        EXPECT_EQ(out, &marker) << alignment;
    }
}

TEST(PosixMemalign, FailureLeavesOutAlone) {
    for (size_t size : {SIZE_MAX, static_cast<size_t>(PTRDIFF_MAX) + 1, static_cast<size_t>(PTRDIFF_MAX)}) {
        int marker = 0;
        void *out = &marker;
        EXPECT_EQ(t_posix_memalign(&out, 64, size), ENOMEM) << size;
        EXPECT_EQ(out, &marker) << size;
    }
}

/* POSIX does not specify errno here and glibc sets it; our header promises to leave it unchanged. */
TEST(PosixMemalign, FailureLeavesErrnoAlone) {
    T_ONLY_OURS();
    for (size_t alignment : {size_t{8}, size_t{64}, GiB}) {
        void *out = nullptr;
        errno = EDOM;
        EXPECT_EQ(t_posix_memalign(&out, alignment, SIZE_MAX), ENOMEM);
        EXPECT_EQ(errno, EDOM);
    }
}

TEST(Memalign, RoundsOddAlignmentsUp) {
    for (size_t alignment : {size_t{0}, size_t{3}, size_t{17}, size_t{65}, size_t{1000}, size_t{4097}}) {
        size_t power = 16;
        while (power < alignment)
            power *= 2;
        void *block = t_memalign(alignment, 100);
        ASSERT_NE(block, nullptr) << alignment;
        check_block(block, power, 100);
        t_free(block);
    }
}

TEST(Memalign, AlignmentBeyondEveryAddressIsEINVAL) {
    constexpr size_t top = size_t{1} << 63;
    for (size_t alignment : {top + 1, SIZE_MAX}) {
        errno = 0;
        EXPECT_EQ(t_memalign(alignment, 100), nullptr) << alignment;
        EXPECT_EQ(errno, EINVAL) << alignment;
    }
}

TEST(Memalign, AlignmentThatDoesNotFitIntoTheAddressSpaceIsENOMEM) {
    constexpr size_t top = size_t{1} << 63;
    for (size_t alignment : {size_t{1} << 48, size_t{1} << 62, top - 1, top}) {
        for (size_t size : {size_t{0}, size_t{100}, static_cast<size_t>(PTRDIFF_MAX)}) {
            errno = 0;
            EXPECT_EQ(t_memalign(alignment, size), nullptr) << alignment << ", " << size;
            EXPECT_EQ(errno, ENOMEM) << alignment << ", " << size;
        }
    }
}

TEST(Valloc, IsPageAligned) {
    auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    for (size_t size : {size_t{0}, size_t{1}, page - 1, page, page + 1, 5 * page, 3 * MiB + 1}) {
        void *block = t_valloc(size);
        ASSERT_NE(block, nullptr) << size;
        check_block(block, page, size);
        t_free(block);
    }
}

TEST(Pvalloc, RoundsTheSizeUpToPages) {
    auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    for (size_t size : {size_t{0}, size_t{1}, page - 1, page, page + 1, 5 * page, 3 * MiB + 1}) {
        void *block = t_pvalloc(size);
        ASSERT_NE(block, nullptr) << size;
        check_block(block, page, (size + page - 1) / page * page);
        t_free(block);
    }
}

TEST(Pvalloc, OverflowOfTheRoundingIsENOMEM) {
    for (size_t size : {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 4095, SIZE_MAX - 4096}) {
        errno = 0;
        EXPECT_EQ(t_pvalloc(size), nullptr) << size;
        EXPECT_EQ(errno, ENOMEM) << size;
    }
}

} // namespace
