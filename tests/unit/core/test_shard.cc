/* Shards: one owner each while there are enough, shared beyond; inherited with their pages; the way home. */
#include "unit/core/fixture.h"

#include <algorithm>
#include <map>
#include <set>

namespace {

using unit::Blocks;
using unit::Exclusive;

/* Every shard but this thread's own, claimed; no other thread has one. */
std::vector<struct hz_shard *> claim_all_others() {
    std::vector<struct hz_shard *> claimed;
    while (claimed.size() + 1 < HZ_NUM_SHARDS)
        claimed.push_back(hz_shard_claim());
    return claimed;
}

/* Threads of all shards together. */
size_t threads_in_all() {
    size_t threads = 0;
    for (unsigned index = 0; index < HZ_NUM_SHARDS; index++)
        threads += hz_shard_get(index) == nullptr ? 0 : unit_shard_threads(hz_shard_get(index));
    return threads;
}

TEST(ShardClaim, EachHasOneOwnerThenTheyShare) {
    struct hz_thread_block *self = unit_self();
    std::vector<struct hz_shard *> claimed;
    std::set<struct hz_shard *> distinct = {unit_thread_shard(self)};
    while (distinct.size() < HZ_NUM_SHARDS) {
        claimed.push_back(hz_shard_claim());
        ASSERT_EQ(unit_shard_threads(claimed.back()), 1U) << "a free one while there is one";
        ASSERT_TRUE(distinct.insert(claimed.back()).second);
        ASSERT_EQ(hz_shard_get(unit_shard_index(claimed.back())), claimed.back());
    }
    for (unsigned round = 2; round <= 4; round++)
        for (unsigned i = 0; i < HZ_NUM_SHARDS; i++) {
            claimed.push_back(hz_shard_claim());
            ASSERT_NE(claimed.back(), nullptr) << "never too many threads";
            ASSERT_EQ(unit_shard_threads(claimed.back()), round) << "the least used one";
        }
    EXPECT_EQ(threads_in_all(), size_t{4} * HZ_NUM_SHARDS);
    for (struct hz_shard *shard : claimed)
        hz_shard_release(self, shard);
    EXPECT_EQ(threads_in_all(), 1U) << "this thread's own";
    EXPECT_EQ(hz_shard_get(HZ_NUM_SHARDS), nullptr);
    EXPECT_EQ(hz_shard_get(UINT32_MAX), nullptr);
}

TEST(ShardClaim, ThreadsThatClaimAtOnceGetDifferentOnes) {
    constexpr unsigned threads = 4;
    constexpr unsigned each = (HZ_NUM_SHARDS - threads - 1) / threads; /* those threads have one themselves */
    if (each == 0)
        GTEST_SKIP() << "too few shards";
    for (unsigned round = 0; round < unit::rounds(50); round++) {
        std::vector<struct hz_shard *> claimed[threads];
        unit::Barrier all_claimed(threads);
        unit::together(threads, [&](unsigned index) {
            struct hz_thread_block *self = unit_self();
            for (unsigned i = 0; i < each; i++)
                claimed[index].push_back(hz_shard_claim());
            all_claimed.wait();
            for (struct hz_shard *shard : claimed[index])
                hz_shard_release(self, shard);
        });
        std::set<struct hz_shard *> distinct;
        for (const auto &mine : claimed)
            distinct.insert(mine.begin(), mine.end());
        ASSERT_EQ(distinct.size(), size_t{threads} * each);
    }
    EXPECT_EQ(threads_in_all(), 1U);
}

TEST(ShardClaim, MoreThreadsThanShardsShareSafely) {
    constexpr unsigned threads = HZ_NUM_SHARDS + 10;
    std::vector<struct hz_shard *> shards(threads);
    unit::Barrier all_here(threads);
    unit::together(threads, [&](unsigned index) {
        shards[index] = unit_thread_shard(unit_self());
        all_here.wait();
        void *blocks[40];
        for (size_t i = 0; i < 40; i++) {
            blocks[i] = t_malloc(16 * (i + 1));
            support::fill(blocks[i], 16 * (i + 1), index * 100 + i);
        }
        for (size_t i = 0; i < 40; i++) {
            EXPECT_TRUE(support::holds(blocks[i], 16 * (i + 1), index * 100 + i));
            t_free(blocks[i]);
        }
    });
    EXPECT_EQ(std::set<struct hz_shard *>(shards.begin(), shards.end()).size(), size_t{HZ_NUM_SHARDS});
    EXPECT_EQ(threads_in_all(), 1U);
}

/* ---- what is inherited ---- */

TEST(ShardInherit, PagesStayWithTheShard) {
    struct hz_thread_block *self = unit_self();
    struct hz_shard *shard = hz_shard_claim();
    Blocks blocks = unit::take(shard, 7, 10);
    struct hz_page *page = hz_page_of(blocks[0]);
    hz_shard_release(self, shard);
    ASSERT_EQ(unit_shard_threads(shard), 0U);
    std::vector<struct hz_shard *> claimed = claim_all_others();
    ASSERT_EQ(std::count(claimed.begin(), claimed.end(), shard), 1);
    EXPECT_EQ(unit_partial(shard, 7), page);
    Blocks more = unit::take(shard, 7, 1);
    EXPECT_EQ(hz_page_of(more[0]), page) << "the next owner goes on with them";
    unit::put(shard, blocks);
    unit::put(shard, more);
    unit::retire_all(shard);
    EXPECT_EQ(unit::pages_of(shard), 0U);
    for (struct hz_shard *each : claimed)
        hz_shard_release(self, each);
    EXPECT_EQ(threads_in_all(), 1U);
}

TEST(ShardInherit, ReleaseTakesHomeWhatWasSent) {
    struct hz_thread_block *self = unit_self();
    struct hz_shard *shard = hz_shard_claim();
    Blocks blocks = unit::take(shard, 7, 10);
    struct hz_list list = unit::list_of(blocks);
    hz_shard_send(self, shard, 7, &list);
    ASSERT_EQ(hz_shard_waiting(shard, 7), 10U);
    hz_shard_release(self, shard);
    EXPECT_EQ(hz_shard_waiting(shard, 7), 0U);
    EXPECT_EQ(unit::retire_all(shard), 1U) << "all ten are in their page";
}

/* ---- the way home and back ---- */

class Shard : public unit::OwnShard {
  protected:
    Blocks refill(unsigned size_class, uint32_t want) {
        Blocks blocks(want);
        Exclusive exclusive(shard_);
        blocks.resize(hz_shard_refill_locked(self_, shard_, size_class, blocks.data(), want));
        return blocks;
    }
    void send(unsigned size_class, const Blocks &blocks) {
        struct hz_list list = unit::list_of(blocks);
        hz_shard_send(self_, shard_, size_class, &list);
    }
    struct unit_counters counters() {
        return unit_counters_of(self_);
    }
};

TEST_F(Shard, BlocksSentToAnOwnerWaitForIt) {
    Blocks blocks = unit::take(shard_, 7, 10);
    uint64_t sent = counters().stash_send;
    send(7, blocks);
    EXPECT_EQ(counters().stash_send, sent + 1);
    EXPECT_EQ(hz_shard_waiting(shard_, 7), 10U);
    EXPECT_EQ(unit_stash_count(unit_shard_class(shard_, 7)), 10U);
    EXPECT_EQ(hz_shard_waiting(shard_, 8), 0U);
    Exclusive exclusive(shard_);
    hz_shard_drain_locked(self_, shard_, 7);
    EXPECT_EQ(hz_shard_waiting(shard_, 7), 0U);
    EXPECT_EQ(hz_pages_retire_all_locked(shard_, 7), 1U);
}

TEST_F(Shard, BlocksOfASleepingOrOwnShardGoIntoTheirPages) {
    struct hz_shard *own = unit_thread_shard(self_);
    Blocks mine = unit::take(own, 7, 5);
    uint64_t direct = counters().direct_home;
    struct hz_list list = unit::list_of(mine);
    hz_shard_send(self_, own, 7, &list);
    EXPECT_EQ(counters().direct_home, direct + 1);
    EXPECT_EQ(hz_shard_waiting(own, 7), 0U);
    Blocks blocks = unit::take(shard_, 7, 5);
    hz_shard_release(self_, shard_);
    send(7, blocks);
    EXPECT_EQ(counters().direct_home, direct + 2);
    EXPECT_EQ(hz_shard_waiting(shard_, 7), 0U);
    EXPECT_EQ(unit::retire_all(shard_), 1U);
    shard_ = hz_shard_claim();
}

TEST_F(Shard, RefillTakesWhatWasSentThenPages) {
    Blocks blocks = unit::take(shard_, 7, 10);
    send(7, blocks);
    struct unit_counters before = counters();
    Blocks first = refill(7, 4);
    EXPECT_EQ(first.size(), 4U);
    EXPECT_EQ(counters().refill_stash, before.refill_stash + 1);
    EXPECT_EQ(unit_carry_count(unit_shard_class(shard_, 7)), 6U) << "the rest is carried";
    EXPECT_EQ(hz_shard_waiting(shard_, 7), 6U);
    Blocks second = refill(7, 100);
    EXPECT_EQ(second.size(), 6U) << "a list is not mixed with another source";
    EXPECT_EQ(counters().refill_carry, before.refill_carry + 1);
    EXPECT_EQ(hz_shard_waiting(shard_, 7), 0U);
    Blocks third = refill(7, 3);
    EXPECT_EQ(third.size(), 3U);
    EXPECT_EQ(counters().refill_page, before.refill_page + 1);
    Blocks all = first;
    all.insert(all.end(), second.begin(), second.end());
    Blocks sorted = blocks;
    std::sort(sorted.begin(), sorted.end());
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, sorted);
    unit::put(shard_, blocks);
    unit::put(shard_, third);
}

