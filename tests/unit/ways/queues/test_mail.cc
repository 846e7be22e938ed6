/* Mail through pages: blocks are sent to their pages, and pages are queued. */
#include "stress/children.h"
#include "unit/heap/fixture.h"
#include "unit/ways/lists/lists.h"

#include <atomic>
#include <thread>

namespace {

using children::require;
using unit::Blocks;

class Pages : public unit::OwnShard {
  protected:
    static constexpr unsigned size_class = 7;
    void SetUp() override {
        OwnShard::SetUp();
        if (HZ_PAGE_LOCAL_THRESHOLD > 1)
            GTEST_SKIP() << "in this variant one block is not enough to queue a page";
    }
    void send(const Blocks &blocks) {
        unit::send(shard_, blocks);
    }
    struct hz_counters counters() {
        return self_->counters;
    }
    /* All blocks of three pages, page by page. */
    std::vector<Blocks> three_pages() {
        std::vector<Blocks> pages;
        for (int i = 0; i < 3; i++) {
            Blocks page = unit::take(shard_, size_class, 1);
            Blocks rest = unit::take(shard_, size_class, free_count(page));
            page.insert(page.end(), rest.begin(), rest.end());
            pages.push_back(page);
        }
        return pages;
    }
    static uint32_t free_count(const Blocks &page) {
        return hz_page_of(page[0])->free_count;
    }
    static uint32_t remote_count(const Blocks &page) {
        return hz_sent_count_in_page(hz_page_of(page[0]));
    }
    struct hz_page_queue *queue() {
        return &hz_box_of(shard_, size_class)->mail.pages;
    }
};

TEST_F(Pages, BlocksAreSentPagesQueuedAndDrained) {
    std::vector<Blocks> pages = three_pages();
    struct hz_counters before = counters();
    send({pages[0][0], pages[1][0], pages[0][1], pages[2][0]});
    send({pages[1][1], pages[1][2]});
    EXPECT_EQ(counters().push_objs - before.push_objs, 6U) << "blocks that were sent";
    EXPECT_EQ(counters().pageq_enq - before.pageq_enq, 3U) << "pages to which nothing was sent before";
    EXPECT_EQ(counters().pageq_deq, before.pageq_deq);
    EXPECT_EQ(remote_count(pages[0]), 2U);
    EXPECT_EQ(remote_count(pages[1]), 3U);
    EXPECT_EQ(remote_count(pages[2]), 1U);
    Blocks some = unit::refill(shard_, size_class, 1);
    EXPECT_EQ(counters().pageq_deq - before.pageq_deq, 1U) << "one page at a time";
    unit::drain(shard_, size_class);
    EXPECT_EQ(counters().pageq_deq - before.pageq_deq, 3U);
    EXPECT_EQ(counters().drain_total - before.drain_total, 6U);
    EXPECT_EQ(counters().pop_calls - before.pop_calls, 1U);
    for (const Blocks &page : pages)
        EXPECT_EQ(remote_count(page), 0U);
    EXPECT_EQ(free_count(pages[0]) + free_count(pages[1]) + free_count(pages[2]) + some.size(), 6U);
    send({pages[0][2]});
    EXPECT_EQ(counters().pageq_enq - before.pageq_enq, 4U) << "queued again";
    unit::drain(shard_, size_class);
    unit::put(shard_, some);
    for (size_t i = 0; i < 3; i++) { /* the blocks that were never sent */
        size_t sent = i == 2 ? 1 : 3;
        unit::put(shard_, Blocks(pages[i].begin() + static_cast<ptrdiff_t>(sent), pages[i].end()));
    }
}

TEST_F(Pages, NeverRefuseAList) {
    Blocks blocks = unit::take(shard_, unit::largest_short, 500);
    uint64_t direct = self_->counters.direct_home;
    for (void *block : blocks)
        send({block});
    EXPECT_EQ(self_->counters.direct_home, direct);
    EXPECT_EQ(unit::waiting(shard_, unit::largest_short), 500U);
    unit::drain(shard_, unit::largest_short);
}

/* Run by the child: checks that the sent blocks are in their pages, and that the queue works. */
int use_settled_pages(struct hz_shard *shard, const std::vector<Blocks> &pages, const std::vector<uint32_t> &home) {
    unsigned size_class = hz_page_of(pages[0][0])->size_class;
    for (size_t i = 0; i < pages.size(); i++) {
        struct hz_page *page = hz_page_of(pages[i][0]);
        require(hz_sent_count_in_page(page) == 0, "the remote list is empty");
        require(page->free_count == home[i], "all sent blocks are home");
    }
    unit::drain(shard, size_class);
    for (size_t i = 0; i < pages.size(); i++)
        require(hz_page_of(pages[i][0])->free_count == home[i], "the queue is empty");
    for (const Blocks &page : pages) {
        struct hz_list list = unit::list_of({page.back()});
        struct hz_mailbox *mail = &hz_box_of(shard, size_class)->mail;
        require(hz_mail_send(unit::self(), mail, size_class, &list), "the mailbox still works");
        require(hz_sent_count_in_page(hz_page_of(page[0])) == 1, "the block is in the remote list");
    }
    unit::drain(shard, size_class);
    for (size_t i = 0; i < pages.size(); i++)
        require(hz_page_of(pages[i][0])->free_count == home[i] + 1, "the block comes home");
    return 0;
}

TEST_F(Pages, ForkWhileAPageWasNotQueuedYet) {
    std::vector<Blocks> pages = three_pages();
    send({pages[0][0], pages[1][0], pages[1][1]});
    struct hz_page *head = std::exchange(queue()->head, nullptr); /* as if the senders had not queued the pages yet */
    children::expect_good_end(children::start([&] { return use_settled_pages(shard_, pages, {1, 2, 0}); }));
    std::exchange(queue()->head, head);
    unit::drain(shard_, size_class);
    unit::put(shard_, Blocks(pages[0].begin() + 1, pages[0].end()));
    unit::put(shard_, Blocks(pages[1].begin() + 2, pages[1].end()));
    unit::put(shard_, pages[2]);
}

TEST_F(Pages, ForkWhilePagesArePendingAndQueued) {
    std::vector<Blocks> pages = three_pages();
    send({pages[0][0]});
    send({pages[1][0], pages[1][1]});
    Blocks taken;
    {
        unit::Exclusive exclusive(shard_);
        taken = unit::blocks_of(hz_mail_take(self_, &hz_box_of(shard_, size_class)->mail));
    }
    ASSERT_EQ(taken.size(), 2U) << "page 0 is pending now";
    send({pages[1][2]});
    send({pages[2][0], pages[2][1], pages[2][2]});
    children::expect_good_end(children::start([&] { return use_settled_pages(shard_, pages, {1, 1, 3}); }));
    unit::drain(shard_, size_class);
    unit::put(shard_, taken);
    unit::put(shard_, Blocks(pages[0].begin() + 1, pages[0].end()));
    unit::put(shard_, Blocks(pages[1].begin() + 3, pages[1].end()));
    unit::put(shard_, Blocks(pages[2].begin() + 3, pages[2].end()));
}

/* Forks at any moment while other threads send and drain. In the child every page is in order. */
TEST_F(Pages, ForksOfABusyProcess) {
    constexpr unsigned senders = 2;
    std::vector<Blocks> pages = three_pages();
    std::atomic<bool> over{false};
    std::vector<std::thread> busy;
    for (unsigned index = 0; index < senders; index++)
        /* each thread starts with the blocks of one page, sends two at a time, and takes two others from the shard */
        busy.emplace_back([&, index] {
            unit::self();
            Blocks mine = pages[index];
            size_t at = 0;
            while (!over) {
                unit::send(shard_, {mine[at % mine.size()], mine[(at + 1) % mine.size()]});
                unit::drain(shard_, size_class);
                Blocks again = unit::take(shard_, size_class, 2);
                mine[at % mine.size()] = again[0];
                mine[(at + 1) % mine.size()] = again[1];
                at += 2;
            }
            pages[index] = mine;
        });
    for (unsigned i = 0; i < unit::rounds(40); i++) {
        pid_t child = children::start([&] {
            hz_heap_purge(); /* drains everything */
            require(unit::waiting(shard_, size_class) == 0, "no block is stuck");
            Blocks page = unit::take(shard_, size_class, 100);
            struct hz_list list = unit::list_of(page);
            require(hz_mail_send(unit::self(), &hz_box_of(shard_, size_class)->mail, size_class, &list),
                    "the mailbox still works");
            require(unit::waiting(shard_, size_class) == 100, "all sent blocks wait");
            unit::drain(shard_, size_class);
            require(unit::waiting(shard_, size_class) == 0, "the drain finds all of them");
            return 0;
        });
        int status = children::wait_for(child);
        EXPECT_EQ(status, 0) << "child " << i << " ended with " << children::describe(status);
    }
    over = true;
    for (std::thread &thread : busy)
        thread.join();
    for (const Blocks &page : pages)
        unit::put(shard_, page);
}

} // namespace
