/* Sending home: any mixture of classes and owners reaches the right shards. Also the remote buffer. */
#include "unit/heap/fixture.h"

#include <algorithm>
#include <map>
#include <set>

namespace {

using unit::Blocks;

void shuffle(Blocks &blocks, uint64_t seed) {
    support::Random random(seed);
    for (size_t i = blocks.size(); i > 1; i--)
        std::swap(blocks[i - 1], blocks[random.below(i)]);
}

/* The test claims shards, so that blocks sent to them wait there. */
class Home : public testing::Test {
  protected:
    void SetUp() override {
        self_ = unit::self();
        self_->frees_watched = HZ_FREES_WATCHED; /* a full bin does not go home */
        hz_heap_purge();
        own_ = self_->shard;
        claim(5);
    }
    void TearDown() override {
        hz_heap_purge(); /* drains every shard */
        shards_.push_back(own_);
        for (struct hz_shard *shard : shards_) {
            for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
                unit::drain(shard, size_class);
            unit::retire_all(shard);
            EXPECT_EQ(unit::pages_of(shard), 0U) << "every block is in its page again";
        }
        shards_.pop_back();
        for (struct hz_shard *shard : shards_)
            hz_shard_leave(self_, shard);
    }
    /* Claims shards until there are `count`, or no more free ones. */
    void claim(size_t count) {
        while (shards_.size() < std::min<size_t>(count, HZ_NUM_SHARDS - 1))
            shards_.push_back(hz_shard_claim());
    }
    /* Takes blocks from a shard, and expects them to wait for it later. */
    void add(struct hz_shard *shard, unsigned size_class, uint32_t count) {
        Blocks some = unit::take(shard, size_class, count);
        blocks_.insert(blocks_.end(), some.begin(), some.end());
        if (shard != own_)
            expected_[{shard, size_class}] += count;
    }
    void send_all() {
        uint64_t before = self_->counters.home_blocks;
        hz_blocks_send(self_, blocks_.data(), static_cast<uint32_t>(blocks_.size()));
        EXPECT_EQ(self_->counters.home_blocks - before, blocks_.size());
        blocks_.clear();
    }
    void expect_all_wait() {
        size_t wrong = 0;
        for (const auto &[group, count] : expected_)
            wrong += unit::waiting(group.first, group.second) != count;
        EXPECT_EQ(wrong, 0U) << "of " << expected_.size() << " groups";
    }
    /* As free does with a block of a home class; the buffer must have room. */
    void push_remote(void *block) {
        struct hz_bin *bin = &self_->cache.bins[HZ_REMOTE_BIN];
        hz_bin_push(&self_->cache, bin, bin->top, bin->newest, block);
    }
    struct hz_thread_block *self_ = nullptr;
    struct hz_shard *own_ = nullptr;
    std::vector<struct hz_shard *> shards_;
    Blocks blocks_;
    std::map<std::pair<struct hz_shard *, unsigned>, uint32_t> expected_;
};

TEST_F(Home, MixturesFindTheirShards) {
    constexpr unsigned classes = 20; /* with five other owners these are more blocks than one step groups */
    for (struct hz_shard *shard : shards_)
        for (unsigned size_class = 1; size_class <= classes; size_class++)
            add(shard, size_class, size_class);
    for (unsigned size_class = 1; size_class <= classes; size_class++)
        add(own_, size_class, size_class);
    shuffle(blocks_, 1);
    send_all();
    expect_all_wait();
    for (unsigned size_class = 1; size_class <= classes; size_class++)
        EXPECT_EQ(unit::waiting(own_, size_class), 0U) << "own blocks need not wait";
    unit::retire_all(own_);
    EXPECT_EQ(unit::pages_of(own_), 0U) << "own blocks are in their pages";
}

TEST_F(Home, ManyOwnersAndClasses) {
    const unsigned owners = std::min(20U, HZ_NUM_SHARDS - 1U);
    claim(owners);
    std::vector<unsigned> classes = unit::some_classes();
    for (unsigned size_class = 30; size_class < std::min(30 + 300 / owners, unit::class_count); size_class++)
        classes.push_back(size_class);
    for (struct hz_shard *shard : shards_)
        for (unsigned size_class : classes)
            add(shard, size_class, 1 + (size_class + shard->index) % 3);
    shuffle(blocks_, 2);
    ASSERT_GT(blocks_.size(), 4 * size_t{unit::home_count});
    send_all();
    expect_all_wait();
}

/* Groups that all begin their search in the same slot of the table: class + 37 * owner is the same modulo the table's
   size. */
TEST_F(Home, GroupsThatCollideStayApart) {
    claim(HZ_NUM_SHARDS - 1);
    for (uint32_t slot : {uint32_t{0}, uint32_t{HZ_GROUPS - 1}, uint32_t{77}}) {
        size_t groups = 0;
        for (struct hz_shard *shard : shards_)
            for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
                if ((size_class + shard->index * 37) % HZ_GROUPS == slot && groups < unit::home_count) {
                    add(shard, size_class, 1);
                    groups++;
                }
        ASSERT_GT(groups, HZ_NUM_SHARDS < 16 ? 1U : 8U);
        shuffle(blocks_, slot);
        send_all();
        expect_all_wait();
    }
}

TEST_F(Home, OneListPerGroup) {
    for (int i = 0; i < 8; i++)
        for (size_t owner = 0; owner < 2; owner++)
            for (unsigned size_class : {9U, 10U})
                add(shards_[owner], size_class, 1);
    for (size_t owner = 0; owner < 2; owner++)
        hz_shard_leave(
            self_, shards_[owner]); /* without threads, so that the sender puts the lists into pages and counts them */
    struct hz_counters before = self_->counters;
    hz_blocks_send(self_, blocks_.data(), static_cast<uint32_t>(blocks_.size()));
    struct hz_counters after = self_->counters;
    EXPECT_EQ(after.direct_home - before.direct_home, 4U);
    EXPECT_EQ(after.ls_rel_steal - before.ls_rel_steal, 4U);
    EXPECT_EQ(after.home_blocks - before.home_blocks, 32U);
    std::set<struct hz_shard *> claimed = {hz_shard_claim(), hz_shard_claim()};
    EXPECT_EQ(claimed, (std::set<struct hz_shard *>{shards_[0], shards_[1]}));
}

/* Numbers of blocks around the number that is grouped in one step. */
TEST_F(Home, AnyNumberOfBlocks) {
    for (uint32_t count : {uint32_t{1}, unit::home_count - 1, unit::home_count, unit::home_count + 1,
                           2 * unit::home_count + 1, 5 * unit::home_count + 3}) {
        for (uint32_t i = 0; i < count; i++)
            add(i % 7 == 0 ? own_ : shards_[i % 3], 11 + i % 2, 1);
        send_all();
        expect_all_wait();
    }
}

TEST_F(Home, SendingNothingCountsNothing) {
    struct hz_counters before = self_->counters;
    hz_blocks_send(self_, nullptr, 0);
    hz_remote_flush(self_);
    struct hz_counters after = self_->counters;
    EXPECT_EQ(after.home_blocks, before.home_blocks);
    EXPECT_EQ(after.remote_flush_calls, before.remote_flush_calls);
}

/* Counting up the epoch clears the table. When the epoch wraps around, groups left from the same epochs long ago must
   not be found. */
TEST_F(Home, OldGroupsAreNotFoundWhenTheEpochWraps) {
    for (uint32_t epoch : {uint32_t{0}, uint32_t{1}}) { /* the next send uses the epoch after this one */
        self_->groups->epoch = epoch;
        for (unsigned size_class : {1U, 2U, 3U})
            add(shards_[0], size_class, 5);
        send_all();
    }
    self_->groups->epoch = UINT32_MAX - 1;
    for (int turn = 0; turn < 4; turn++) {
        for (unsigned size_class : {1U, 2U, 3U})
            add(shards_[0], size_class, 2);
        add(shards_[1], 1, 3);
        send_all();
        expect_all_wait();
    }
}

/* ---- the remote buffer ---- */

TEST_F(Home, RemoteFlushSendsEverything) {
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
    EXPECT_EQ(unit::waiting(shards_[0], 3), 5U);
    EXPECT_EQ(unit::waiting(shards_[1], 4), 2U);
    EXPECT_EQ(after.remote_flush_calls - before.remote_flush_calls, 1U);
    EXPECT_EQ(after.remote_free - before.remote_free, 7U);
    EXPECT_EQ(after.remote_full, before.remote_full) << "the buffer was not full";
}

TEST_F(Home, ThreadFlushSendsTheRemoteBuffer) {
    Blocks blocks = unit::take(shards_[0], 3, 2);
    for (void *block : blocks)
        push_remote(block);
    hz_thread_flush(self_);
    EXPECT_EQ(unit::bin_count(self_, HZ_REMOTE_BIN), 0U);
    EXPECT_EQ(unit::waiting(shards_[0], 3), 2U);
}

/* ---- free ---- */

TEST_F(Home, FreeKeepsBlocksOfOthersUnlessTheirClassIsHome) {
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        uint32_t count = std::min(2U, hz_mail_list_max(size_class)); /* a list always finds room */
        Blocks blocks = unit::take(shards_[0], size_class, count);
        bool home = hz_class_is_home(size_class);
        hz_room_set(self_, size_class, 2); /* all bins of long blocks together have too little */
        for (void *block : blocks)
            hz_heap_free(block);
        ASSERT_EQ(unit::bin_count(self_, HZ_REMOTE_BIN), home ? count : 0U);
        ASSERT_EQ(unit::bin_count(self_, size_class), home ? 0U : count);
        ASSERT_EQ(unit::waiting(shards_[0], size_class), 0U) << "blocks wait in the remote buffer until it is flushed";
        hz_thread_flush(self_);
        ASSERT_EQ(unit::waiting(shards_[0], size_class), count);
        ASSERT_EQ(unit::bin_count(self_, size_class) + unit::bin_count(self_, HZ_REMOTE_BIN), 0U);
        hz_room_set(self_, size_class, hz_bin_first(size_class));
    }
}

