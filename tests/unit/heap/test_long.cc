/* Long blocks: those of the classes above 64 KiB. Bins pay for the room of each of them, and their pages go back to the
   arena as soon as all blocks are home. */
#include "stress/children.h"
#include "unit/heap/at_rest.h"
#include "unit/heap/worker.h"

#include <algorithm>
#include <set>

namespace {

using children::require;
using support::KiB;
using support::MiB;
using unit::Blocks;

constexpr size_t long_room_bytes = 2 * MiB; /* of all bins of long blocks of a thread together */

size_t room_of_long_bins(struct hz_thread_block *thread) {
    size_t bytes = 0;
    for (unsigned size_class = HZ_LONG_CLASS_FIRST; size_class < unit::class_count; size_class++)
        bytes += hz_bin_room(&thread->cache, size_class) * hz_class_bytes(size_class);
    return bytes;
}

size_t held_by_long_bins(struct hz_thread_block *thread) {
    size_t bytes = 0;
    for (unsigned size_class = HZ_LONG_CLASS_FIRST; size_class < unit::class_count; size_class++)
        bytes += unit::bin_count(thread, size_class) * hz_class_bytes(size_class);
    return bytes;
}

class Long : public testing::Test {
  protected:
    void SetUp() override {
        self_ = unit::self();
        hz_heap_purge();
        unit::forget_sparse();
        unit::forbid_idle_looks(self_);
        self_->frees_watched = HZ_FREES_WATCHED;
        for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
            hz_room_set(self_, size_class, hz_bin_first(size_class));
    }
    void TearDown() override {
        hz_heap_purge();
        EXPECT_EQ(support::live_bytes(), 0U);
        EXPECT_EQ(hz_pages_bytes(), 0U) << "a block did not come home";
    }
    struct hz_counters counters() {
        return self_->counters;
    }
    /* The bin begins anew, and other bins can have its room. */
    void drop(unsigned size_class) {
        hz_bin_send_home(self_, size_class);
        hz_room_set(self_, size_class, hz_bin_first(size_class));
    }
    /* Leaves no room for bins of long blocks but that of the largest class. No bin is emptied for another one. */
    void use_up_room() {
        hz_room_set(self_, unit::class_count - 1, 1);
        ASSERT_EQ(room_of_long_bins(self_), long_room_bytes);
        self_->searched_at = self_->visits;
    }
    struct hz_thread_block *self_ = nullptr;
};

/* ---- sizes ---- */

TEST_F(Long, AtMostAnEighthOfTheSizeIsUnused) {
    for (size_t size = HZ_RUN_ABOVE_BYTES; size <= HZ_CLASS_BYTES_MAX; size += 61) {
        size_t bytes = hz_query_bytes_for(size);
        ASSERT_GE(bytes, size);
        ASSERT_LE(bytes - size, size / 8) << size;
    }
}

TEST_F(Long, MallocHasAClassUpToTheLargest) {
    for (size_t size : {size_t{HZ_RUN_ABOVE_BYTES}, size_t{HZ_RUN_ABOVE_BYTES} + 1, MiB - 1, MiB, MiB + 1,
                        size_t{HZ_CLASS_BYTES_MAX} - 1, size_t{HZ_CLASS_BYTES_MAX}}) {
        void *block = t_malloc(size);
        EXPECT_EQ(hz_pagetag_class(block), hz_class_of(size)) << size;
        EXPECT_TRUE(support::usable_fits(t_usable_size(block), size)) << size;
        EXPECT_EQ(t_usable_size(block) + hz_query_offset(block), hz_class_bytes(hz_class_of(size)));
        support::fill(block, t_usable_size(block), size);
        EXPECT_TRUE(support::holds(block, t_usable_size(block), size));
        t_free(block);
        drop(hz_class_of(size));
    }
    void *larger = t_malloc(size_t{HZ_CLASS_BYTES_MAX} + 1);
    EXPECT_EQ(hz_pagetag_class(larger), static_cast<unsigned>(HZ_CLASS_LARGE));
    t_free(larger);
}

/* These are runs of pages: they can grow where they are, and above 512 KiB calloc knows which of their pages are zero.
 */
TEST_F(Long, GrownFarAlignedAndLongZeroedBlocksHaveNoClass) {
    auto is_large = [](void *block) { return hz_pagetag_class(block) == HZ_CLASS_LARGE; };
    for (size_t size : {size_t{HZ_RUN_ABOVE_BYTES} + 1, 100 * KiB, 512 * KiB, MiB, size_t{HZ_CLASS_BYTES_MAX}}) {
        void *zeroed = t_calloc(1, size);
        EXPECT_EQ(is_large(zeroed), size > 512 * KiB) << size;
        void *aligned = t_aligned_alloc(2 * unit::page_bytes, size);
        EXPECT_TRUE(is_large(aligned)) << size;
        void *grown = t_realloc(t_malloc(100), size);
        EXPECT_TRUE(is_large(grown)) << size;
        void *near = t_aligned_alloc(unit::page_bytes, size);
        if (size <= 512 * KiB) { /* above, a block is a run, too, if its bin has no room */
            EXPECT_FALSE(is_large(near)) << size;
        }
        EXPECT_TRUE(support::aligned_to(near, unit::page_bytes)) << size;
        unsigned size_class = hz_class_of_aligned(size, unit::page_bytes);
        for (void *block : {zeroed, aligned, grown, near})
            t_free(block);
        drop(size_class);
    }
    void *short_one = t_calloc(1, HZ_RUN_ABOVE_BYTES);
    EXPECT_FALSE(is_large(short_one));
    t_free(short_one);
    void *long_one = t_calloc(1, 512 * KiB + 1);
    EXPECT_TRUE(is_large(long_one));
    t_free(long_one);
}

/* ---- a thread's bins ---- */

TEST_F(Long, PairsOfOneSizeTakeNoSlowPath) {
    for (unsigned size_class = HZ_LONG_CLASS_FIRST; size_class < unit::class_count; size_class++) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        size_t bytes = hz_class_bytes(size_class);
        for (int i = 0; i < 4; i++)
            t_free(t_malloc(bytes));
        ASSERT_EQ(unit::bin_count(self_, size_class), 1U);
        struct hz_counters before = counters();
        uint32_t visits = self_->visits;
        void *first = t_malloc(bytes);
        t_free(first);
        for (int i = 0; i < 1000; i++) {
            void *block = t_malloc(bytes);
            ASSERT_EQ(block, first);
            t_free(block);
        }
        EXPECT_EQ(self_->visits, visits);
        EXPECT_EQ(counters().refill, before.refill);
        EXPECT_EQ(counters().flush, before.flush);
        EXPECT_EQ(counters().home_blocks, before.home_blocks);
        drop(size_class);
    }
}

