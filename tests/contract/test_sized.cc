/* Allocations that say how large the block is, and frees of many blocks at once. */
#include "api.h"
#include "support.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <new>

namespace {

using namespace support;

TEST(MallocSized, SaysTheUsableSize) {
    if (t_table.malloc_sized_fn == nullptr)
        GTEST_SKIP() << "hz_malloc_sized does not exist here";
    for (size_t size : edge_sizes()) {
        struct hz_sized_block sized = t_table.malloc_sized_fn(size);
        ASSERT_NE(sized.block, nullptr) << size;
        ASSERT_GE(sized.bytes, size);
        ASSERT_EQ(sized.bytes, t_usable_size(sized.block)) << size;
        memset(sized.block, 1, sized.bytes);
        t_free_sized(sized.block, size % 2 == 0 ? size : sized.bytes);
    }
    for (size_t size : {SIZE_MAX, size_t{PTRDIFF_MAX} + 1}) {
        errno = 0;
        struct hz_sized_block sized = t_table.malloc_sized_fn(size);
        EXPECT_EQ(sized.block, nullptr);
        EXPECT_EQ(sized.bytes, 0U);
        EXPECT_EQ(errno, ENOMEM);
    }
}

/* The names by which compilers and standard libraries know it (P0901). */
TEST(SizeReturningNew, SaysTheUsableSizeOrThrows) {
    T_ONLY_SYSTEM_NAMES();
    struct hz_sized_block (*make)(size_t) = nullptr;
    struct hz_sized_block (*make_aligned)(size_t, std::align_val_t) = nullptr;
    make = reinterpret_cast<decltype(make)>(dlsym(RTLD_DEFAULT, "__size_returning_new"));
    make_aligned = reinterpret_cast<decltype(make_aligned)>(dlsym(RTLD_DEFAULT, "__size_returning_new_aligned"));
    if (make == nullptr)
        GTEST_SKIP() << "__size_returning_new does not exist here";
    ASSERT_NE(make_aligned, nullptr);
    for (size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{3000}, 100 * KiB, 3 * MiB}) {
        struct hz_sized_block plain = make(size);
        EXPECT_GE(plain.bytes, size);
        EXPECT_EQ(plain.bytes, t_usable_size(plain.block));
        ::operator delete(plain.block, plain.bytes);
        struct hz_sized_block aligned = make_aligned(size, std::align_val_t{256});
        EXPECT_TRUE(aligned_to(aligned.block, 256));
        EXPECT_EQ(aligned.bytes, t_usable_size(aligned.block));
        ::operator delete (aligned.block, aligned.bytes, std::align_val_t{256});
    }
    EXPECT_THROW(make(SIZE_MAX), std::bad_alloc);
    EXPECT_THROW(make_aligned(SIZE_MAX, std::align_val_t{64}), std::bad_alloc);
}

/* Where one kind of block follows another: each size fits the block, however the block came about. */
TEST(FreeSized, TakesTheSizeThatWasAskedFor) {
    if (t_table.free_sized_fn == nullptr || t_table.free_aligned_sized_fn == nullptr)
        GTEST_SKIP() << "free_sized does not exist here";
    for (size_t edge : {64 * KiB, 72 * KiB, 512 * KiB, MiB, 2 * MiB})
        for (size_t size : {edge - 1, edge, edge + 1})
            for (int round = 0; round < 4; round++) { /* the later blocks come from a bin, or find no room in one */
                void *blocks[] = {t_malloc(size),
                                  t_malloc(size),
                                  t_calloc(1, size),
                                  t_realloc(nullptr, size),
                                  t_realloc(t_malloc(100), size),
                                  t_realloc(t_malloc(size / 2), size),
                                  t_realloc(t_malloc(size + size / 16), size),
                                  t_realloc(t_malloc(2 * size), size),
                                  t_realloc(t_calloc(1, 2 * size), size)};
                for (void *block : blocks) {
                    ASSERT_NE(block, nullptr);
                    ASSERT_GE(t_usable_size(block), size);
                    memset(block, 1, size);
                }
                for (void *block : blocks)
                    t_free_sized(block, size);
                for (size_t alignment = 16; alignment <= 4 * MiB; alignment *= 4) {
                    void *block = t_aligned_alloc(alignment, size);
                    ASSERT_TRUE(aligned_to(block, alignment)) << size << " at " << alignment;
                    memset(block, 1, size);
                    t_free_aligned_sized(block, alignment, size);
                }
            }
}

TEST(FreeBatch, FreesAllOfThem) {
    if (t_table.free_batch_fn == nullptr)
        GTEST_SKIP() << "hz_free_batch does not exist here";
    struct hz_stats before = {};
    struct hz_stats after = {};
    std::vector<void *> blocks;
    blocks.reserve(3001);
    ASSERT_EQ(t_stats_get(&before), 0);
    for (size_t i = 0; i < 3000; i++) {
        size_t size = i % 100 == 0 ? 100 * KiB : i % 999 == 0 ? 3 * MiB : i;
        void *block = i % 7 == 0 ? nullptr : t_malloc(size);
        ASSERT_TRUE(block != nullptr || i % 7 == 0);
        blocks.push_back(block);
    }
    std::vector<void *> copy = blocks;
    errno = EILSEQ;
    t_table.free_batch_fn(blocks.data(), blocks.size());
    EXPECT_EQ(errno, EILSEQ);
    EXPECT_EQ(blocks, copy) << "the array is the caller's";
    t_table.free_batch_fn(nullptr, 0);
    copy = {};
    ASSERT_EQ(t_stats_get(&after), 0);
    EXPECT_LE(after.live_bytes, before.live_bytes + (t_system ? 256 * KiB : 0));
}

} // namespace
