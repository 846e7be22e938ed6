/* Sending home: any mixture of classes and owners reaches the right shards, and waits there. */
#include "unit/heap/owners.h"
#include "unit/heap/pages/sent.h"

#include <algorithm>
#include <atomic>
#include <set>

namespace {

using unit::Blocks;

void shuffle(Blocks &blocks, uint64_t seed) {
    support::Random random(seed);
    for (size_t i = blocks.size(); i > 1; i--)
        std::swap(blocks[i - 1], blocks[random.below(i)]);
}

class Send : public unit::Owners {};

TEST_F(Send, MixturesFindTheirShards) {
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

TEST_F(Send, ManyOwnersAndClasses) {
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
TEST_F(Send, GroupsThatCollideStayApart) {
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

TEST_F(Send, OneListPerGroup) {
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
TEST_F(Send, AnyNumberOfBlocks) {
    for (uint32_t count : {uint32_t{1}, unit::home_count - 1, unit::home_count, unit::home_count + 1,
                           2 * unit::home_count + 1, 5 * unit::home_count + 3}) {
        for (uint32_t i = 0; i < count; i++)
            add(i % 7 == 0 ? own_ : shards_[i % 3], 11 + i % 2, 1);
        send_all();
        expect_all_wait();
    }
}

TEST_F(Send, SendingNothingCountsNothing) {
    struct hz_counters before = self_->counters;
    hz_blocks_send(self_, nullptr, 0);
    hz_remote_flush(self_);
    struct hz_counters after = self_->counters;
    EXPECT_EQ(after.home_blocks, before.home_blocks);
    EXPECT_EQ(after.remote_flush_calls, before.remote_flush_calls);
}

/* Counting up the epoch clears the table. When the epoch wraps around, groups left from the same epochs long ago must
   not be found. */
TEST_F(Send, OldGroupsAreNotFoundWhenTheEpochWraps) {
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

/* ---- to one shard ---- */

class SendToShard : public unit::SentShard {};

TEST_F(SendToShard, SentBlocksWaitForTheShard) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        uint32_t count = std::min(10U, hz_mail_list_max(size_class)); /* a list always finds room */
        Blocks blocks = unit::take(shard_, size_class, count);
        struct hz_counters before = counters();
        ASSERT_FALSE(hz_shard_was_sent(shard_, size_class));
        send(size_class, blocks);
        EXPECT_EQ(counters().home_blocks, before.home_blocks + count);
        EXPECT_EQ(counters().direct_home, before.direct_home);
        EXPECT_EQ(counters().ls_rel_steal, before.ls_rel_steal) << "a sender takes no lock";
        EXPECT_EQ(waiting(size_class), count);
        EXPECT_EQ(waiting(size_class == 1 ? 2 : size_class - 1), 0U);
        EXPECT_TRUE(hz_shard_was_sent(shard_, size_class));
        struct hz_list strays = unit::drain(shard_, size_class);
        EXPECT_EQ(strays.count, 0U);
        EXPECT_EQ(waiting(size_class), 0U);
        EXPECT_FALSE(hz_shard_was_sent(shard_, size_class)) << "the drain forgets the mark";
        unit::retire_all(shard_);
        EXPECT_EQ(unit::pages_of(shard_), 0U) << "all blocks are in their pages";
    }
}

TEST_F(SendToShard, MarksOfClassesAreSeparate) {
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        Blocks blocks = unit::take(shard_, size_class, 1);
        send(size_class, blocks);
        for (unsigned other = 1; other < unit::class_count; other++)
            ASSERT_EQ(hz_shard_was_sent(shard_, other), other == size_class) << size_class << " and " << other;
        unit::drain(shard_, size_class);
    }
}

TEST_F(SendToShard, BlocksOfTheOwnOrAnUnusedShardGoIntoTheirPages) {
    struct hz_shard *own = self_->shard;
    Blocks mine = unit::take(own, 7, 5);
    struct hz_counters before = counters();
    struct hz_list list = unit::list_of(mine);
    hz_shard_send(self_, own, 7, &list);
    EXPECT_EQ(counters().direct_home, before.direct_home + 1);
    EXPECT_EQ(counters().ls_rel_self, before.ls_rel_self + 1);
    EXPECT_EQ(unit::waiting(own, 7), 0U);
    Blocks blocks = unit::take(shard_, 7, 5);
    hz_shard_leave(self_, shard_);
    send(7, blocks);
    EXPECT_EQ(counters().direct_home, before.direct_home + 2);
    EXPECT_EQ(counters().ls_rel_steal, before.ls_rel_steal + 1);
    EXPECT_EQ(waiting(7), 0U);
    EXPECT_EQ(unit::retire_all(shard_), 1U);
    shard_ = hz_shard_claim();
}

/* Sends more single blocks than a bounded mailbox holds. No block is lost. */
TEST_F(SendToShard, NothingIsLostWhenTheMailboxIsFull) {
    for (unsigned c : {unit::largest_short, unit::largest_short - 8}) {
        Blocks blocks = unit::take(shard_, c, 400);
        struct hz_counters before = counters();
        for (void *block : blocks)
            send(c, {block});
        struct hz_counters after = counters();
        EXPECT_EQ(after.home_blocks - before.home_blocks, blocks.size());
        EXPECT_EQ(waiting(c) + after.direct_home - before.direct_home, blocks.size())
            << "the sender puts the blocks that find no room";
        Blocks back;
        while (waiting(c) > 0) {
            Blocks some = refill(c, std::min(10U, waiting(c)));
            ASSERT_FALSE(some.empty());
            back.insert(back.end(), some.begin(), some.end());
        }
        Blocks first = unit::sorted(back);
        EXPECT_EQ(std::unique(first.begin(), first.end()), first.end());
        Blocks all = unit::sorted(blocks);
        EXPECT_TRUE(std::includes(all.begin(), all.end(), first.begin(), first.end()));
        EXPECT_EQ(back.size() + after.direct_home - before.direct_home, blocks.size());
        unit::put(shard_, back);
    }
}

TEST_F(SendToShard, SendersAndTheOwnerLoseNothing) {
    constexpr unsigned senders = 3;
    const size_t turns = unit::rounds(3000);
    unsigned size_class = HZ_LINEAR_CLASSES;
    std::atomic<unsigned> sending{senders};
    std::atomic<size_t> wrong{0};
    unit::together(senders + 1, [&](unsigned index) {
        struct hz_thread_block *self = unit::self();
        if (index == senders) { /* refills now and then, as an owner does */
            for (bool last = false; !last;) {
                last = sending.load() == 0;
                Blocks some = refill(size_class, 16);
                for (void *block : some)
                    wrong += hz_pagetag_class(block) != size_class;
                unit::put(shard_, some);
                std::this_thread::yield();
            }
            return;
        }
        support::Random random(index);
        for (size_t turn = 0; turn < turns; turn++) {
            Blocks blocks = unit::take(shard_, size_class, static_cast<uint32_t>(random.between(1, 12)));
            for (void *block : blocks)
                support::fill(block, 64, index);
            for (void *block : blocks)
                wrong += !support::holds(block, 64, index);
            struct hz_list list = unit::list_of(blocks);
            hz_shard_send(self, shard_, size_class, &list);
        }
        sending--;
    });
    EXPECT_EQ(wrong, 0U);
    EXPECT_EQ(unit::drain(shard_, size_class).count, 0U);
}

} // namespace
