/* Shards: each thread gets its own until there are no more, then threads share. The next thread of a shard inherits its
   pages. */
#include "unit/heap/fixture.h"

#include <algorithm>
#include <set>

namespace {

using unit::Blocks;

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
        unit::leave(shard);
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
            unit::self();
            for (unsigned i = 0; i < each; i++)
                claimed[index].push_back(hz_shard_claim());
            all_claimed.wait();
            for (struct hz_shard *shard : claimed[index])
                unit::leave(shard);
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
    unit::leave(third);
    ASSERT_LT(claim()->index, 2U) << "although there is a shard without threads";
    ASSERT_TRUE(hz_shard_limit_set(1));
    ASSERT_EQ(claim(), self->shard);
    for (uint32_t limit : {uint32_t{0}, uint32_t{HZ_NUM_SHARDS}, UINT32_MAX}) {
        ASSERT_TRUE(hz_shard_limit_set(limit));
        ASSERT_EQ(claim()->index, 2U) << "no limit but the knobs': " << limit;
        unit::leave(claimed.back());
        claimed.pop_back();
    }
    ASSERT_TRUE(hz_shard_limit_set(0));
    for (struct hz_shard *shard : claimed)
        unit::leave(shard);
    EXPECT_EQ(threads_in_all(), 1U);
}

/* ---- what the next thread of a shard inherits ---- */

TEST(ShardInherit, PagesStayWithTheShard) {
    unit::self();
    struct hz_shard *shard = hz_shard_claim();
    Blocks blocks = unit::take(shard, 7, 10);
    struct hz_page *page = hz_page_of(blocks[0]);
    unit::leave(shard);
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
        unit::leave(each);
    EXPECT_EQ(threads_in_all(), 1U);
}

} // namespace