TEST_F(Long, ANewBinHasNoRoomAndPaysForEachBlock) {
    for (unsigned size_class = HZ_LONG_CLASS_FIRST; size_class < unit::class_count; size_class++) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        EXPECT_EQ(hz_bin_new(size_class), 0U);
        EXPECT_EQ(hz_bin_first(size_class), 0U);
        EXPECT_GE(hz_bin_capacity(size_class), 2U);
        ptrdiff_t before = self_->room_bytes;
        ptrdiff_t long_before = self_->long_room_bytes;
        for (uint32_t room : {1U, 2U, hz_bin_capacity(size_class), 1U, 0U}) {
            hz_room_set(self_, size_class, room);
            auto charge = static_cast<ptrdiff_t>(room * hz_class_bytes(size_class));
            EXPECT_EQ(self_->room_bytes - before, charge);
            EXPECT_EQ(self_->long_room_bytes - long_before, charge);
        }
    }
    EXPECT_EQ(self_->long_room_bytes, 0);
    hz_room_set(self_, unit::largest_short, hz_bin_capacity(unit::largest_short));
    EXPECT_EQ(self_->long_room_bytes, 0) << "other classes do not count";
}

/* Whatever a thread does, all its bins of long blocks together have room for 2 MiB. */
TEST_F(Long, AllBinsTogetherHaveLittleRoom) {
    support::Random random(7);
    Blocks blocks(64);
    size_t most = 0;
    size_t differing = 0;
    for (int i = 0; i < 20000; i++) {
        void *&block = blocks[random.below(blocks.size())];
        t_free(block);
        unsigned size_class = static_cast<unsigned>(random.between(HZ_LONG_CLASS_FIRST, unit::class_count - 1));
        block = random.below(8) == 0 ? nullptr : t_malloc(hz_class_bytes(size_class));
        most = std::max(most, room_of_long_bins(self_));
        differing += static_cast<size_t>(self_->long_room_bytes) != room_of_long_bins(self_);
        differing += held_by_long_bins(self_) > room_of_long_bins(self_);
    }
    for (void *block : blocks)
        t_free(block);
    EXPECT_LE(std::max(most, room_of_long_bins(self_)), long_room_bytes);
    EXPECT_GT(most, long_room_bytes / 2);
    EXPECT_EQ(differing, 0U);
}

