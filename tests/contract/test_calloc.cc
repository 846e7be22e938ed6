/* calloc: blocks are zero even when dirty memory is reused, in every size range; overflow fails. */
#include "api.h"
#include "support.h"

#include <algorithm>
#include <cerrno>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

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

/* Bytes of the whole system pages within the block that are in memory. */
size_t resident_in(void *block, size_t size) {
    auto os_page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    uintptr_t first = (reinterpret_cast<uintptr_t>(block) + os_page - 1) / os_page * os_page;
    size_t pages = (reinterpret_cast<uintptr_t>(block) + size - first) / os_page;
    std::vector<unsigned char> in_memory(pages);
    EXPECT_EQ(mincore(reinterpret_cast<void *>(first), pages * os_page, in_memory.data()), 0);
    return os_page * static_cast<size_t>(std::count_if(in_memory.begin(), in_memory.end(),
                                                       [](unsigned char page) { return (page & 1) != 0; }));
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

/* What was never used, or went back, is not written to. */
TEST(Calloc, FreshMemoryStaysUntouched) {
    if (sanitized || t_config_has("fences=1"))
        GTEST_SKIP() << "they write into blocks";
    T_ONLY_OURS();
    for (size_t size : {size_t{70000}, size_t{100000}, size_t{200000}, size_t{400000}, MiB, 2 * MiB - 5000, 3 * MiB}) {
        SCOPED_TRACE(size);
        size_t count = 24 * MiB / size;
        leave_dirty_blocks(size, count);
        t_give_back();
        std::vector<void *> blocks(count);
        size_t resident = 0;
        for (void *&block : blocks)
            block = t_calloc(1, size);
        for (void *block : blocks)
            resident += resident_in(block, size);
        EXPECT_LE(resident, count * size / 16);
        for (void *block : blocks) {
            EXPECT_TRUE(is_zero(block, size));
            t_free(block);
        }
    }
}

/* As for malloc, at most an eighth of the request is unused. */
TEST(Calloc, TakesNoMoreThanMalloc) {
    if (t_config_has("fences=1"))
        GTEST_SKIP() << "a block has exactly what was asked for";
    T_ONLY_OURS();
    std::vector<void *> blocks;
    for (size_t size = 8 * KiB; size <= 2 * MiB; size += size / 50 + 1)
        for (int i = 0; i < 3; i++) {
            blocks.push_back(t_calloc(1, size));
            ASSERT_NE(blocks.back(), nullptr);
            EXPECT_LE(t_usable_size(blocks.back()), size + size / 8 + 64) << size;
        }
    for (void *block : blocks)
        t_free(block);
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