TEST_F(Home, FreeKeepsOwnBlocksOfAnyClass) {
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
TEST_F(Home, TheOwnerThatIsExpectedDecidesNothing) {
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

TEST_F(Home, FullRemoteBufferIsSentByFree) {
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
    for (const auto &[size_class, count] : sent)
        EXPECT_EQ(unit::waiting(shards_[0], size_class), count) << "class " << size_class;
    EXPECT_EQ(after.remote_full - before.remote_full, 1U);
    EXPECT_EQ(after.remote_flush_calls - before.remote_flush_calls, 1U);
    EXPECT_EQ(after.remote_free - before.remote_free, room);
    EXPECT_EQ(after.flush, before.flush) << "no bin was full";
}

/* A full buffer whose blocks are all of one shard and class. */
class FullBuffer : public Home {
  protected:
    void SetUp() override {
        Home::SetUp();
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
    static constexpr bool has_stacks = HZ_DEPOT_BYTES > 0 && HZ_DEPOT_FROM_BYTES <= 48 && !HZ_WAY_IS_QUEUES;
};

TEST_F(FullBuffer, RestsWithTheShardOfItsBlocks) {
    struct hz_counters before = self_->counters;
    Blocks sent = free_more_than_a_buffer(unit::take(shards_[0], size_class, room + 1));
    struct hz_counters after = self_->counters;
    EXPECT_EQ(after.home_blocks - before.home_blocks, room);
    EXPECT_EQ(after.remote_flush_calls - before.remote_flush_calls, 1U);
    EXPECT_EQ(unit::waiting(shards_[0], size_class), has_stacks ? 0U : room);
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

TEST_F(FullBuffer, GoesHomeIfItsBlocksAreOfTwoClassesOrShards) {
    for (auto [shard, other_class] : {std::pair{shards_[0], size_class - 1}, std::pair{shards_[1], size_class}}) {
        for (size_t at : {size_t{0}, size_t{room} / 2, size_t{room} - 1}) {
            Blocks blocks = unit::take(shards_[0], size_class, room + 1);
            unit::put(shards_[0], {blocks[at]});
            blocks[at] = unit::take(shard, other_class, 1)[0];
            free_more_than_a_buffer(blocks);
            EXPECT_EQ(hz_depot_blocks(size_class), 0U);
            EXPECT_EQ(unit::waiting(shards_[0], size_class), room - 1);
            EXPECT_EQ(unit::waiting(shard, other_class), 1U);
            hz_heap_purge();
        }
    }
}

TEST_F(FullBuffer, GoesHomeIfTheShardHasNoThreads) {
    Blocks blocks = unit::take(shards_[0], size_class, room + 1);
    hz_shard_leave(self_, shards_[0]);
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
        EXPECT_EQ(unit::waiting(shards_[0], size_class), room);
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

TEST_F(Home, DetachSendsTheRemoteBuffer) {
    for (unsigned size_class : unit::some_classes()) {
        Blocks blocks = unit::take(shards_[0], size_class, 3);
        std::thread([&] {
            struct hz_thread_block *other = unit::self();
            other->frees_watched = HZ_FREES_WATCHED;
            uint64_t calls = other->counters.remote_flush_calls;
            for (void *block : blocks)
                hz_heap_free(block);
            EXPECT_EQ(unit::bin_count(other, HZ_REMOTE_BIN), hz_class_is_home(size_class) ? 3U : 0U);
            EXPECT_EQ(unit::waiting(shards_[0], size_class), 0U);
            hz_thread_detach(other);
            EXPECT_EQ(other->counters.remote_flush_calls - calls, hz_class_is_home(size_class) ? 1U : 0U);
        }).join();
        EXPECT_EQ(unit::waiting(shards_[0], size_class), 3U) << "class " << size_class;
    }
}

TEST_F(Home, ExitHookSendsTheRemoteBuffer) {
    for (unsigned size_class : unit::some_classes()) {
        Blocks blocks = unit::take(shards_[0], size_class, 3);
        std::thread([&] {
            unit::self();
            for (void *block : blocks)
                hz_heap_free(block);
        }).join();
        EXPECT_EQ(unit::waiting(shards_[0], size_class), 3U) << "class " << size_class;
    }
}

} // namespace
