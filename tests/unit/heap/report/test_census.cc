/* Which blocks are live, and which of them nothing reaches: against the list that the test keeps itself. */
#include "contract/support.h"
#include "unit/library.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <thread>
#include <vector>

extern "C" {
#include "heap/report/census.h"
}

namespace {

using Blocks = std::map<uintptr_t, size_t>; /* start of the memory, bytes */

Blocks census() {
    struct hz_census taken;
    Blocks found;
    if (!hz_census_begin(&taken))
        return found;
    auto note = [](void *context, const struct hz_census_block *block) {
        EXPECT_TRUE(static_cast<Blocks *>(context)->emplace(block->start, block->bytes).second) << "twice";
    };
    hz_census_walk(&taken, note, &found);
    for (auto [start, bytes] : found)
        for (uintptr_t address : {start, start + bytes / 2, start + bytes - 1}) {
            struct hz_census_block block = {};
            EXPECT_TRUE(hz_census_find(&taken, address, &block) && block.start == start && block.bytes == bytes);
        }
    hz_census_end(&taken);
    return found;
}

bool is_among(const Blocks &blocks, const void *block) {
    auto next = blocks.upper_bound(reinterpret_cast<uintptr_t>(block));
    return next != blocks.begin() &&
           reinterpret_cast<uintptr_t>(block) - std::prev(next)->first < std::prev(next)->second;
}

/* The blocks beyond those of `before` are exactly these. */
void expect_more(const Blocks &before, const std::vector<void *> &blocks) {
    Blocks now = census();
    EXPECT_EQ(now.size(), before.size() + blocks.size());
    for (void *block : blocks)
        EXPECT_TRUE(is_among(now, block)) << block;
    for (auto each : before)
        EXPECT_EQ(now.count(each.first), 1U);
}

size_t size_of(std::mt19937 &random) {
    static const size_t most[] = {64, 512, 4096, 70'000, 700'000, 5'000'000};
    return 1 + random() % most[random() % 100 < 95 ? random() % 3 : random() % std::size(most)];
}

/* A census is for a moment at which no other thread is in the heap: here the keeper could be. */
class Census : public testing::Test {
  protected:
    void SetUp() override {
        hz_keeper_forbid();
        if (support::tsan)
            GTEST_SKIP() << "it reads what other threads have written, which were stopped as by a debugger";
    }
};

TEST_F(Census, HasWhatIsLiveAndNothingElse) {
    std::mt19937 random(7);
    std::vector<void *> blocks;
    blocks.reserve(10'000);
    Blocks before = census();
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 1500; i++) {
            if (!blocks.empty() && random() % 100 < 48) {
                std::swap(blocks[random() % blocks.size()], blocks.back());
                hz_free(blocks.back());
                blocks.pop_back();
            } else {
                blocks.push_back(hz_malloc(size_of(random)));
            }
        }
        expect_more(before, blocks);
    }
    for (void *block : blocks)
        hz_free(block);
    expect_more(before, {});
}

TEST_F(Census, BlocksThatOtherThreadsHaveFreedAreNotLive) {
    std::mt19937 random(8);
    std::vector<void *> blocks;
    blocks.reserve(20'000);
    std::thread(+[] { hz_free(hz_malloc(1)); }).join(); /* what a first thread makes stays */
    Blocks before = census();
    for (int i = 0; i < 20'000; i++)
        blocks.push_back(hz_malloc(1 + random() % 3000));
    std::thread([&blocks] {
        for (size_t i = 0; i < blocks.size(); i += 2)
            hz_free(blocks[i]);
        /* they rest in this thread's remote buffer and bins, in mailboxes and the depot */
    }).join();
    std::vector<void *> left;
    left.reserve(blocks.size());
    for (size_t i = 1; i < blocks.size(); i += 2)
        left.push_back(blocks[i]);
    expect_more(before, left);
    for (void *block : left)
        hz_free(block);
    expect_more(before, {});
}

TEST_F(Census, ReservesOfZonesAreNotLive) {
    std::vector<void *> blocks;
    Blocks before = census();
    struct hz_zone *zone = hz_zone_create();
    for (int i = 0; i < 300; i++)
        blocks.push_back(hz_zone_malloc(zone, static_cast<size_t>(16 + i * 37 % 9000)));
    blocks.push_back(hz_zone_malloc(zone, 400'000));
    blocks.push_back(hz_zone_malloc(zone, 4'000'000));
    expect_more(before, blocks);
    hz_free(blocks.back());
    blocks.pop_back();
    expect_more(before, blocks);
    hz_zone_destroy(zone);
    expect_more(before, {});
}

} // namespace
