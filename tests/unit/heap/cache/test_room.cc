/* How many blocks a bin may hold: few at first, more with each visit to the slow paths. test_allowance.cc tests what
   many threads may have. */
#include "unit/heap/fixture.h"

#include <thread>

namespace {

using unit::Blocks;

class Room : public testing::Test {
  protected:
    void SetUp() override {
        self_ = unit::self();
        unit::forbid_idle_looks(self_); /* one would take room away in the midst of a test */
        hz_heap_purge();                /* empties bins and depot */
        for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
            room_set(size_class, hz_bin_first(size_class));
    }
    void TearDown() override {
        release();
        hz_heap_purge();
        EXPECT_EQ(support::live_bytes(), 0U);
    }
    void room_set(unsigned size_class, uint32_t room) {
        hz_bin_flush(self_, size_class, 0);
        hz_room_set(self_, size_class, room);
    }
    /* Frees what the test holds, and lets the bin begin anew: its room counts against the free share of the others. */
    void end(unsigned size_class) {
        release();
        room_set(size_class, hz_bin_first(size_class));
    }
    void take(unsigned size_class, size_t count) {
        for (size_t i = 0; i < count; i++)
            blocks_.push_back(t_malloc(hz_class_bytes(size_class)));
    }
    void release() {
        for (void *block : blocks_)
            t_free(block);
        blocks_.clear();
    }
    void visit(unsigned size_class) { /* the bin is empty before and after */
        uint64_t refills = self_->counters.refill;
        take(size_class, 1);
        EXPECT_EQ(self_->counters.refill, refills + 1);
        take(size_class, unit::bin_count(self_, size_class));
    }
    uint32_t room(unsigned size_class) {
        return hz_bin_room(&self_->cache, size_class);
    }
    static std::vector<unsigned> growing() {
        std::vector<unsigned> classes;
        for (unsigned size_class = 1; size_class <= unit::largest_short; size_class++)
            if (hz_bin_start(size_class) < hz_bin_capacity(size_class))
                classes.push_back(size_class);
        return classes;
    }
    struct hz_thread_block *self_ = nullptr;
    Blocks blocks_;
};

TEST_F(Room, TheTableSaysWhatTheKnobsSay) {
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        const struct hz_class_shape &shape = hz_class_shapes[size_class];
        EXPECT_EQ(shape.bytes, hz_class_bytes(size_class));
        EXPECT_EQ(shape.capacity, hz_bin_capacity(size_class));
        EXPECT_EQ(shape.first, hz_bin_first(size_class));
        EXPECT_EQ(shape.start, hz_bin_start(size_class));
        EXPECT_EQ(shape.batch, hz_batch_count(size_class));
        EXPECT_EQ(shape.depot_blocks, std::max(static_cast<size_t>(HZ_DEPOT_BYTES) / shape.bytes, size_t{shape.batch}));
    }
}

TEST_F(Room, DoublesWithEachVisit) {
    for (unsigned size_class = 1; size_class <= unit::largest_short; size_class++) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        for (uint32_t expected = hz_bin_first(size_class); expected < hz_bin_capacity(size_class);) {
            visit(size_class);
            expected = std::min(std::max(2 * expected, 1U), hz_bin_capacity(size_class));
            ASSERT_EQ(room(size_class), expected);
        }
        for (int i = 0; i < 3; i++)
            visit(size_class);
        EXPECT_EQ(room(size_class), hz_bin_capacity(size_class)) << "the room never exceeds the capacity";
        end(size_class);
    }
}

TEST_F(Room, DoublesWhenClassesAlternate) {
    std::vector<unsigned> classes = growing();
    if (classes.size() < 2)
        GTEST_SKIP() << "no two bins of this lane could grow";
    for (int i = 0; i < 20; i++) {
        visit(classes.front());
        visit(classes.back());
    }
    EXPECT_EQ(room(classes.front()), hz_bin_capacity(classes.front()));
    EXPECT_EQ(room(classes.back()), hz_bin_capacity(classes.back()));
}

TEST_F(Room, AFullBinGrowsInsteadOfFlushing) {
    if (growing().empty())
        GTEST_SKIP() << "in this lane bins have all their room from the start";
    for (unsigned size_class : growing()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        take(size_class, 2 * hz_bin_capacity(size_class));
        room_set(size_class, hz_bin_start(size_class));
        Blocks blocks;
        blocks.swap(blocks_);
        for (void *block : blocks) {
            uint32_t before = room(size_class);
            uint64_t flushes = self_->counters.flush;
            t_free(block);
            if (room(size_class) != before) {
                ASSERT_EQ(unit::bin_count(self_, size_class), before + 1) << "the bin was full";
                ASSERT_EQ(self_->counters.flush, flushes) << "the bin kept all blocks";
            }
        }
        EXPECT_EQ(room(size_class), hz_bin_capacity(size_class));
        end(size_class);
    }
}

