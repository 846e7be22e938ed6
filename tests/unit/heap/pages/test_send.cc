/* Sending home: any mixture of classes and owners reaches the right shards, and waits there. */
#include "unit/heap/owners.h"
#include "unit/heap/pages/sent_shard.h"

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

/* What the pages' tags say of the blocks decides; blocks of one shard go together, whatever their classes are. */
TEST_F(Send, OneCallPerShard) {
    for (int i = 0; i < 8; i++)
        for (size_t owner = 0; owner < 2; owner++)
            for (unsigned size_class : {9U, 10U})
                add(shards_[owner], size_class, 1);
    Blocks expected = blocks_;
    static std::map<struct hz_shard *, Blocks> sent;
    sent.clear();
    hz_blocks_send_by(
        self_, blocks_.data(), static_cast<uint32_t>(blocks_.size()),
        [](struct hz_thread_block *, struct hz_shard *shard, unsigned size_class, void **blocks, uint32_t count) {
            EXPECT_EQ(sent.count(shard), 0U);
            EXPECT_EQ(size_class, unsigned{HZ_CLASS_NONE}) << "they are of several classes";
            sent[shard].assign(blocks, blocks + count);
        });
    ASSERT_EQ(sent.size(), 2U);
    Blocks all;
    for (const auto &[shard, blocks] : sent) {
        Blocks in_order;
        for (void *block : expected)
            if (hz_shard_get(hz_pagetag_owner(block)) == shard)
                in_order.push_back(block);
        EXPECT_EQ(blocks, in_order) << "in the order in which they came";
        unit::put(shard, blocks);
    }
    blocks_.clear();
}

TEST_F(Send, BlocksOfOneShardAndClassAreNotCopied) {
    add(shards_[0], 9, 20);
    static void **array;
    static uint32_t calls;
    array = blocks_.data();
    calls = 0;
    hz_blocks_send_by(
        self_, blocks_.data(), 20,
        [](struct hz_thread_block *, struct hz_shard *, unsigned size_class, void **blocks, uint32_t count) {
            calls++;
            EXPECT_EQ(size_class, 9U);
            EXPECT_EQ(count, 20U);
            EXPECT_EQ(blocks, array);
        });
    EXPECT_EQ(calls, 1U);
    unit::put(shards_[0], blocks_);
    blocks_.clear();
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

/* ---- to one shard ---- */

class SendToShard : public unit::SentShard {};

TEST_F(SendToShard, SendersAndTheOwnerLoseNothing) {
    constexpr unsigned senders = 3;
    const size_t turns = unit::rounds(3000);
    unsigned size_class = HZ_LINEAR_CLASSES;
    std::atomic<unsigned> sending{senders};
    std::atomic<size_t> wrong{0};
    unit::together(senders + 1, [&](unsigned index) {
        unit::self();
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
            unit::send(shard_, blocks);
        }
        sending--;
    });
    EXPECT_EQ(wrong, 0U);
    unit::drain(shard_, size_class);
}

} // namespace
