/* A full bin loses its oldest blocks: to the depot, or home. The remote buffer is passed on as a whole. */
#include "unit/heap/cache/bins.h"
#include "unit/heap/owners.h"

#include <algorithm>
#include <thread>

namespace {

using unit::Blocks;

class Flush : public unit::EmptyBins {};

TEST_F(Flush, FullBinKeepsTheNewestHalf) {
    for (unsigned size_class : unit::some_classes()) {
        uint32_t capacity = hz_bin_capacity(size_class);
        Blocks blocks = allocate(size_class, capacity + 1);
        hz_bin_flush(self_, size_class, 0);
        uint64_t flushes = counters().flush;
        for (uint32_t i = 0; i < capacity; i++)
            t_free(blocks[i]);
        EXPECT_EQ(held(size_class), capacity);
        EXPECT_EQ(counters().flush, flushes);
        t_free(blocks[capacity]);
        EXPECT_EQ(counters().flush, flushes + 1);
        EXPECT_EQ(held(size_class), capacity / 2 + 1);
        for (uint32_t i = 0; i <= capacity / 2; i++) {
            Blocks one = allocate(size_class, 1);
            ASSERT_EQ(one[0], blocks[capacity - i]) << "the newest blocks stay, in order";
        }
        Blocks rest(blocks.begin() + capacity - capacity / 2, blocks.end());
        free_all(rest);
    }
}

TEST_F(Flush, FlushKeepsAsManyAsTheCallerWants) {
    unsigned size_class = 2;
    Blocks blocks = allocate(size_class, 20);
    hz_bin_flush(self_, size_class, 0);
    free_all(blocks);
    for (uint32_t keep : {30U, 20U, 13U, 13U, 1U, 0U, 0U}) {
        hz_bin_flush(self_, size_class, keep);
        EXPECT_EQ(held(size_class), std::min(keep, 20U));
        if (keep > 0) {
            void *top = t_malloc(hz_class_bytes(size_class));
            EXPECT_EQ(top, blocks[19]);
            t_free(top);
        }
    }
}

TEST_F(Flush, SurplusOfOtherClassesGoesHome) {
    std::vector<unsigned> classes = unit::some_classes([](unsigned) { return HZ_HAS_DEPOT == 0; });
    if (classes.empty())
        GTEST_SKIP() << "every class of this lane may rest in the depot";
    for (unsigned size_class : classes) {
        Blocks blocks = allocate(size_class, hz_bin_capacity(size_class));
        hz_bin_flush(self_, size_class, 0);
        free_all(blocks);
        uint64_t home = counters().home_blocks;
        hz_bin_flush(self_, size_class, 0);
        EXPECT_EQ(hz_depot_blocks(size_class), 0U) << "class " << size_class;
        EXPECT_EQ(counters().home_blocks - home, blocks.size());
    }
}

TEST_F(Flush, BatchesThatTheDepotRefusesGoHome) {
    unsigned size_class = unit::largest_short; /* may rest in the depot in every lane that has one */
    size_t count = 3 * HZ_DEPOT_BYTES / hz_class_bytes(size_class) + 4 * hz_bin_capacity(size_class);
    Blocks blocks = allocate(size_class, count);
    uint64_t home = counters().home_blocks;
    free_all(blocks);
    hz_bin_flush(self_, size_class, 0);
    EXPECT_GT(counters().home_blocks, home);
    size_t resting = size_t{hz_depot_blocks(size_class)};
    EXPECT_GE(resting + counters().home_blocks - home, count);
}

/* ---- the remote buffer ---- */

class RemoteBuffer : public unit::Owners {};

TEST_F(RemoteBuffer, RemoteFlushSendsEverything) {
    Blocks blocks = unit::take(shards_[0], 3, 5);
    Blocks others = unit::take(shards_[1], 4, 2);
    blocks.insert(blocks.end(), others.begin(), others.end());
    struct hz_counters before = self_->counters;
    for (void *block : blocks)
        push_remote(block);
    EXPECT_EQ(unit::bin_count(self_, HZ_REMOTE_BIN), 7U);
    hz_remote_flush(self_);
    struct hz_counters after = self_->counters;
    EXPECT_EQ(unit::bin_count(self_, HZ_REMOTE_BIN), 0U);
    EXPECT_EQ(unit::waiting(shards_[0], 3), unit::waits(5));
    EXPECT_EQ(unit::waiting(shards_[1], 4), unit::waits(2));
    EXPECT_EQ(after.remote_flush_calls - before.remote_flush_calls, 1U);
    EXPECT_EQ(after.remote_free - before.remote_free, 7U);
    EXPECT_EQ(after.remote_full, before.remote_full) << "the buffer was not full";
}

TEST_F(RemoteBuffer, ThreadFlushSendsTheRemoteBuffer) {
    Blocks blocks = unit::take(shards_[0], 3, 2);
    for (void *block : blocks)
        push_remote(block);
    hz_thread_flush(self_);
    EXPECT_EQ(unit::bin_count(self_, HZ_REMOTE_BIN), 0U);
    EXPECT_EQ(unit::waiting(shards_[0], 3), unit::waits(2));
}

TEST_F(RemoteBuffer, DetachSendsTheRemoteBuffer) {
    for (unsigned size_class : unit::some_classes()) {
        Blocks blocks = unit::take(shards_[0], size_class, 3);
        std::thread([&] {
            struct hz_thread_block *other = unit::self();
            other->frees_watched = HZ_FREES_WATCHED;
            uint64_t calls = other->counters.remote_flush_calls;
            for (void *block : blocks)
                hz_heap_free(block);
            EXPECT_EQ(unit::bin_count(other, HZ_REMOTE_BIN), hz_class_is_home(size_class) ? 3U : 0U);
            EXPECT_EQ(unit::waiting(shards_[0], size_class), unit::waits(0));
            hz_thread_detach(other);
            EXPECT_EQ(other->counters.remote_flush_calls - calls, hz_class_is_home(size_class) ? 1U : 0U);
        }).join();
        EXPECT_EQ(unit::waiting(shards_[0], size_class), unit::waits(3)) << "class " << size_class;
    }
}

TEST_F(RemoteBuffer, ExitHookSendsTheRemoteBuffer) {
    for (unsigned size_class : unit::some_classes()) {
        Blocks blocks = unit::take(shards_[0], size_class, 3);
        std::thread([&] {
            unit::self();
            for (void *block : blocks)
                hz_heap_free(block);
        }).join();
        EXPECT_EQ(unit::waiting(shards_[0], size_class), unit::waits(3)) << "class " << size_class;
    }
}

/* The free that finds the buffer full. */
class FullBuffer : public unit::Owners {
  protected:
    void SetUp() override {
        unit::Owners::SetUp();
        unit::forget_sparse();
        hz_bin_limit_set(&self_->cache, HZ_REMOTE_BIN, room);
        if (!HZ_HAS_HOME)
            GTEST_SKIP() << "no class of this lane goes home";
    }
    /* Frees as many blocks as the buffer holds, then one more, for which the buffer is emptied. Returns the blocks that
       were in the buffer. */
    Blocks free_more_than_a_buffer(Blocks blocks) {
        for (void *block : blocks)
            hz_heap_free(block);
        EXPECT_EQ(unit::bin_count(self_, HZ_REMOTE_BIN), 1U);
        blocks.pop_back();
        return blocks;
    }
    /* The blocks that rest with the shard. */
    Blocks pop_all(struct hz_shard *shard) {
        unit::ThreadOf there(self_, shard);
        Blocks all;
        Blocks some(HZ_BATCH_COUNT);
        while (uint32_t got = hz_depot_pop(self_, size_class, some.data()))
            all.insert(all.end(), some.begin(), some.begin() + got);
        return all;
    }
    static constexpr unsigned size_class = 3;
    static constexpr auto room = static_cast<uint32_t>(HZ_REMOTE_COUNT);
    static constexpr bool has_stacks = HZ_HAS_DEPOT != 0 && !HZ_WAY_IS_QUEUES;
};

TEST_F(FullBuffer, RestsWithTheShardOfItsBlocks) {
    struct hz_counters before = self_->counters;
    Blocks sent = free_more_than_a_buffer(unit::take(shards_[0], size_class, room + 1));
    struct hz_counters after = self_->counters;
    EXPECT_EQ(after.home_blocks - before.home_blocks, room);
    EXPECT_EQ(after.remote_flush_calls - before.remote_flush_calls, 1U);
    EXPECT_EQ(unit::waiting(shards_[0], size_class), has_stacks ? 0U : unit::waits(room));
    EXPECT_EQ(hz_depot_blocks(size_class), has_stacks ? room : 0U);
    EXPECT_TRUE(pop_all(own_).empty()) << "only the shard's threads take them";
    Blocks popped = pop_all(shards_[0]);
    if (has_stacks) {
        std::sort(popped.begin(), popped.end());
        std::sort(sent.begin(), sent.end());
        EXPECT_EQ(popped, sent);
        unit::put(shards_[0], popped);
    }
}

/* Fewer blocks than a batch is worth go home. */
TEST_F(FullBuffer, IsPassedOnByShardAndClass) {
    for (auto [shard, other_class] : {std::pair{shards_[0], size_class - 1}, std::pair{shards_[1], size_class}}) {
        for (uint32_t few : {1U, 3U, 4U, room / 2}) {
            SCOPED_TRACE("class " + std::to_string(other_class) + ", " + std::to_string(few) + " blocks");
            Blocks blocks = unit::take(shards_[0], size_class, room + 1 - few);
            Blocks others = unit::take(shard, other_class, few);
            for (uint32_t i = 0; i < few; i++)
                blocks.insert(blocks.begin() + i * 2, others[i]);
            uint64_t home = self_->counters.home_blocks;
            free_more_than_a_buffer(blocks);
            EXPECT_EQ(self_->counters.home_blocks - home, room);
            uint32_t of_first = room - few;
            uint32_t in_stack = has_stacks && few >= 4 ? few : 0;
            bool is_same_class = other_class == size_class;
            EXPECT_EQ(hz_depot_blocks(other_class), in_stack + (has_stacks && is_same_class ? of_first : 0));
            EXPECT_EQ(hz_depot_blocks(size_class), has_stacks ? of_first + (is_same_class ? in_stack : 0) : 0U);
            EXPECT_EQ(unit::waiting(shard, other_class), unit::waits(few - in_stack));
            hz_heap_purge();
        }
    }
}

TEST_F(FullBuffer, GoesHomeIfTheShardHasNoThreads) {
    Blocks blocks = unit::take(shards_[0], size_class, room + 1);
    unit::leave(shards_[0]);
    struct hz_counters before = self_->counters;
    free_more_than_a_buffer(blocks);
    EXPECT_EQ(self_->counters.direct_home - before.direct_home, (room + unit::home_count - 1) / unit::home_count);
    EXPECT_EQ(hz_depot_blocks(size_class), 0U);
    EXPECT_EQ(hz_shard_claim(), shards_[0]);
}

TEST_F(FullBuffer, OfANewThreadGoesHome) {
    Blocks blocks = unit::take(shards_[0], size_class, room + 1);
    self_->frees_watched = 0;
    if (room < HZ_FREES_WATCHED) {
        for (void *block : blocks)
            hz_heap_free(block);
        EXPECT_EQ(hz_depot_blocks(size_class), 0U) << "a second free would not be noticed there";
        EXPECT_EQ(unit::waiting(shards_[0], size_class), unit::waits(room));
    } else {
        unit::put(shards_[0], blocks);
    }
    self_->frees_watched = HZ_FREES_WATCHED;
}

/* What the stack has no room for waits in the mailbox. */
TEST_F(FullBuffer, TheStackIsBounded) {
    if (!has_stacks)
        GTEST_SKIP() << "this lane has no stacks";
    const auto cap = static_cast<uint32_t>(
        std::max<size_t>(HZ_DEPOT_BYTES / hz_class_bytes(size_class), hz_batch_count(size_class)));
    for (uint32_t sent = 0; sent <= cap + room; sent += room) {
        free_more_than_a_buffer(unit::take(shards_[0], size_class, room + 1));
        hz_remote_flush(self_); /* the block that was left */
    }
    EXPECT_LE(hz_depot_blocks(size_class), cap);
    EXPECT_GT(hz_depot_blocks(size_class) + hz_batch_count(size_class), cap);
}

} // namespace
