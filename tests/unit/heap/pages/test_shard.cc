/* Shards: each thread gets its own until there are no more, then threads share. The next thread of a shard inherits its
   pages. Blocks go home to their shard. */
#include "unit/heap/fixture.h"

#include <algorithm>
#include <map>
#include <set>

namespace {

using unit::Blocks;
using unit::Exclusive;

/* Claims every shard but this thread's own. No other thread has one. */
std::vector<struct hz_shard *> claim_all_others() {
    std::vector<struct hz_shard *> claimed;
    while (claimed.size() + 1 < HZ_NUM_SHARDS)
        claimed.push_back(hz_shard_claim());
    return claimed;
}

/* The number of threads in all shards together. */
size_t threads_in_all() {
    size_t threads = 0;
    for (unsigned index = 0; index < HZ_NUM_SHARDS; index++)
        threads += hz_shard_get(index) == nullptr ? 0 : hz_load_rlx(&hz_shard_get(index)->threads);
    return threads;
}

TEST(ShardClaim, EachHasOneThreadThenTheyShare) {
    struct hz_thread_block *self = unit::self();
    std::vector<struct hz_shard *> claimed;
    std::set<struct hz_shard *> distinct = {self->shard};
    while (distinct.size() < HZ_NUM_SHARDS) {
        claimed.push_back(hz_shard_claim());
        ASSERT_EQ(hz_load_rlx(&claimed.back()->threads), 1U) << "a free shard comes first";
        ASSERT_TRUE(distinct.insert(claimed.back()).second);
        ASSERT_EQ(hz_shard_get(claimed.back()->index), claimed.back());
    }
    for (unsigned round = 2; round <= 4; round++)
        for (unsigned i = 0; i < HZ_NUM_SHARDS; i++) {
            claimed.push_back(hz_shard_claim());
            ASSERT_NE(claimed.back(), nullptr) << "threads are never too many";
            ASSERT_EQ(hz_load_rlx(&claimed.back()->threads), round) << "the shard with the fewest threads comes first";
        }
    EXPECT_EQ(threads_in_all(), size_t{4} * HZ_NUM_SHARDS);
    for (struct hz_shard *shard : claimed)
        hz_shard_leave(self, shard);
    EXPECT_EQ(threads_in_all(), 1U) << "this thread's own";
    EXPECT_EQ(hz_shard_get(HZ_NUM_SHARDS), nullptr);
    EXPECT_EQ(hz_shard_get(UINT32_MAX), nullptr);
}

TEST(ShardClaim, ThreadsThatClaimAtTheSameTimeGetDifferentShards) {
    constexpr unsigned threads = HZ_NUM_SHARDS < 16 ? 2 : 4;
    constexpr unsigned each =
        (HZ_NUM_SHARDS - threads - 1) / threads; /* the threads have shards of their own already */
    static_assert(each > 0, "too few shards");
    for (unsigned round = 0; round < unit::rounds(50); round++) {
        std::vector<struct hz_shard *> claimed[threads];
        unit::Barrier all_claimed(threads);
        unit::together(threads, [&](unsigned index) {
            struct hz_thread_block *self = unit::self();
            for (unsigned i = 0; i < each; i++)
                claimed[index].push_back(hz_shard_claim());
            all_claimed.wait();
            for (struct hz_shard *shard : claimed[index])
                hz_shard_leave(self, shard);
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
        shards[index] = unit::self()->shard;
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

TEST(ShardClaim, ALimitHoldsForThreadsThatStartAfterIt) {
    struct hz_thread_block *self = unit::self();
    std::vector<struct hz_shard *> claimed;
    auto claim = [&] {
        claimed.push_back(hz_shard_claim());
        return claimed.back();
    };
    ASSERT_EQ(self->shard->index, 0U);
    ASSERT_EQ(claim()->index, 1U);
    struct hz_shard *third = hz_shard_claim();
    ASSERT_EQ(third->index, 2U);
    ASSERT_TRUE(hz_shard_limit_set(2));
    EXPECT_EQ(hz_load_rlx(&third->threads), 1U) << "a thread that has a shard keeps it";
    for (unsigned i = 0; i < 6; i++)
        ASSERT_LT(claim()->index, 2U);
    EXPECT_EQ(hz_load_rlx(&self->shard->threads), 4U) << "they spread evenly over the two";
    hz_shard_leave(self, third);
    ASSERT_LT(claim()->index, 2U) << "although there is a shard without threads";
    ASSERT_TRUE(hz_shard_limit_set(1));
    ASSERT_EQ(claim(), self->shard);
    for (uint32_t limit : {uint32_t{0}, uint32_t{HZ_NUM_SHARDS}, UINT32_MAX}) {
        ASSERT_TRUE(hz_shard_limit_set(limit));
        ASSERT_EQ(claim()->index, 2U) << "no limit but the knobs': " << limit;
        hz_shard_leave(self, claimed.back());
        claimed.pop_back();
    }
    ASSERT_TRUE(hz_shard_limit_set(0));
    for (struct hz_shard *shard : claimed)
        hz_shard_leave(self, shard);
    EXPECT_EQ(threads_in_all(), 1U);
}

/* ---- what the next thread of a shard inherits ---- */

TEST(ShardInherit, PagesStayWithTheShard) {
    struct hz_thread_block *self = unit::self();
    struct hz_shard *shard = hz_shard_claim();
    Blocks blocks = unit::take(shard, 7, 10);
    struct hz_page *page = hz_page_of(blocks[0]);
    hz_shard_leave(self, shard);
    ASSERT_EQ(hz_load_rlx(&shard->threads), 0U);
    std::vector<struct hz_shard *> claimed = claim_all_others();
    ASSERT_EQ(std::count(claimed.begin(), claimed.end(), shard), 1);
    EXPECT_EQ(unit::partial(shard, 7), page);
    Blocks more = unit::take(shard, 7, 1);
    EXPECT_EQ(hz_page_of(more[0]), page) << "the next thread uses the page";
    unit::put(shard, blocks);
    unit::put(shard, more);
    unit::retire_all(shard);
    EXPECT_EQ(unit::pages_of(shard), 0U);
    for (struct hz_shard *each : claimed)
        hz_shard_leave(self, each);
    EXPECT_EQ(threads_in_all(), 1U);
}

TEST(ShardInherit, LeaveDrainsTheMailbox) {
    struct hz_thread_block *self = unit::self();
    struct hz_shard *shard = hz_shard_claim();
    Blocks blocks = unit::take(shard, 7, 10);
    struct hz_list list = unit::list_of(blocks);
    unit::forget_sparse(); /* blocks of a sparse class are not sent */
    hz_shard_send(self, shard, 7, &list);
    ASSERT_EQ(unit::waiting(shard, 7), 10U);
    ASSERT_TRUE(hz_shard_was_sent(shard, 7));
    hz_shard_leave(self, shard);
    EXPECT_EQ(unit::waiting(shard, 7), 0U);
    EXPECT_FALSE(hz_shard_was_sent(shard, 7));
    EXPECT_EQ(unit::retire_all(shard), 1U) << "all ten blocks are in their page";
}

/* ---- the way home and back ---- */

class Shard : public unit::OwnShard {
  protected:
    Blocks refill(unsigned size_class, uint32_t want) {
        return unit::refill(shard_, size_class, want);
    }
    void send(unsigned size_class, const Blocks &blocks) {
        struct hz_list list = unit::list_of(blocks);
        unit::forget_sparse(); /* blocks of a sparse class are not sent */
        hz_shard_send(self_, shard_, size_class, &list);
    }
    uint32_t waiting(unsigned size_class) {
        return unit::waiting(shard_, size_class);
    }
    struct hz_counters counters() {
        return self_->counters;
    }
};

Blocks sorted(Blocks blocks) {
    std::sort(blocks.begin(), blocks.end());
    return blocks;
}

TEST_F(Shard, SentBlocksWaitForTheShard) {
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

TEST_F(Shard, MarksOfClassesAreSeparate) {
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        Blocks blocks = unit::take(shard_, size_class, 1);
        send(size_class, blocks);
        for (unsigned other = 1; other < unit::class_count; other++)
            ASSERT_EQ(hz_shard_was_sent(shard_, other), other == size_class) << size_class << " and " << other;
        unit::drain(shard_, size_class);
    }
}

TEST_F(Shard, BlocksOfTheOwnOrAnUnusedShardGoIntoTheirPages) {
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

TEST_F(Shard, OwnBlocksArePutIntoTheirPages) {
    struct hz_shard *own = self_->shard;
    Blocks blocks = unit::take(own, 7, 5);
    Blocks others = unit::take(own, 9, 3);
    blocks.insert(blocks.end(), others.begin(), others.end());
    struct hz_counters before = counters();
    hz_shard_put(self_, blocks.data(), 8);
    EXPECT_EQ(counters().home_blocks, before.home_blocks + 8);
    EXPECT_EQ(counters().ls_rel_self, before.ls_rel_self + 1);
    EXPECT_EQ(unit::retire_all(own), 2U);
}

TEST_F(Shard, AnyThreadCanPutAnyBlock) {
    struct hz_shard *own = self_->shard;
    Blocks blocks = unit::take(shard_, 7, 4);
    Blocks mine = unit::take(own, 7, 4);
    hz_block_put(self_, blocks[0]);
    EXPECT_EQ(hz_page_of(blocks[1])->free_count, hz_page_of(blocks[1])->capacity - 3);
    Blocks mixed = {blocks[1], mine[0], blocks[2], mine[1], mine[2]};
    struct hz_list list = unit::list_of(mixed);
    hz_blocks_put(self_, &list);
    hz_shard_put(self_, blocks.data() + 3, 1); /* a stray, in a call for own blocks */
    hz_shard_put(self_, mine.data() + 3, 1);
    EXPECT_EQ(unit::retire_all(shard_), 1U);
    EXPECT_EQ(unit::retire_all(own), 1U);
}

TEST_F(Shard, RefillTakesSentBlocksThenPages) {
    Blocks blocks = unit::take(shard_, 7, 10);
    send(7, blocks);
    struct hz_counters before = counters();
    Blocks first = refill(7, 4);
    EXPECT_EQ(first.size(), 4U);
    EXPECT_EQ(counters().refill_carry, before.refill_carry);
    EXPECT_EQ(counters().carry_miss, before.carry_miss + 1);
    EXPECT_EQ(unit::carry_count(shard_, 7), 6U) << "the carry has the rest";
    EXPECT_EQ(waiting(7), 6U);
    Blocks second = refill(7, 6);
    EXPECT_EQ(second.size(), 6U);
    EXPECT_EQ(counters().refill_carry, before.refill_carry + 1);
    EXPECT_EQ(counters().carry_hit, before.carry_hit + 1);
    EXPECT_EQ(counters().refill_page, before.refill_page);
    EXPECT_EQ(waiting(7), 0U);
    Blocks third = refill(7, 3);
    EXPECT_EQ(third.size(), 3U);
    EXPECT_EQ(counters().refill_page, before.refill_page + 1);
    EXPECT_EQ(counters().page_create, before.page_create);
    Blocks all = first;
    all.insert(all.end(), second.begin(), second.end());
    EXPECT_EQ(sorted(all), sorted(blocks));
    unit::put(shard_, blocks);
    unit::put(shard_, third);
}

TEST_F(Shard, OneRefillCanHaveSeveralSources) {
    Blocks blocks = unit::take(shard_, 7, 10);
    send(7, Blocks(blocks.begin(), blocks.begin() + 4));
    Blocks carried = refill(7, 1);
    send(7, Blocks(blocks.begin() + 4, blocks.end()));
    struct hz_counters before = counters();
    Blocks all = refill(7, 20);
    EXPECT_EQ(all.size(), 20U) << "blocks from carry, mailbox and pages";
    EXPECT_EQ(counters().refill_carry, before.refill_carry + 1);
    EXPECT_EQ(counters().refill_page, before.refill_page + 1);
    EXPECT_EQ(counters().page_create, before.page_create);
    EXPECT_EQ(waiting(7), 0U);
    all.insert(all.end(), carried.begin(), carried.end());
    Blocks in_order = sorted(all);
    EXPECT_EQ(std::unique(in_order.begin(), in_order.end()), in_order.end());
    Blocks sent = sorted(blocks);
    EXPECT_TRUE(std::includes(in_order.begin(), in_order.end(), sent.begin(), sent.end()));
    unit::put(shard_, all);
}

TEST_F(Shard, OneRefillMakesOnePage) {
    for (unsigned size_class : unit::some_classes()) {
        uint64_t created = counters().page_create;
        Blocks blocks = refill(size_class, hz_batch_count(size_class));
        EXPECT_GE(blocks.size(), 1U);
        EXPECT_LE(blocks.size(), hz_batch_count(size_class));
        EXPECT_EQ(counters().page_create, created + 1);
        unit::put(shard_, blocks);
    }
}

/* Sends more single blocks than a bounded mailbox holds. No block is lost. */
TEST_F(Shard, NothingIsLostWhenTheMailboxIsFull) {
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
        Blocks first = sorted(back);
        EXPECT_EQ(std::unique(first.begin(), first.end()), first.end());
        Blocks all = sorted(blocks);
        EXPECT_TRUE(std::includes(all.begin(), all.end(), first.begin(), first.end()));
        EXPECT_EQ(back.size() + after.direct_home - before.direct_home, blocks.size());
        unit::put(shard_, back);
    }
}

TEST_F(Shard, DrainEmptiesAll) {
    unsigned size_class = unit::largest_short;
    Blocks blocks = unit::take(shard_, size_class, 400);
    for (void *block : blocks)
        send(size_class, {block});
    Blocks carried = refill(size_class, 1);
    unit::drain(shard_, size_class);
    EXPECT_EQ(waiting(size_class), 0U);
    EXPECT_EQ(unit::carry_count(shard_, size_class), 0U);
    unit::put(shard_, carried);
}

TEST_F(Shard, SendersAndTheOwnerLoseNothing) {
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
