/* calloc: blocks are zero even when dirty memory is reused, in every size range; overflow fails. */
#include "api.h"
#include "support.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <thread>

namespace {

using namespace support;

/* Allocates `count` blocks of `size`, fills every byte and frees them. */
void leave_dirty_blocks(size_t size, size_t count) {
    std::vector<void *> blocks;
    for (size_t i = 0; i < count; i++) {
        void *block = t_malloc(size);
        ASSERT_NE(block, nullptr);
        memset(block, 0xff, t_usable_size(block));
        blocks.push_back(block);
    }
    for (void *block : blocks)
        t_free(block);
}

void expect_zeroed_blocks(size_t size, size_t count) {
    std::vector<void *> blocks;
    for (size_t i = 0; i < count; i++) {
        void *block = i % 2 == 0 ? t_calloc(1, size) : t_calloc(size, 1);
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(is_zero(block, size)) << "calloc of " << size << " is not zero";
        memset(block, 0xff, t_usable_size(block));
        blocks.push_back(block);
    }
    for (void *block : blocks)
        t_free(block);
}

TEST(Calloc, IsZeroAfterDirtyBlocksAtEveryEdgeSize) {
    for (size_t size : edge_sizes()) {
        size_t count = size <= 2048 ? 12 : 3;
        leave_dirty_blocks(size, count);
        expect_zeroed_blocks(size, count);
    }
}

/* The same memory serves blocks of other sizes: many small blocks become one large block, and the other way round. */
TEST(Calloc, IsZeroWhenMemoryChangesItsClass) {
    std::vector<size_t> sizes = sample_sizes();
    for (size_t dirty : sizes)
        for (size_t wanted : sizes) {
            if (sanitized && dirty + wanted > 3 * MiB)
                continue;
            leave_dirty_blocks(dirty, std::max<size_t>(1, std::min<size_t>(300, 512 * KiB / dirty)));
            expect_zeroed_blocks(wanted, std::max<size_t>(1, std::min<size_t>(100, 256 * KiB / wanted)));
        }
}

TEST(Calloc, IsZeroAfterPurge) {
    for (size_t size : sample_sizes()) {
        leave_dirty_blocks(size, std::max<size_t>(2, std::min<size_t>(1000, MiB / size)));
        t_give_back();
        expect_zeroed_blocks(size, std::max<size_t>(2, std::min<size_t>(1000, MiB / size)));
    }
}

TEST(Calloc, IsZeroWhenAnotherThreadDirtiedAndFreed) {
    for (size_t size : sample_sizes()) {
        std::vector<void *> blocks(std::max<size_t>(2, std::min<size_t>(500, MiB / size)));
        for (void *&block : blocks) {
            block = t_calloc(1, size);
            ASSERT_NE(block, nullptr);
        }
        std::thread other([&] {
            for (void *block : blocks) {
                memset(block, 0xff, t_usable_size(block));
                t_free(block);
            }
        });
        other.join();
        expect_zeroed_blocks(size, blocks.size());
    }
}

TEST(Calloc, AfterShrinkingReallocIsZero) {
    for (size_t size : sample_sizes()) {
        void *block = t_malloc(size);
        ASSERT_NE(block, nullptr);
        memset(block, 0xff, t_usable_size(block));
        block = t_realloc(block, size / 2 + 1);
        ASSERT_NE(block, nullptr);
        expect_zeroed_blocks(size, 2);
        expect_zeroed_blocks(size / 2 + 1, 2);
        t_free(block);
    }
}

TEST(Calloc, OverflowIsENOMEM) {
    struct Pair {
        size_t count, size;
    };
    for (Pair pair :
         {Pair{SIZE_MAX, 2}, Pair{2, SIZE_MAX}, Pair{SIZE_MAX / 2 + 1, 2}, Pair{size_t{1} << 32, size_t{1} << 32},
          Pair{size_t{1} << 33, size_t{1} << 31}, Pair{SIZE_MAX, SIZE_MAX}, Pair{SIZE_MAX, 1}, Pair{1, SIZE_MAX},
          Pair{1, static_cast<size_t>(PTRDIFF_MAX) + 1}, Pair{static_cast<size_t>(PTRDIFF_MAX), 1},
          Pair{SIZE_MAX / 16 + 2, 16}}) {
        errno = 0;
        EXPECT_EQ(t_calloc(pair.count, pair.size), nullptr) << pair.count << " * " << pair.size;
        EXPECT_EQ(errno, ENOMEM) << pair.count << " * " << pair.size;
    }
}

} // namespace
