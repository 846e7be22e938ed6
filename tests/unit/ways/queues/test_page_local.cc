/* Page-local remote lists: a page is queued once however many blocks are sent to it, and again after it was drained. */
#include "unit/heap/fixture.h"
#include "unit/ways/lists/lists.h"
#include "unit/ways/queues/library.h"

#include <algorithm>

namespace {

using unit::Blocks;

class PageQueue : public unit::OwnShard {
  protected:
    void SetUp() override {
        OwnShard::SetUp();
        if (HZ_PAGE_LOCAL_THRESHOLD > 1 && !with_threshold)
            GTEST_SKIP() << "in this variant one block is not enough to queue a page";
    }
    void TearDown() override {
        EXPECT_EQ(hz_page_local_take(unit::self(), &queue_), 0U) << "nothing is left in the queue";
        OwnShard::TearDown();
    }
    /* All blocks of a new page. */
    Blocks page_blocks(unsigned size_class) {
        unit::Exclusive exclusive(shard_);
        EXPECT_EQ(unit::partial(shard_, size_class), nullptr);
        EXPECT_TRUE(hz_page_create_locked(shard_, size_class));
        uint32_t capacity = unit::partial(shard_, size_class)->capacity;
        Blocks blocks(capacity);
        EXPECT_EQ(hz_pages_carve_locked(shard_, size_class, blocks.data(), capacity, nullptr), capacity);
        return blocks;
    }
    uint32_t send(const Blocks &blocks) {
        return send_list(unit::list_of(blocks));
    }
    /* Returns how many pages it queued. */
    uint32_t send_list(const struct hz_list &list) {
        uint64_t before = unit::self()->counters.pageq_enq;
        hz_page_local_send(unit::self(), &queue_, &list);
        return static_cast<uint32_t>(unit::self()->counters.pageq_enq - before);
    }
    /* The blocks of one take, sorted. */
    Blocks take() {
        Blocks blocks = unit::blocks_of(hz_page_local_take(unit::self(), &queue_));
        std::sort(blocks.begin(), blocks.end());
        return blocks;
    }
    static uint32_t remote_count(const Blocks &blocks) {
        return hz_sent_count_in_page(hz_page_of(blocks[0]));
    }
    struct hz_page_queue queue_ = {}; /* of no shard */
    bool with_threshold = false;
};

Blocks part(const Blocks &blocks, size_t from, size_t count) {
    auto first = blocks.begin() + static_cast<ptrdiff_t>(from);
    Blocks some(first, first + static_cast<ptrdiff_t>(count));
    std::sort(some.begin(), some.end());
    return some;
}

/* Variants with a threshold above one. */
class Threshold : public PageQueue {
  protected:
    void SetUp() override {
        with_threshold = true;
        PageQueue::SetUp();
        if (HZ_PAGE_LOCAL_THRESHOLD == 1)
            GTEST_SKIP() << "in this variant every block queues its page";
    }
    enum : size_t { enough = HZ_PAGE_LOCAL_THRESHOLD };
};

TEST_F(Threshold, TheBlockThatReachesTheThresholdQueuesThePage) {
    Blocks page = page_blocks(5);
    for (size_t round = 0; round < 2; round++) {
        EXPECT_EQ(send(part(page, 0, enough - 1)), 0U);
        EXPECT_TRUE(take().empty());
        EXPECT_EQ(send({page[enough - 1]}), 1U);
        EXPECT_EQ(send({page[enough]}), 0U) << "the page is queued already";
        EXPECT_EQ(take(), part(page, 0, enough + 1));
    }
    unit::put(shard_, page);
}

TEST_F(Threshold, APageWithFewerBlocksThanTheThresholdIsQueuedByTheLast) {
    unsigned size_class = unit::largest_short;
    Blocks page = page_blocks(size_class);
    size_t least = std::min<size_t>(enough, page.size());
    EXPECT_EQ(send(part(page, 0, least - 1)), 0U);
    EXPECT_EQ(send({page[least - 1]}), 1U);
    EXPECT_EQ(take(), part(page, 0, least));
    unit::put(shard_, page);
}

TEST_F(Threshold, UnqueuedPagesAreGatheredAndQueuedPagesAreNot) {
    Blocks little = page_blocks(5);
    Blocks queued = page_blocks(5);
    EXPECT_EQ(send({little[0]}), 0U);
    EXPECT_EQ(send(part(queued, 0, enough)), 1U);
    hz_page_local_gather(self_);
    EXPECT_EQ(remote_count(little), 0U);
    EXPECT_EQ(hz_page_of(little[0])->free_count, 1U);
    EXPECT_EQ(remote_count(queued), size_t{enough});
    EXPECT_EQ(take(), part(queued, 0, enough));
    unit::put(shard_, queued);
    unit::put(shard_, part(little, 1, little.size() - 1));
}

TEST_F(PageQueue, EmptyGivesNothing) {
    EXPECT_EQ(hz_page_local_take(unit::self(), &queue_), 0U);
}

TEST_F(PageQueue, APageIsQueuedOnceHoweverManyAreSent) {
    for (unsigned size_class : {1U, 5U}) {
        Blocks page = page_blocks(size_class);
        EXPECT_EQ(send(part(page, 0, 5)), 1U);
        EXPECT_EQ(send(part(page, 5, 3)), 0U) << "the page is in the queue already";
        EXPECT_EQ(send({page[8]}), 0U);
        EXPECT_EQ(remote_count(page), 9U);
        EXPECT_EQ(take(), part(page, 0, 9)) << "all blocks, each once";
        EXPECT_EQ(remote_count(page), 0U);
        EXPECT_TRUE(take().empty());
        EXPECT_EQ(send(part(page, 0, 2)), 1U) << "queued again after it was drained";
        EXPECT_EQ(take(), part(page, 0, 2));
        unit::put(shard_, page);
        unit::retire_all(shard_);
    }
}

TEST_F(PageQueue, AWholePageCanBeSent) {
    Blocks page = page_blocks(1); /* of the smallest class, which has the most blocks */
    EXPECT_EQ(send(page), 1U);
    EXPECT_EQ(remote_count(page), page.size());
    EXPECT_EQ(take(), part(page, 0, page.size()));
    unit::put(shard_, page);
}

TEST_F(PageQueue, OneListCanHoldBlocksOfManyPages) {
    Blocks a = page_blocks(5);
    Blocks b = page_blocks(5);
    Blocks c = page_blocks(5);
    Blocks mixed = {a[0], b[0], a[1], c[0], b[1], a[2]};
    struct hz_list list = unit::list_of(mixed);
    hz_block_link(list.tail, reinterpret_cast<void *>(uintptr_t{0xdead0})); /* the last link may be anything */
    EXPECT_EQ(send_list(list), 3U);
    EXPECT_EQ(remote_count(a), 3U);
    EXPECT_EQ(remote_count(b), 2U);
    EXPECT_EQ(remote_count(c), 1U);
    std::vector<Blocks> taken = {take(), take(), take()};
    std::vector<Blocks> sent = {part(a, 0, 3), part(b, 0, 2), part(c, 0, 1)};
    std::sort(taken.begin(), taken.end());
    std::sort(sent.begin(), sent.end());
    EXPECT_EQ(taken, sent);
    for (const Blocks &page : {a, b, c})
        unit::put(shard_, page);
}

TEST_F(PageQueue, PendingPagesAreServedBeforeTheQueue) {
    Blocks a = page_blocks(5);
    Blocks b = page_blocks(5);
    Blocks c = page_blocks(5);
    Blocks d = page_blocks(5);
    for (const Blocks &page : {a, b, c})
        EXPECT_EQ(send({page[0]}), 1U);
    EXPECT_EQ(take(), (Blocks{c[0]})) << "the page queued last comes first";
    EXPECT_EQ(send({d[0]}), 1U);
    EXPECT_EQ(send({a[1]}), 0U) << "the page is pending, so it will be drained";
    EXPECT_EQ(take(), (Blocks{b[0]}));
    EXPECT_EQ(take(), part(a, 0, 2));
    EXPECT_EQ(take(), (Blocks{d[0]}));
    for (const Blocks &page : {a, b, c, d})
        unit::put(shard_, page);
}

/* A drained page is queued again while the pages behind it are still pending, so its link is overwritten. */
TEST_F(PageQueue, PagesQueuedAgainDoNotDisturbThosePending) {
    Blocks a = page_blocks(5);
    Blocks b = page_blocks(5);
    Blocks c = page_blocks(5);
    for (const Blocks &page : {a, b, c})
        EXPECT_EQ(send({page[0]}), 1U);
    EXPECT_EQ(take(), (Blocks{c[0]}));
    EXPECT_EQ(send({c[1]}), 1U);
    EXPECT_EQ(take(), (Blocks{b[0]}));
    EXPECT_EQ(send({b[1]}), 1U);
    EXPECT_EQ(take(), (Blocks{a[0]}));
    EXPECT_EQ(take(), (Blocks{b[1]})) << "from the queue, since no page is pending";
    EXPECT_EQ(take(), (Blocks{c[1]}));
    for (const Blocks &page : {a, b, c})
        unit::put(shard_, page);
}

TEST_F(PageQueue, PagesWithBlocksOnTheirWayAreNotRetired) {
    Blocks a = page_blocks(5);
    Blocks b = page_blocks(5);
    unit::put(shard_, b); /* so that the other page is not the last of its class */
    EXPECT_EQ(send(part(a, 0, 2)), 1U);
    EXPECT_EQ(unit::put(shard_, part(a, 2, a.size() - 2)), 0U);
    EXPECT_EQ(hz_pagetag_class(a[0]), 5U);
    EXPECT_EQ(unit::put(shard_, take()), 1U) << "all blocks are home";
}

/* Several threads send each block once, in small lists, while another thread drains, so that pages keep being queued
   again. If a page is lost, its blocks stay with it. If a page is queued twice, a take gets an empty list, and the
   chain ends too early. */
TEST_F(PageQueue, SendersAndTheTakerLoseNothing) {
    constexpr unsigned senders = 3;
    constexpr size_t pages = 4;
    Blocks all;
    for (size_t i = 0; i < pages; i++) {
        Blocks page = page_blocks(1);
        all.insert(all.end(), page.begin(), page.end());
    }
    for (unsigned round = 0; round < unit::rounds(40); round++) {
        support::Random shuffler(round);
        for (size_t i = all.size(); i > 1; i--)
            std::swap(all[i - 1], all[shuffler.below(i)]);
        for (size_t i = 0; i < all.size(); i++)
            static_cast<uint64_t *>(all[i])[1] = i;
        std::vector<uint32_t> taken(all.size());
        std::atomic<unsigned> sending{senders};
        std::atomic<size_t> queued{0};
        size_t drained = 0;
        unit::together(senders + 1, [&](unsigned index) {
            if (index < senders) {
                support::Random random(round * senders + index);
                size_t end = all.size() * (index + 1) / senders;
                for (size_t at = all.size() * index / senders, count; at < end; at += count) {
                    count = std::min(random.between(1, 3), end - at);
                    queued += send_list(unit::list_of(all, at, count));
                }
                sending--;
                return;
            }
            for (bool last = false; !last;) {
                last = sending.load() == 0;
                for (hz_list_word word; (word = hz_page_local_take(unit::self(), &queue_)) != 0; drained++)
                    for (void *block : unit::blocks_of(word))
                        taken[static_cast<uint64_t *>(block)[1]]++;
                std::this_thread::yield();
            }
        });
        ASSERT_EQ(drained, queued.load()) << "each queued page is drained once";
        ASSERT_EQ(std::count(taken.begin(), taken.end(), 1U), static_cast<ptrdiff_t>(all.size()))
            << "each block is taken once";
    }
    unit::put(shard_, all);
}

} // namespace