TEST_F(Shard, OneBatchIsOnePage) {
    for (unsigned size_class : unit::some_classes()) {
        uint64_t created = counters().page_create;
        Blocks blocks = refill(size_class, hz_batch_count(size_class));
        EXPECT_GE(blocks.size(), 1U);
        EXPECT_LE(blocks.size(), hz_batch_count(size_class));
        EXPECT_EQ(counters().page_create, created + 1);
        unit::put(shard_, blocks);
    }
}

/* Single blocks are sent until every tier is full; nothing is lost, and what waits is bounded. */
TEST_F(Shard, OverflowGoesThroughAllTiers) {
    for (unsigned c : {unit::class_count - 1, unit::class_count - 9}) {
        size_t bytes = hz_class_bytes(c);
        auto bound =
            static_cast<uint32_t>(std::max<size_t>(HZ_STASH_BYTES / bytes, HZ_BATCH_COUNT) + unit_transfer_slots +
                                  std::max<size_t>(HZ_CENTRAL_BYTES / bytes, HZ_BATCH_COUNT));
        Blocks blocks = unit::take(shard_, c, bound + 20);
        struct unit_counters before = counters();
        for (void *block : blocks)
            send(c, {block});
        struct unit_counters after = counters();
        EXPECT_GT(after.stash_send, before.stash_send);
        EXPECT_EQ(after.transfer_send - before.transfer_send, unit_transfer_slots);
        EXPECT_GT(after.central_send, before.central_send);
        EXPECT_GT(after.direct_home, before.direct_home) << "then the sender puts them home itself";
        EXPECT_EQ(after.home_blocks - before.home_blocks, blocks.size());
        EXPECT_LE(hz_shard_waiting(shard_, c), bound);
        EXPECT_EQ(hz_shard_waiting(shard_, c) + after.direct_home - before.direct_home, blocks.size());
        Blocks back;
        struct hz_shard_class *home = unit_shard_class(shard_, c);
        while (hz_shard_waiting(shard_, c) > 0) {
            Blocks some = refill(c, 10);
            back.insert(back.end(), some.begin(), some.end());
        }
        EXPECT_EQ(hz3_transfer_count(home), 0U);
        EXPECT_EQ(hz3_central_count(home), 0U);
        EXPECT_GT(counters().refill_transfer, before.refill_transfer);
        EXPECT_GT(counters().refill_central, before.refill_central);
        std::sort(back.begin(), back.end());
        std::sort(blocks.begin(), blocks.end());
        EXPECT_EQ(std::unique(back.begin(), back.end()), back.end());
        EXPECT_TRUE(std::includes(blocks.begin(), blocks.end(), back.begin(), back.end()));
        unit::put(shard_, back);
    }
}

