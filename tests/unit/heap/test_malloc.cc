/* malloc and free with bins that have blocks: the newest block first, and no slow path. */
#include "unit/heap/cache/bins.h"

#include <atomic>

namespace {

using unit::Blocks;

class Malloc : public unit::EmptyBins {};

TEST_F(Malloc, NewestBlockFirst) {
    for (unsigned size_class : unit::some_classes()) {
        Blocks blocks = allocate(size_class, 2);
        free_all(blocks);
        Blocks again = allocate(size_class, 2);
        EXPECT_EQ(again, (Blocks{blocks[1], blocks[0]})) << "the newest block is the most likely to be cached";
        free_all(again);
    }
}

TEST_F(Malloc, HitsTakeNoSlowPath) {
    for (unsigned size_class : unit::some_classes()) {
        Blocks warm = allocate(size_class, 2);
        free_all(warm);
        struct hz_counters before = counters();
        for (int i = 0; i < 1000; i++) {
            Blocks two = allocate(size_class, 2);
            ASSERT_EQ(two, (Blocks{warm[1], warm[0]}));
            t_free(two[1]);
            t_free(two[0]);
        }
        EXPECT_EQ(counters().refill, before.refill);
        EXPECT_EQ(counters().flush, before.flush);
    }
}

/* Threads allocate blocks of all classes, and free each other's through one table. */
TEST_F(Malloc, ThreadsExchangeBlocks) {
    constexpr unsigned threads = 4;
    constexpr size_t slots = 512;
    std::vector<std::atomic<uint64_t *>> table(slots);
    std::atomic<size_t> wrong{0};
    unit::together(threads, [&](unsigned index) {
        support::Random random(index);
        for (unsigned i = 0; i < unit::rounds(40000); i++) {
            auto size_class = static_cast<unsigned>(random.below(16) == 0 ? random.between(1, unit::class_count - 1)
                                                                          : random.between(1, 24));
            size_t bytes = hz_class_bytes(size_class);
            auto *block = static_cast<uint64_t *>(t_malloc(bytes));
            block[0] = bytes;
            block[bytes / 8 - 1] = ~bytes;
            uint64_t *old = table[random.below(slots)].exchange(block);
            if (old != nullptr) {
                uint64_t size = old[0];
                wrong += size > HZ_CLASS_BYTES_MAX || t_usable_size(old) != size || old[size / 8 - 1] != ~size;
                t_free(old);
            }
        }
    });
    for (auto &slot : table)
        t_free(slot.load());
    EXPECT_EQ(wrong, 0U);
}

} // namespace
