/* Memory for the allocator's own structures: zeroed, and each piece on its own cache lines. */
#include "stress/children.h"
#include "unit/base/fixture.h"

#include <gtest/gtest.h>

namespace {

using children::require;
using support::KiB;

struct Piece {
    char *start;
    size_t bytes;
};

/* Allocates a piece, checks that it is zero and starts a cache line, and fills it from `seed`. */
Piece take(size_t bytes, uint64_t seed) {
    auto *start = static_cast<char *>(hz_meta_alloc(bytes));
    EXPECT_NE(start, nullptr);
    EXPECT_TRUE(support::aligned_to(start, HZ_CACHE_LINE_BYTES));
    EXPECT_TRUE(support::is_zero(start, bytes));
    support::fill(start, bytes, seed);
    return {start, bytes};
}

TEST(Meta, PiecesAreZeroAlignedAndApart) {
    std::vector<Piece> pieces;
    for (size_t bytes : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{4096}, 60 * KiB, 64 * KiB + 1, 200 * KiB,
                         256 * KiB, 300 * KiB, 1024 * KiB + 5})
        for (int i = 0; i < 20; i++)
            pieces.push_back(take(bytes, pieces.size()));
    for (size_t i = 0; i < pieces.size(); i++)
        EXPECT_TRUE(support::holds(pieces[i].start, pieces[i].bytes, i)) << "piece of " << pieces[i].bytes;
}

TEST(Meta, CountsWhatItMaps) {
    size_t before = hz_meta_bytes();
    take(1024 * KiB, 1);
    EXPECT_GE(hz_meta_bytes() - before, 1024 * KiB);
    EXPECT_LE(hz_meta_bytes() - before, 1024 * KiB + 128 * KiB);
    before = hz_meta_bytes();
    for (int i = 0; i < 10000; i++)
        hz_meta_alloc(64);
    EXPECT_LE(hz_meta_bytes() - before, 1024 * KiB) << "small pieces share chunks";
    EXPECT_GE(hz_meta_bytes() - before, 300 * KiB);
}

TEST(Meta, UsesWhatItIsGiven) {
    constexpr size_t bytes = 1024 * KiB;
    void *memory = hz_os_map(bytes, hz_os_page_bytes(), false);
    ASSERT_NE(memory, nullptr);
    size_t before = hz_meta_bytes();
    hz_meta_give(memory, bytes);
    EXPECT_EQ(hz_meta_bytes(), before + bytes);
    for (size_t i = 0; i < 10; i++) /* pieces of this size have mappings of their own otherwise */
        EXPECT_EQ(take(100 * KiB, i).start, static_cast<char *>(memory) + i * 100 * KiB);
    EXPECT_EQ(hz_meta_bytes(), before + bytes);
    Piece next = take(100 * KiB, 10);
    EXPECT_TRUE(next.start >= static_cast<char *>(memory) + bytes || next.start + next.bytes <= memory);
}

TEST(Meta, RefusesWhatCannotBe) {
    EXPECT_EQ(hz_meta_alloc(SIZE_MAX), nullptr);
    EXPECT_EQ(hz_meta_alloc(SIZE_MAX - 100), nullptr);
    EXPECT_EQ(hz_meta_alloc(PTRDIFF_MAX), nullptr);
    take(64, 1);
}

TEST(Meta, ThreadsNeverShareAPiece) {
    constexpr unsigned threads = 4;
    const unsigned count = unit::rounds(2000);
    std::vector<std::vector<Piece>> pieces(threads);
    unit::together(threads, [&](unsigned index) {
        support::Random random(index);
        for (unsigned i = 0; i < count; i++)
            pieces[index].push_back(take(random.between(1, 3000), index * uint64_t{count} + i));
    });
    for (unsigned index = 0; index < threads; index++)
        for (unsigned i = 0; i < count; i++)
            ASSERT_TRUE(support::holds(pieces[index][i].start, pieces[index][i].bytes, index * uint64_t{count} + i));
}

/* A thread allocates piece after piece, so that forks happen at any moment of an allocation. */
TEST(MetaFork, ChildCanAllocateWhateverOthersDid) {
    std::atomic<bool> stop{false};
    std::atomic<bool> started{false};
    std::thread busy([&] {
        for (int i = 0; i < 100000 && !stop; i++) {
            hz_meta_alloc(30 * KiB); /* many chunks; they are not touched, so they cost only address space */
            started = true;
        }
    });
    while (!started)
        std::this_thread::yield();
    for (unsigned i = 0; i < unit::rounds(60); i++)
        children::expect_good_end(children::start([] {
            hz_meta_after_fork(); /* as the heap's fork hook does */
            std::vector<Piece> pieces;
            for (uint64_t seed = 0; seed < 100; seed++) {
                auto *start = static_cast<char *>(hz_meta_alloc(1000));
                require(start != nullptr && support::is_zero(start, 1000), "the piece is zero");
                support::fill(start, 1000, seed);
                pieces.push_back({start, 1000});
            }
            for (uint64_t seed = 0; seed < 100; seed++)
                require(support::holds(pieces[seed].start, 1000, seed), "pieces do not overlap");
            return 0;
        }));
    stop = true;
    busy.join();
}

} // namespace