/* A batch of the depot may come from a thread whose bin has more room than this thread may have. */
TEST_F(Long, ABatchOfTheDepotKeepsToTheRoomToo) {
    if (HZ_DEPOT_BYTES == 0)
        GTEST_SKIP() << "this lane has no depot";
    unit::OnCpu here;
    use_up_room();
    for (unsigned size_class = HZ_LONG_CLASS_FIRST; size_class < HZ_LONG_CLASS_FIRST + 16U; size_class++) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        uint32_t batch = hz_batch_count(size_class);
        self_->searched_at = self_->visits;
        Blocks resting = unit::take(self_->shard, size_class, batch);
        ASSERT_TRUE(hz_depot_push(self_, size_class, resting.data(), batch));
        void *block = t_malloc(hz_class_bytes(size_class));
        EXPECT_LE(room_of_long_bins(self_), long_room_bytes);
        EXPECT_EQ(static_cast<size_t>(self_->long_room_bytes), room_of_long_bins(self_));
        t_free(block);
    }
}

/* Without room a block goes home at once, and its page to the arena. */
TEST_F(Long, BeyondTheRoomABlockGoesHome) {
    use_up_room();
    for (unsigned size_class = HZ_LONG_CLASS_FIRST; size_class < unit::class_count - 1; size_class++) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        self_->searched_at = self_->visits;
        Blocks blocks = unit::take(self_->shard, size_class, 1);
        uint64_t home = counters().home_blocks;
        hz_heap_free(blocks[0]);
        EXPECT_EQ(unit::bin_count(self_, size_class), 0U);
        EXPECT_EQ(hz_bin_room(&self_->cache, size_class), 0U);
        EXPECT_EQ(counters().home_blocks - home, 1U);
        EXPECT_EQ(hz_class_blocks(size_class), 0U) << "its page is the arena's again";
        EXPECT_EQ(hz_depot_blocks(size_class), 0U);
    }
    EXPECT_EQ(hz_bin_room(&self_->cache, unit::class_count - 1), 1U);
}

/* A run of pages does as well then, and needs no page's description. */
TEST_F(Long, WithoutRoomWholePagesAreALargeBlock) {
    use_up_room();
    for (unsigned size_class = HZ_LONG_CLASS_FIRST; size_class < unit::class_count - 1; size_class++) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        size_t bytes = hz_class_bytes(size_class);
        self_->searched_at = self_->visits;
        void *block = t_malloc(bytes - 100);
        EXPECT_EQ(hz_pagetag_class(block), hz_class_is_run(size_class) ? unsigned{HZ_CLASS_LARGE} : size_class);
        EXPECT_EQ(t_usable_size(block) + hz_query_offset(block), bytes) << "of either kind";
        EXPECT_TRUE(support::usable_fits(t_usable_size(block), bytes - 100));
        support::fill(block, t_usable_size(block), size_class);
        EXPECT_TRUE(support::holds(block, t_usable_size(block), size_class));
        self_->searched_at = self_->visits;
        t_free(block);
        EXPECT_EQ(unit::bin_count(self_, size_class), 0U);
    }
}

/* A thread that goes on to another size gets the room of the bin that it no longer uses. */
TEST_F(Long, AnOldBinGivesItsRoomToAnother) {
    unsigned old = unit::class_count - 1;
    unsigned used = hz_class_of(MiB);
    t_free(t_malloc(hz_class_bytes(old)));
    ASSERT_EQ(hz_bin_room(&self_->cache, old), 1U);
    for (int i = 0; i < 200; i++)
        t_free(t_malloc(hz_class_bytes(used)));
    EXPECT_EQ(unit::bin_count(self_, used), 1U);
    EXPECT_EQ(hz_bin_room(&self_->cache, old), 0U);
    EXPECT_EQ(unit::bin_count(self_, old), 0U);
    uint32_t visits = self_->visits;
    t_free(t_malloc(hz_class_bytes(used)));
    EXPECT_EQ(self_->visits, visits) << "it has its block now";
}

/* What an idle bin has room for is free for others. */
TEST_F(Long, AnIdleBinHasNoRoomLeft) {
    for (unsigned size_class : unit::some_long_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        hz_room_set(self_, size_class, hz_bin_capacity(size_class));
        for (void *block : unit::take(self_->shard, size_class, 2))
            hz_heap_free(block);
        ASSERT_EQ(unit::bin_count(self_, size_class), 2U);
        uint64_t now = hz_os_now_ms();
        self_->idle_next = 0;
        self_->idle_at_ms = 0;
        for (unsigned rounds = 0; rounds < 8; rounds++) {
            now += HZ_DEPOT_AGE_MS;
            do
                hz_idle_bins_flush(self_, 0, now);
            while (self_->idle_next != 0);
        }
        EXPECT_EQ(unit::bin_count(self_, size_class), 0U);
        EXPECT_EQ(hz_bin_room(&self_->cache, size_class), 0U);
        unit::forbid_idle_looks(self_);
    }
    EXPECT_EQ(self_->long_room_bytes, 0);
}

