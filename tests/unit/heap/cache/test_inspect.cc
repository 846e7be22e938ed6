/* The slow path of free looks for misuse, and so does the move from a bin to the depot. */
#include "unit/heap/fixture.h"

extern "C" {
#include "heap/cache/inspect.h"
#include "heap/pages/page.h"
#include "heap/pages/put.h"
}

#include <algorithm>
#include <thread>

namespace {

using unit::Blocks;

class Inspect : public testing::Test {
  protected:
    void SetUp() override {
        self_ = unit::self();
        hz_heap_purge();
        unit::grow_bins(self_);
        unit::forbid_idle_looks(self_);
    }
    void TearDown() override {
        hz_heap_purge();
        EXPECT_EQ(support::live_bytes(), 0U);
    }
    uint32_t held(unsigned size_class) {
        return unit::bin_count(self_, size_class);
    }
    uint32_t limit(unsigned size_class) {
        return hz_bin_limit(&self_->cache, size_class);
    }
    void begin_anew(unsigned size_class) {
        hz_bin_send_home(self_, size_class);
        hz_bin_limit_set(&self_->cache, size_class, 0);
    }
    static char *at(void *block, ptrdiff_t offset) {
        return static_cast<char *>(block) + offset;
    }
    struct hz_thread_block *self_ = nullptr;
};

TEST_F(Inspect, ANewThreadsFreesAreWatched) {
    for (int i = 0; i < 3; i++) /* later ones get the thread block of an earlier one */
        std::thread([] {
            struct hz_thread_block *thread = unit::self();
            unit::forbid_idle_looks(thread);
            for (unsigned round = 0; hz_frees_are_watched(thread); round++) {
                for (unsigned index = 1; index < HZ_BINS; index++)
                    ASSERT_EQ(hz_bin_limit(&thread->cache, index), 0U) << index;
                uint32_t before = thread->frees_watched;
                Blocks blocks; /* some rounds fill the bin */
                for (unsigned n = 0; n <= round % 50; n++)
                    blocks.push_back(t_malloc(100));
                for (void *block : blocks)
                    t_free(block);
                ASSERT_EQ(thread->frees_watched, std::min<size_t>(before + blocks.size(), HZ_FREES_WATCHED));
            }
            unsigned size_class = hz_class_of(100);
            for (unsigned visits = 0; hz_bin_limit(&thread->cache, size_class) == 0; visits++) {
                ASSERT_LT(visits, 2U);
                t_free(t_malloc(100));
            }
            unit::grow_bins(thread);
        }).join();
}

TEST_F(Inspect, TheLimitRisesAtEachVisitUntilItIsTheRoom) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        uint32_t room = hz_bin_room(&self_->cache, size_class);
        begin_anew(size_class);
        unsigned visits = 0;
        for (void *block : unit::take(self_->shard, size_class, room)) {
            uint32_t before = limit(size_class);
            bool visit = held(size_class) == before;
            hz_heap_free(block);
            uint32_t in_bin = held(size_class) - 1;
            ASSERT_EQ(limit(size_class), visit ? std::min(room, in_bin + 1 + in_bin / 4) : before);
            visits += visit;
        }
        EXPECT_EQ(limit(size_class), room);
        EXPECT_LE(visits, 30U);
        EXPECT_GE(visits, std::min(room, 5U));
    }
}

TEST_F(Inspect, OneAddressAmongManyIsSeen) {
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        Blocks blocks = unit::take(self_->shard, size_class, 21); /* eight at a time are looked at, then the rest */
        auto all = [&] { return hz_class_may_have_starts(size_class, blocks.data(), 21); };
        EXPECT_TRUE(all()) << size_class;
        for (void *&block : blocks) {
            void *start = std::exchange(block, at(block, 8));
            EXPECT_FALSE(all()) << size_class;
            block = at(start, ptrdiff_t{1} << 47);
            EXPECT_NE(all(), hz_pagetags.flat) << size_class << ": a block's start by its offset, but not our memory";
            block = start;
        }
        EXPECT_TRUE(hz_class_may_have_starts(size_class, blocks.data(), 0)) << size_class;
        unit::put(self_->shard, blocks);
    }
}

/* Whether a block can begin so far behind the page's start: for some size that needs its class. */
bool can_begin(const struct hz_page *page, size_t offset) {
    size_t behind = offset % page->block_bytes;
    if (behind == 0)
        return true;
    uint64_t key = hz_spread_key(page->start + offset - behind);
    return behind < hz_class_grid(page->size_class) && hz_spread_within(key, behind) == behind; /* with that slack */
}