/* A fork may copy the bin after its base was set and before its top. The copy is empty, and its new owner can use it.
 */
TEST_F(Room, ACopyOfABinThatMovesIsEmpty) {
    struct hz_cache *cache = &self_->cache;
    unsigned moved = 0;
    for (unsigned size_class = 1; size_class <= unit::largest_short; size_class++) {
        if (hz_slot_places.long_bases[size_class] == 0)
            continue;
        SCOPED_TRACE("class " + std::to_string(size_class));
        moved++;
        room_set(size_class, hz_bin_capacity(size_class));
        ASSERT_EQ(hz_bin_base_offset(cache, size_class), hz_slot_places.long_bases[size_class]);
        hz_store_rlx(&cache->bins[size_class].top,
                     static_cast<uint32_t>(hz_bin_offset(size_class))); /* where no slot of it is any more */
        EXPECT_EQ(hz_bin_held(cache, size_class), 0U);
        void *gone = nullptr;
        hz_bin_close_holes(cache, size_class, &gone);
        EXPECT_EQ(hz_load_rlx(&cache->bins[size_class].top), hz_slot_places.long_bases[size_class]);
        take(size_class, 3);
        release();
        EXPECT_GE(unit::bin_count(self_, size_class), 3U);
        end(size_class);
    }
    if (moved == 0)
        GTEST_SKIP() << "no bin of this lane has a long array";
}

/* From its first array to the short one, and to the long one, each bin takes its blocks along, in their order. */
TEST_F(Room, ABinMovesWithItsBlocks) {
    (void)unit::self();
    std::thread([] { t_free(t_malloc(1)); }).join();
    hz_thread_blocks_purge(); /* the next thread's bins begin anew */
    std::thread([] {
        struct hz_thread_block *self = unit::self();
        struct hz_cache *cache = &self->cache;
        for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
            SCOPED_TRACE("class " + std::to_string(size_class));
            uint32_t first = hz_bin_slots_first(size_class);
            ASSERT_LT(hz_bin_base_offset(cache, size_class), hz_slot_places.short_bases[size_class]);
            hz_room_set(self, size_class, first);
            ASSERT_LT(hz_bin_base_offset(cache, size_class), hz_slot_places.short_bases[size_class]) << "it fits";
            Blocks blocks = unit::take(self->shard, size_class, first);
            for (uint32_t room : {first, hz_bin_slots_short(size_class), hz_bin_capacity(size_class)}) {
                for (void *block : blocks)
                    hz_bin_push(cache, &cache->bins[size_class], hz_load_rlx(&cache->bins[size_class].top),
                                hz_slot_load_rlx(&cache->bins[size_class].newest), block);
                hz_room_set(self, size_class, room);
                ASSERT_EQ(hz_bin_held(cache, size_class), first);
                for (size_t i = blocks.size(); i-- > 0;)
                    ASSERT_EQ(hz_bin_pop(cache, &cache->bins[size_class]), blocks[i]);
                ASSERT_EQ(hz_bin_pop(cache, &cache->bins[size_class]), nullptr);
            }
            uint32_t last = hz_bin_slots_long(size_class) > 0        ? hz_slot_places.long_bases[size_class]
                            : hz_bin_slots_short(size_class) > first ? hz_slot_places.short_bases[size_class]
                                                                     : 0;
            if (last != 0) {
                EXPECT_EQ(hz_bin_base_offset(cache, size_class), last);
            }
            hz_blocks_send(self, blocks.data(), static_cast<uint32_t>(blocks.size()));
        }
        unsigned last = unit::class_count - 1;
        EXPECT_EQ(hz_slot_places.countings,
                  hz_slot_places.new_bases[last] + (1 + hz_bin_slots_first(last)) * sizeof(void *))
            << "behind the first arrays";
        EXPECT_LE(hz_slot_places.countings + HZ_COUNTINGS * sizeof(struct hz_counting), hz_slot_places.short_bases[1]);
    }).join();
}

