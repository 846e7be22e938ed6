/* free: which blocks stay with the thread, and which wait in the remote buffer. */
#include "unit/heap/owners.h"

namespace {

using unit::Blocks;

class Free : public unit::Owners {};

TEST_F(Free, KeepsBlocksOfOthersUnlessTheirClassIsHome) {
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        uint32_t count = hz_class_is_long(size_class) ? 1 : 2;
        Blocks blocks = unit::take(shards_[0], size_class, count);
        bool home = hz_class_is_home(size_class);
        hz_room_set(self_, size_class, 2); /* all bins of long blocks together have too little */
        for (void *block : blocks)
            hz_heap_free(block);
        ASSERT_EQ(unit::bin_count(self_, HZ_REMOTE_BIN), home ? count : 0U);
        ASSERT_EQ(unit::bin_count(self_, size_class), home ? 0U : count);
        ASSERT_EQ(unit::waiting(shards_[0], size_class), 0U) << "blocks wait in the remote buffer until it is flushed";
        hz_thread_flush(self_);
        ASSERT_EQ(unit::waiting(shards_[0], size_class), unit::waits(count));
        ASSERT_EQ(unit::bin_count(self_, size_class) + unit::bin_count(self_, HZ_REMOTE_BIN), 0U);
        hz_room_set(self_, size_class, hz_bin_first(size_class));
    }
}

TEST_F(Free, KeepsOwnBlocksOfAnyClass) {
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        Blocks blocks = unit::take(own_, size_class, 2);
        hz_room_set(self_, size_class, 2); /* all bins of long blocks together have too little */
        for (void *block : blocks)
            hz_heap_free(block);
        ASSERT_EQ(unit::bin_count(self_, HZ_REMOTE_BIN), 0U) << "class " << size_class;
        ASSERT_EQ(unit::bin_count(self_, size_class), 2U) << "class " << size_class;
        hz_thread_flush(self_);
        hz_room_set(self_, size_class, hz_bin_first(size_class));
    }
}

/* Once free has got a block of another shard, it asks for the owner in another way, until the next tick. */
TEST_F(Free, TheOwnerThatIsExpectedDecidesNothing) {
    const unsigned large = hz_class_of(HZ_SMALL_MAX);
    for (uint8_t expected : {self_->owner, static_cast<uint8_t>(HZ_OWNER_NONE)}) {
        for (struct hz_shard *shard : {own_, shards_[0]}) {
            for (unsigned size_class : {3U, large}) {
                SCOPED_TRACE("class " + std::to_string(size_class) + ", expected " + std::to_string(expected));
                self_->owner_expected = expected;
                hz_heap_free(unit::take(shard, size_class, 1)[0]);
                bool goes_home = shard != own_ && hz_class_is_home(size_class);
                EXPECT_EQ(unit::bin_count(self_, HZ_REMOTE_BIN), goes_home ? 1U : 0U);
                EXPECT_EQ(unit::bin_count(self_, size_class), goes_home ? 0U : 1U);
                if (HZ_HAS_HOME && shard != own_)
                    EXPECT_EQ(self_->owner_expected, HZ_OWNER_NONE);
                else
                    EXPECT_EQ(self_->owner_expected, expected);
                hz_thread_flush(self_);
            }
        }
    }
    for (int i = 0; i < 100; i++)
        hz_tick(self_, 1);
    EXPECT_EQ(self_->owner_expected, self_->owner);
    hz_heap_free(NULL);
    EXPECT_EQ(self_->owner_expected, self_->owner);
}

TEST_F(Free, AFullRemoteBufferIsSent) {
    std::vector<unsigned> classes = unit::some_classes(hz_class_is_home);
    if (classes.empty())
        GTEST_SKIP() << "no class of this lane goes home";
    constexpr auto room = static_cast<uint32_t>(HZ_REMOTE_COUNT);
    Blocks blocks; /* of all home classes, since one buffer serves all of them */
    std::map<unsigned, uint32_t> sent;
    for (uint32_t i = 0; i <= room; i++) {
        unsigned size_class = classes[i % classes.size()];
        blocks.push_back(unit::take(shards_[0], size_class, 1)[0]);
        if (i < room)
            sent[size_class]++;
    }
    struct hz_counters before = self_->counters;
    for (uint32_t i = 0; i < room; i++) {
        hz_heap_free(blocks[i]);
        ASSERT_EQ(unit::bin_count(self_, HZ_REMOTE_BIN), i + 1);
    }
    EXPECT_EQ(self_->counters.home_blocks, before.home_blocks);
    hz_heap_free(blocks[room]);
    struct hz_counters after = self_->counters;
    EXPECT_EQ(unit::bin_count(self_, HZ_REMOTE_BIN), 1U) << "the full buffer was sent before the push";
    const bool has_stacks = HZ_DEPOT_BYTES > 0 && !HZ_WAY_IS_QUEUES; /* for four blocks and more */
    for (const auto &[size_class, count] : sent)
        EXPECT_EQ(unit::waiting(shards_[0], size_class) + hz_depot_blocks(size_class),
                  has_stacks ? count : unit::waits(count))
            << "class " << size_class;
    EXPECT_EQ(after.remote_full - before.remote_full, 1U);
    EXPECT_EQ(after.remote_flush_calls - before.remote_flush_calls, 1U);
    EXPECT_EQ(after.remote_free - before.remote_free, room);
    EXPECT_EQ(after.flush, before.flush) << "no bin was full";
}

} // namespace