TEST_F(Shard, DrainEmptiesEveryTier) {
    unsigned size_class = unit::class_count - 1;
    size_t bytes = hz_class_bytes(size_class);
    Blocks blocks =
        unit::take(shard_, size_class, static_cast<uint32_t>(HZ_STASH_BYTES / bytes + HZ_BATCH_COUNT + 20));
    for (void *block : blocks)
        send(size_class, {block});
    Blocks carried = refill(size_class, 1);
    Exclusive exclusive(shard_);
    hz_shard_drain_locked(self_, shard_, size_class);
    EXPECT_EQ(hz_shard_waiting(shard_, size_class), 0U);
    EXPECT_EQ(hz_page_put_locked(shard_, carried[0]) + hz_pages_retire_all_locked(shard_, size_class) > 0, true);
}

TEST_F(Shard, SendersAndTheOwnerLoseNothing) {
    constexpr unsigned senders = 3;
    const size_t turns = unit::rounds(3000);
    unsigned size_class = HZ_LINEAR_CLASSES;
    std::atomic<unsigned> sending{senders};
    std::atomic<size_t> wrong{0};
    unit::together(senders + 1, [&](unsigned index) {
        struct hz_thread_block *self = unit_self();
        if (index == senders) { /* consumes now and then, as an owner does */
            for (bool last = false; !last;) {
                last = sending.load() == 0;
                Blocks some(16);
                {
                    Exclusive exclusive(shard_);
                    some.resize(hz_shard_refill_locked(self, shard_, size_class, some.data(), 16));
                }
                for (void *block : some)
                    wrong += unit_pagetag_of(block).size_class != size_class;
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
    Exclusive exclusive(shard_);
    hz_shard_drain_locked(self_, shard_, size_class);
}

} // namespace
