/* The peak: the most that the arena held, noted where memory is handed out. */
#include "stress/children.h"
#include "unit/base/fixture.h"

#include <gtest/gtest.h>

namespace {

using children::require;
using support::KiB;
using support::MiB;

/* The peak of a process never falls, so each test runs in a child whose arena has held nothing yet. */
class Peak : public testing::Test {
  protected:
    template <typename Body> static void in_child(Body body) {
        children::expect_good_end(children::start([&] {
            require(unit::base_init() && hz_peak_bytes() == 0, "nothing was handed out yet");
            body();
            return 0;
        }));
    }
    static void *alloc(size_t size) {
        void *block = hz_large_alloc(size, 1, false);
        require(block != nullptr, "there is memory");
        return block;
    }
};

TEST_F(Peak, IsTheSumOfWhatWasUsedTogether) {
    in_child([] {
        void *first = alloc(100 * KiB);
        require(hz_peak_bytes() == 128 * KiB, "two pages");
        void *second = alloc(MiB);
        require(hz_peak_bytes() == MiB + 128 * KiB, "both blocks");
        hz_large_free(first);
        hz_large_free(second);
        hz_arena_purge(0, SIZE_MAX);
        first = alloc(MiB);
        require(hz_peak_bytes() == MiB + 128 * KiB, "one block after the other is less");
        hz_large_free(first);
    });
}

TEST_F(Peak, HasWhatRests) {
    in_child([] {
        void *first = alloc(MiB);
        void *second = alloc(MiB);
        hz_large_free(first);
        void *again = alloc(MiB);
        require(hz_peak_bytes() == 2 * MiB, "memory that rested is used again");
        hz_large_free(again);
        void *longer = alloc(2 * MiB);
        require(hz_arena_resting_bytes() > 0, "too little rests for a longer block");
        require(hz_peak_bytes() == 3 * MiB + hz_arena_resting_bytes(), "what rests is held too");
        hz_large_free(longer);
        hz_large_free(second);
    });
}

TEST_F(Peak, FollowsARunThatGrows) {
    in_child([] {
        void *block = alloc(256 * KiB);
        require(hz_large_resize(block, MiB, true) == block, "the pages behind it are free");
        require(hz_peak_bytes() == MiB, "the run has grown");
        require(hz_large_resize(block, 128 * KiB, true) == block, "it shrinks in place");
        require(hz_peak_bytes() == MiB, "shrinking lowers nothing");
        hz_large_free(block);
    });
}

TEST_F(Peak, FollowsABlockThatGrows) {
    in_child([] {
        void *block = alloc(3 * MiB);
        require(hz_peak_bytes() == 3 * MiB, "units count with the block's bytes");
        block = hz_large_resize(block, 70 * MiB, true);
        require(block != nullptr, "the block moves to a mapping of its own");
        require(hz_peak_bytes() >= 70 * MiB && hz_peak_bytes() <= 74 * MiB, "its units can stay behind");
        hz_large_free(block);
    });
}

/* Nobody frees, so the last thread that notes sees the blocks of all. */
TEST_F(Peak, IsExactWhenThreadsAllocateTogether) {
    in_child([] {
        constexpr unsigned threads = 4;
        constexpr size_t each = 200;
        std::vector<void *> blocks(threads * each);
        unit::together(threads, [&](unsigned index) {
            for (size_t i = 0; i < each; i++)
                blocks[index * each + i] = alloc(128 * KiB);
        });
        require(hz_peak_bytes() == threads * each * 128 * KiB, "all blocks");
        for (void *block : blocks)
            hz_large_free(block);
    });
}

} // namespace