TEST_F(Inspect, EachBlocksStartIsKnown) {
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        Blocks blocks = unit::take(self_->shard, size_class, 1);
        const struct hz_page *page = hz_page_of(blocks[0]);
        for (uint32_t i = 0; i < page->capacity; i++) {
            void *start = page->start + size_t{i} * page->block_bytes;
            ASSERT_TRUE(hz_class_has_start(size_class, start)) << i;
            for (ptrdiff_t offset : {i == 0 ? 2 : -1, 1, 8, 15}) /* what is before the first block is of another page */
                ASSERT_FALSE(hz_class_has_start(size_class, at(start, offset))) << i << " + " << offset;
            if (page->block_bytes > 16) {
                ASSERT_FALSE(hz_class_has_start(size_class, at(start, 16))) << i;
            }
        }
        size_t used = size_t{page->capacity} * page->block_bytes;
        size_t wrong = 0;
        for (size_t offset = 0; offset < used; offset++)
            wrong += hz_class_has_start(size_class, page->start + offset) != can_begin(page, offset);
        EXPECT_EQ(wrong, 0U);
        if (used < size_t{page->run_pages} * HZ_PAGE_BYTES) {
            EXPECT_FALSE(hz_class_has_start(size_class, page->start + used)) << "behind the last block";
        }
        unit::put(self_->shard, blocks);
    }
}

using InspectDeathTest = Inspect;

/* The quick look at a batch passes an address that would be right in another page of the run; a thorough one does not.
 */
TEST_F(InspectDeathTest, SomeBatchesAreLookedUpInTheirPages) {
    unsigned seen = 0;
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        Blocks blocks = unit::take(self_->shard, size_class, 1);
        const struct hz_page *page = hz_page_of(blocks[0]);
        void *wrong = nullptr;
        for (uint32_t i = 0; i < page->capacity; i++) {
            char *moved = page->start + size_t{i} * page->block_bytes % HZ_PAGE_BYTES;
            if (!hz_class_has_start(size_class, moved))
                wrong = moved;
        }
        if (wrong != nullptr && seen++ % 8 == 0) {
            ASSERT_TRUE(hz_class_may_have_start(size_class, wrong)) << size_class;
            EXPECT_DEATH(
                {
                    for (int i = 0; i < 16; i++)
                        hz_inspect_batch(self_, size_class, &wrong, 1);
                },
                "into the middle of a block: .*found later")
                << size_class;
        }
        unit::put(self_->shard, blocks);
    }
    EXPECT_GT(seen, 0U);
}

TEST_F(InspectDeathTest, AFreeAtTheLimitIsLookedAt) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        Blocks blocks = unit::take(self_->shard, size_class, 3);
        begin_anew(size_class);
        EXPECT_DEATH(hz_heap_free(at(blocks[0], 1)), "into the middle of a block: .*found in free");
        if (hz_class_bytes(size_class) > 16) {
            EXPECT_DEATH(hz_heap_free(at(blocks[0], 16)), "into the middle of a block: .*found in free");
        }
        EXPECT_DEATH(
            {
                for (int i : {0, 1, 2, 0})
                    hz_heap_free(blocks[static_cast<size_t>(i)]);
            },
            "double free of block: .*found in free: the thread's cache has it");
        EXPECT_DEATH(
            {
                unit::put(self_->shard, {blocks[1]});
                hz_heap_free(blocks[1]);
            },
            "double free of block: .*found in free: its page has it");
        unit::put(self_->shard, blocks);
    }
}

TEST_F(InspectDeathTest, WhileFreesAreWatchedEachSecondOneIsFound) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        uint32_t most = std::min<uint32_t>(HZ_FREES_WATCHED - 1, 2 * hz_bin_room(&self_->cache, size_class));
        for (uint32_t others : {0U, 1U, 2U, most / 3, most - 1}) {
            EXPECT_DEATH(
                {
                    self_->frees_watched = 0;
                    Blocks blocks;
                    for (uint32_t i = 0; i < others + 1; i++)
                        blocks.push_back(t_malloc(hz_class_bytes(size_class)));
                    begin_anew(size_class);
                    for (void *block : blocks)
                        hz_heap_free(block);
                    hz_heap_free(blocks[0]);
                },
                "double free of block: .*found in free")
                << others;
        }
    }
}

TEST_F(InspectDeathTest, TheNewestBlockIsNotFreedTwiceWhateverTheLimit) {
    for (unsigned size_class : unit::some_classes()) {
        void *block = t_malloc(hz_class_bytes(size_class));
        EXPECT_DEATH(
            {
                hz_heap_free(block);
                hz_heap_free(block);
            },
            "double free of block: .*found in free: the thread's cache has it");
        hz_heap_free(block);
    }
}

TEST_F(InspectDeathTest, BatchesAreLookedAt) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        auto count = static_cast<uint32_t>(hz_batch_count(size_class));
        Blocks blocks = unit::take(self_->shard, size_class, count);
        hz_inspect_batch(self_, size_class, blocks.data(), count);
        Blocks bad = blocks;
        bad.back() = at(bad.back(), 8);
        EXPECT_DEATH(hz_inspect_batch(self_, size_class, bad.data(), count),
                     "into the middle of a block: .*found later");
        bad.back() = at(blocks.back(), size_t{1} << 52);
        EXPECT_DEATH(hz_inspect_batch(self_, size_class, bad.data(), count),
                     "a pointer that is not from this allocator: .*found later");
        if (count > 1) {
            Blocks twice = blocks;
            twice.front() = twice.back();
            EXPECT_DEATH(
                {
                    for (int i = 0; i < 16; i++)
                        hz_inspect_batch(self_, size_class, twice.data(), count);
                },
                "double free of block: .*found later");
        }
        unit::put(self_->shard, blocks);
    }
}

} // namespace