/* A refill puts few blocks into the first array, and more than it has slots for into the short one. */
TEST_F(Room, OnlyALongBatchLeavesTheFirstArray) {
    const unsigned size_class = 7;
    if (HZ_HAS_DEPOT == 0)
        GTEST_SKIP() << "this lane has no depot for the class";
    hz_thread_blocks_purge();
    std::thread([] {
        struct hz_thread_block *self = unit::self();
        struct hz_cache *cache = &self->cache;
        for (uint32_t count : {hz_bin_slots_first(size_class), hz_bin_slots_first(size_class) + 1}) {
            Blocks blocks = unit::take(self->shard, size_class, count);
            ASSERT_TRUE(hz_depot_push(self, size_class, blocks.data(), count));
            ASSERT_EQ(hz_depot_pop(self, size_class, nullptr), count);
            bool is_first = hz_bin_base_offset(cache, size_class) < hz_slot_places.short_bases[size_class];
            EXPECT_EQ(is_first, count <= hz_bin_slots_first(size_class));
            void **slots = hz_bin_base(cache, size_class) + 1;
            EXPECT_EQ(Blocks(slots, slots + count), blocks);
            hz_blocks_send(self, slots, count);
        }
    }).join();
}

TEST_F(Room, ABinThatMovesLosesNoBlock) {
    for (unsigned size_class : growing()) {
        take(size_class, 8);
        release();
        room_set(size_class, hz_bin_first(size_class));
        take(size_class, 2);
        release();
        EXPECT_GE(unit::bin_count(self_, size_class), 2U);
        hz_room_set(self_, size_class, hz_bin_capacity(size_class));
        EXPECT_EQ(room(size_class), hz_bin_capacity(size_class));
        end(size_class);
    }
    hz_heap_purge();
    EXPECT_EQ(support::live_bytes(), 0U);
}

TEST_F(Room, ALongBatchMakesRoom) {
    unsigned longer = 0;
    for (unsigned size_class : growing()) {
        if (HZ_HAS_DEPOT == 0)
            continue;
        SCOPED_TRACE("class " + std::to_string(size_class));
        uint32_t batch = hz_batch_count(size_class);
        uint32_t expected = std::min(2 * hz_bin_first(size_class), hz_bin_capacity(size_class));
        longer += batch > expected;
        expected = std::max(expected, batch / 2 * 2); /* for all but the block that malloc returns; rooms are even */
        Blocks blocks = unit::take(self_->shard, size_class, batch);
        ASSERT_TRUE(hz_depot_push(self_, size_class, blocks.data(), batch));
        take(size_class, 1);
        EXPECT_EQ(unit::bin_count(self_, size_class), batch - 1);
        EXPECT_EQ(room(size_class), expected);
        end(size_class);
    }
    if (longer == 0)
        GTEST_SKIP() << "no batch of this lane is longer than a bin's first room";
}

/* The next thread that gets the thread block finds half of it, so each thread that visits a class once leaves the room
   that it found. */
TEST_F(Room, HalfOfItStaysWithTheThreadBlock) {
    if (growing().empty())
        GTEST_SKIP() << "in this lane bins have all their room from the start";
    unsigned size_class = growing().front();
    uint32_t left = hz_bin_capacity(size_class);
    struct hz_thread_block *first = nullptr;
    std::thread([&] {
        first = unit::self();
        hz_room_set(first, size_class, left);
    }).join();
    while (left > hz_bin_first(size_class)) {
        left = std::max(left / 2 & ~1U, hz_bin_first(size_class));
        std::thread([&] {
            struct hz_thread_block *next = unit::self();
            ASSERT_EQ(next, first);
            EXPECT_EQ(hz_bin_room(&next->cache, size_class), left);
        }).join();
    }
    for (int i = 0; i < 5; i++)
        std::thread([&] {
            hz_heap_free(hz_heap_malloc(hz_class_bytes(size_class)));
            EXPECT_LE(hz_bin_room(&unit::self()->cache, size_class), 2 * hz_bin_first(size_class));
        }).join();
}

/* Whatever its room, no bin ever holds more. */
TEST_F(Room, BinsHoldNoMoreThanTheirRoom) {
    for (unsigned size_class : unit::some_short_and_long_classes())
        for (uint32_t round = 1; round <= 4; round++) {
            Blocks blocks;
            for (uint32_t i = 0; i < round * hz_bin_capacity(size_class); i++)
                blocks.push_back(t_malloc(hz_class_bytes(size_class)));
            for (void *block : blocks) {
                t_free(block);
                ASSERT_LE(unit::bin_count(self_, size_class), room(size_class));
            }
            ASSERT_LE(room(size_class), hz_bin_capacity(size_class));
        }
}

} // namespace