/* As many as there were, wherever a block goes: into a bin, on from a full one, or home because no bin has room. */
TEST_F(Long, AllFreesAreCounted) {
    if (!HZ_CONFIG_STATS)
        GTEST_SKIP() << "counted in the stats build only";
    auto frees = [] { return unit::report()["mid.free_calls"]; };
    for (unsigned size_class : unit::some_long_classes())
        for (uint32_t room : {0U, 1U, hz_bin_capacity(size_class)}) {
            SCOPED_TRACE("class " + std::to_string(size_class) + ", room " + std::to_string(room));
            Blocks blocks = unit::take(self_->shard, size_class, 8);
            hz_room_set(self_, size_class, room);
            self_->long_room_bytes += 2 * long_room_bytes; /* as if the bins of others had all of it */
            double before = frees();
            for (void *block : blocks) {
                self_->searched_at = self_->visits;
                hz_heap_free(block);
            }
            EXPECT_EQ(frees() - before, 8);
            EXPECT_EQ(hz_bin_room(&self_->cache, size_class), room);
            self_->long_room_bytes -= 2 * long_room_bytes;
            drop(size_class);
        }
}

/* ---- memory ---- */

TEST_F(Long, APurgeGivesAllOfItBack) {
    Blocks blocks;
    for (unsigned size_class = HZ_LONG_CLASS_FIRST; size_class < unit::class_count; size_class++)
        for (int i = 0; i < 2; i++) {
            blocks.push_back(t_malloc(hz_class_bytes(size_class)));
            memset(blocks.back(), 1, hz_class_bytes(size_class));
        }
    size_t bytes = support::live_bytes();
    ASSERT_GT(bytes, 40 * MiB);
    for (void *block : blocks)
        t_free(block);
    struct hz_stats stats = {};
    ASSERT_EQ(t_stats_get(&stats), 0);
    EXPECT_EQ(stats.live_bytes, 0U);
    EXPECT_LE(held_by_long_bins(self_), long_room_bytes);
    hz_purge();
    ASSERT_EQ(t_stats_get(&stats), 0);
    EXPECT_EQ(stats.resident_bytes, 0U);
    EXPECT_EQ(stats.cached_bytes, 0U);
    EXPECT_EQ(hz_pages_bytes(), 0U);
}

TEST_F(Long, ReusedMemoryIsZeroForCalloc) {
    for (size_t size : {size_t{HZ_RUN_ABOVE_BYTES}, size_t{HZ_RUN_ABOVE_BYTES} + 1, 88 * KiB, 160 * KiB, MiB,
                        size_t{HZ_CLASS_BYTES_MAX}, size_t{HZ_CLASS_BYTES_MAX} + 1}) {
        Blocks blocks;
        for (int i = 0; i < 6; i++) {
            blocks.push_back(t_malloc(size));
            memset(blocks.back(), 0xee, t_usable_size(blocks.back()));
        }
        for (void *block : blocks)
            t_free(block);
        for (void *&block : blocks) {
            block = t_calloc(1, size);
            ASSERT_TRUE(support::is_zero(block, size)) << size;
            memset(block, 0xee, t_usable_size(block));
        }
        for (void *block : blocks)
            t_free(block);
    }
}

/* ---- other threads ---- */

TEST_F(Long, FreedByAnotherThreadItComesHome) {
    for (unsigned size_class : unit::some_long_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        Blocks blocks;
        for (int i = 0; i < 12; i++) {
            blocks.push_back(t_malloc(hz_class_bytes(size_class)));
            support::fill(blocks.back(), hz_class_bytes(size_class), reinterpret_cast<uintptr_t>(blocks.back()));
        }
        std::thread([&] {
            for (void *block : blocks) {
                EXPECT_TRUE(support::holds(block, hz_class_bytes(size_class), reinterpret_cast<uintptr_t>(block)));
                t_free(block);
            }
            EXPECT_LE(held_by_long_bins(unit::self()), long_room_bytes);
        }).join();
        EXPECT_EQ(support::live_bytes(), 0U);
        hz_heap_purge();
        EXPECT_EQ(hz_class_blocks(size_class), 0U);
    }
}

TEST_F(Long, ThreadsPassThemToEachOther) {
    constexpr unsigned threads = 4;
    std::vector<std::atomic<uint64_t *>> table(32);
    std::atomic<size_t> wrong{0};
    unit::together(threads, [&](unsigned index) {
        support::Random random(index);
        for (unsigned i = 0; i < unit::rounds(20000); i++) {
            size_t size = random.between(HZ_RUN_ABOVE_BYTES - 4096, random.below(4) == 0 ? 3 * MiB : 200 * KiB);
            auto *block = static_cast<uint64_t *>(random.below(8) == 0 ? t_calloc(1, size) : t_malloc(size));
            block[0] = size;
            block[size / 8 - 1] = ~size;
            uint64_t *old = table[random.below(table.size())].exchange(block);
            if (old == nullptr)
                continue;
            wrong += old[old[0] / 8 - 1] != ~old[0] || t_usable_size(old) < old[0];
            if (random.below(8) == 0)
                old = static_cast<uint64_t *>(t_realloc(old, random.between(60 * KiB, 300 * KiB)));
            t_free(old);
        }
        EXPECT_LE(room_of_long_bins(unit::self()), long_room_bytes);
    });
    for (auto &slot : table)
        t_free(slot.load());
    EXPECT_EQ(wrong, 0U);
}

/* The child gets what rests in the bins of threads that it does not have. */
TEST_F(Long, AForkWhileOtherThreadsHaveSome) {
    unit::Worker worker;
    worker.run([] {
        for (unsigned size_class : unit::some_long_classes())
            for (int i = 0; i < 3; i++)
                t_free(t_malloc(hz_class_bytes(size_class)));
        require(held_by_long_bins(unit::self()) > 0, "the thread's bins have blocks");
    });
    void *live = t_malloc(MiB);
    support::fill(live, MiB, 1);
    children::expect_good_end(children::start([&] {
        require(support::holds(live, MiB, 1), "the parent's block is there");
        t_free(live);
        for (unsigned size_class : unit::some_long_classes()) {
            Blocks blocks;
            for (int i = 0; i < 6; i++) {
                blocks.push_back(t_malloc(hz_class_bytes(size_class)));
                memset(blocks.back(), 1, hz_class_bytes(size_class));
            }
            require(std::set<void *>(blocks.begin(), blocks.end()).size() == 6, "no block is handed out twice");
            for (void *block : blocks)
                t_free(block);
        }
        hz_purge();
        require(support::live_bytes() == 0, "nothing is lost");
        require(hz_pages_bytes() == 0, "every block is home");
        return 0;
    }));
    t_free(live);
}

/* ---- misuse ---- */

using LongDeathTest = Long;

TEST_F(LongDeathTest, ASecondFreeIsFound) {
    for (unsigned size_class : unit::some_long_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        size_t bytes = hz_class_bytes(size_class);
        for (uint32_t room : {0U, 2U}) {
            void *block = unit::take(self_->shard, size_class, 1)[0];
            hz_room_set(self_, size_class, room);
            hz_bin_limit_set(&self_->cache, size_class, 0);
            EXPECT_DEATH(
                {
                    hz_heap_free(block);
                    hz_heap_free(block);
                },
                "double free of block: .*found in free")
                << bytes << " bytes, room " << room;
            unit::put(self_->shard, {block});
            hz_room_set(self_, size_class, 0);
        }
    }
}

/* A neighbour keeps the page, so the address is a block's start even when the block is home. */
TEST_F(LongDeathTest, ASecondFreeIsFoundThoughThePageStays) {
    unsigned size_class = HZ_LONG_CLASS_FIRST;
    Blocks blocks = unit::take(self_->shard, size_class, 2);
    ASSERT_EQ(hz_page_of(blocks[0]), hz_page_of(blocks[1]));
    for (uint32_t watched : {uint32_t{0}, uint32_t{HZ_FREES_WATCHED}})
        EXPECT_DEATH(
            {
                use_up_room();
                self_->frees_watched = watched;
                hz_free_slow(blocks[0]);
                self_->searched_at = self_->visits;
                hz_free_slow(blocks[0]);
            },
            "double free of block: ")
            << watched;
    unit::put(self_->shard, blocks);
}

TEST_F(LongDeathTest, AnAddressInsideIsFound) {
    for (unsigned size_class : unit::some_long_classes()) {
        size_t bytes = hz_class_bytes(size_class);
        auto *block = static_cast<char *>(t_malloc(bytes));
        for (size_t offset : {size_t{8}, size_t{16}, hz_class_grid(size_class), unit::page_bytes, bytes - 16})
            EXPECT_DEATH(hz_heap_free(block + offset), "into the middle of a block: .*found in free")
                << bytes << " bytes, offset " << offset;
        t_free(block);
    }
}

} // namespace
