/* Mail of hz4: lists posted to the inbox, bounded; or, in the lane pageq, blocks sent to their pages. */
#include "stress/children.h"
#include "unit/core/fixture.h"
#include "unit/hz4/shim.h"

#include <algorithm>

namespace {

using children::require;
using unit::Blocks;

/* Blocks that belong to nobody: the lists only link them. */
struct Node {
    void *link;
    uint64_t payload;
    uint32_t taken;
};

struct hz_list list_of(std::vector<Node> &nodes, size_t from, size_t count) {
    struct hz_list list = {};
    for (size_t i = from; i < from + count; i++)
        hz_list_push(&list, &nodes[i]);
    return list;
}

class Mail : public unit::OwnShard {
  protected:
    void send(unsigned size_class, const Blocks &blocks) {
        struct hz_list list = unit::list_of(blocks);
        hz_shard_send(self_, shard_, size_class, &list);
    }
    struct unit_hz4_counters counters() {
        return unit_hz4_counters_of(self_);
    }
};

/* ---- the inbox ---- */

class Inbox : public Mail {
  protected:
    void SetUp() override {
        Mail::SetUp();
        mail_ = unit_mailbox_new();
        if (HZ_REMOTE_INBOX == 0)
            GTEST_SKIP() << "this lane sends blocks to their pages";
    }
    void TearDown() override {
        unit_delete(mail_);
        Mail::TearDown();
    }
    bool post(unsigned size_class, const struct hz_list &list) {
        return hz_mail_send(self_, mail_, size_class, &list);
    }
    Blocks take() {
        return unit::blocks_of(hz_mail_take(self_, mail_));
    }
    struct hz_mailbox *mail_ = nullptr; /* of no shard */
};

/* The longest list that is sent at once: what is grouped of home classes, of others a batch. */
size_t longest(unsigned size_class) {
    return hz_class_is_home(size_class) ? unit_home_count : hz_batch_count(size_class);
}

/* The most blocks of a class that may wait there: so many bytes, but one list at least. */
size_t bound(unsigned size_class) {
    size_t bytes = HZ_INBOX_BYTES;
    return std::min<size_t>(std::max(bytes / hz_class_bytes(size_class), longest(size_class)), HZ_LIST_COUNT_MAX);
}

TEST_F(Inbox, TakesEverythingAtOnceNewestFirst) {
    std::vector<Node> nodes(7);
    struct unit_hz4_counters before = counters();
    EXPECT_EQ(hz_mail_take(self_, mail_), 0U);
    EXPECT_EQ(counters().inbox_consume, before.inbox_consume) << "an empty one is not consumed";
    EXPECT_TRUE(post(1, list_of(nodes, 0, 3)));
    EXPECT_TRUE(post(1, list_of(nodes, 3, 4)));
    EXPECT_EQ(hz_mail_count(mail_), 7U);
    EXPECT_EQ(counters().inbox_push_list - before.inbox_push_list, 2U);
    EXPECT_EQ(take(), (Blocks{&nodes[6], &nodes[5], &nodes[4], &nodes[3], &nodes[2], &nodes[1], &nodes[0]}));
    EXPECT_EQ(counters().inbox_consume - before.inbox_consume, 1U);
    EXPECT_EQ(hz_mail_count(mail_), 0U);
    EXPECT_TRUE(take().empty());
    EXPECT_EQ(counters().page_push, before.page_push) << "nothing goes to pages";
}

TEST_F(Inbox, WhatWaitsIsBounded) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        size_t most = bound(size_class);
        std::vector<Node> nodes(most + 3);
        uint64_t posted = counters().inbox_push_list;
        EXPECT_TRUE(post(size_class, list_of(nodes, 0, most - 2)));
        EXPECT_FALSE(post(size_class, list_of(nodes, most, 3))) << "one too many: none of them";
        EXPECT_EQ(hz_mail_count(mail_), most - 2);
        EXPECT_TRUE(post(size_class, list_of(nodes, most - 2, 2))) << "as many as there is room for";
        struct hz_list refused = list_of(nodes, most, 3);
        EXPECT_FALSE(post(size_class, refused));
        EXPECT_EQ(counters().inbox_push_list - posted, 2U) << "refused ones do not count";
        EXPECT_EQ(unit::blocks_of(refused), (Blocks{&nodes[most + 2], &nodes[most + 1], &nodes[most]}))
            << "the sender still has all of them";
        Blocks taken = take();
        EXPECT_EQ(taken.size(), most);
        std::sort(taken.begin(), taken.end());
        EXPECT_EQ(std::unique(taken.begin(), taken.end()), taken.end());
        EXPECT_EQ(std::count(taken.begin(), taken.end(), &nodes[most]), 0);
        EXPECT_TRUE(post(size_class, refused)) << "there is room again";
        EXPECT_EQ(take().size(), 3U);
    }
}

TEST_F(Inbox, OneListAlwaysFits) {
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        std::vector<Node> nodes(longest(size_class));
        EXPECT_TRUE(post(size_class, list_of(nodes, 0, nodes.size()))) << "class " << size_class;
        EXPECT_EQ(take().size(), nodes.size());
    }
}

TEST_F(Inbox, WhatFindsNoRoomIsPutHomeBySender) {
    unsigned size_class = unit::class_count - 1;
    size_t most = bound(size_class);
    Blocks blocks = unit::take(shard_, size_class, static_cast<uint32_t>(most + 20));
    uint64_t direct = unit_counters_of(self_).direct_home;
    for (void *block : blocks)
        send(size_class, {block});
    EXPECT_EQ(hz_shard_waiting(shard_, size_class), most);
    EXPECT_EQ(unit_counters_of(self_).direct_home - direct, 20U);
    Blocks back = unit::refill(shard_, size_class, static_cast<uint32_t>(most));
    EXPECT_EQ(back, Blocks(blocks.rend() - static_cast<ptrdiff_t>(most), blocks.rend())) << "the newest first";
    unit::put(shard_, back);
}

TEST_F(Inbox, RefillConsumesItOnce) {
    Blocks blocks = unit::take(shard_, 7, 10);
    struct unit_hz4_counters before = counters();
    send(7, blocks);
    EXPECT_EQ(counters().inbox_push_list - before.inbox_push_list, 1U);
    EXPECT_EQ(hz_mail_count(unit_mailbox(shard_, 7)), 10U);
    EXPECT_EQ(hz_shard_waiting(shard_, 7), 10U);
    Blocks first = unit::refill(shard_, 7, 4);
    EXPECT_EQ(counters().inbox_consume - before.inbox_consume, 1U);
    EXPECT_GE(unit_counters_of(self_).inbox_stash_max, 6U);
    Blocks second = unit::refill(shard_, 7, 6);
    EXPECT_EQ(counters().inbox_consume - before.inbox_consume, 1U) << "from the carry";
    unit::put(shard_, first);
    unit::put(shard_, second);
}

TEST_F(Inbox, OneListPerGroup) {
    struct hz_shard *other = hz_shard_claim();
    Blocks blocks;
    for (int i = 0; i < 8; i++)
        for (struct hz_shard *owner : {shard_, other})
            blocks.push_back(unit::take(owner, 9, 1)[0]);
    uint64_t before = counters().inbox_push_list;
    hz_home_send(self_, blocks.data(), 16);
    EXPECT_EQ(counters().inbox_push_list - before, 2U);
    for (struct hz_shard *owner : {shard_, other}) {
        EXPECT_EQ(hz_shard_waiting(owner, 9), 8U);
        unit::drain(owner, 9);
    }
    unit::retire_all(other);
    EXPECT_EQ(unit::pages_of(other), 0U);
    hz_shard_release(self_, other);
}

TEST_F(Inbox, ThreadsLoseNothing) {
    constexpr unsigned senders = 3;
    unsigned size_class = unit::class_count - 1; /* the smallest bound: senders are refused now and then */
    const size_t each = unit::rounds(20000);
    std::vector<std::vector<Node>> nodes(senders, std::vector<Node>(each));
    std::atomic<unsigned> sending{senders};
    size_t wrong = 0;
    unit::together(senders + 1, [&](unsigned index) {
        struct hz_thread_block *self = unit_self();
        if (index < senders) {
            for (size_t i = 0; i < each; i++) {
                nodes[index][i].payload = i + 1;
                struct hz_list one = list_of(nodes[index], i, 1);
                while (!hz_mail_send(self, mail_, size_class, &one))
                    std::this_thread::yield();
            }
            sending--;
            return;
        }
        for (bool last = false; !last;) {
            last = sending.load() == 0;
            Blocks blocks = unit::blocks_of(hz_mail_take(self, mail_));
            wrong += blocks.size() > bound(size_class);
            for (void *block : blocks) {
                auto *node = static_cast<Node *>(block);
                wrong += node->payload == 0;
                node->taken++;
            }
            if (blocks.empty())
                std::this_thread::yield();
        }
    });
    EXPECT_EQ(wrong, 0U);
    for (const auto &list : nodes)
        for (const Node &node : list)
            ASSERT_EQ(node.taken, 1U);
}

TEST_F(Inbox, IsTheSameInAChild) {
    Blocks blocks = unit::take(shard_, 7, 10);
    send(7, blocks);
    children::expect_good_end(children::start([&] {
        require(hz_mail_count(unit_mailbox(shard_, 7)) == 10, "what waits waits there too");
        require(unit::drain(shard_, 7).count == 0, "it can be taken");
        require(unit::retire_all(shard_) == 1, "and is all there");
        return 0;
    }));
    EXPECT_EQ(hz_mail_count(unit_mailbox(shard_, 7)), 10U);
    unit::drain(shard_, 7);
}

/* ---- pages ---- */

class Pages : public Mail {
  protected:
    static constexpr unsigned size_class = 7;
    void SetUp() override {
        Mail::SetUp();
        if (HZ_REMOTE_INBOX != 0)
            GTEST_SKIP() << "this lane posts lists to the inbox";
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
        return unit_page_of(hz_page_of(page[0])).free_count;
    }
    static uint32_t remote_count(const Blocks &page) {
        return unit_page_of(hz_page_of(page[0])).remote_count;
    }
    struct hz_pageq *queue() {
        return unit_mailbox_pages(unit_mailbox(shard_, size_class));
    }
};

TEST_F(Pages, BlocksArePushedPagesQueuedAndDrained) {
    std::vector<Blocks> pages = three_pages();
    struct unit_hz4_counters before = counters();
    send(size_class, {pages[0][0], pages[1][0], pages[0][1], pages[2][0]});
    send(size_class, {pages[1][1], pages[1][2]});
    EXPECT_EQ(counters().page_push - before.page_push, 6U) << "blocks";
    EXPECT_EQ(counters().page_enqueue - before.page_enqueue, 3U) << "pages that had nothing before";
    EXPECT_EQ(counters().page_drain, before.page_drain);
    EXPECT_EQ(remote_count(pages[0]), 2U);
    EXPECT_EQ(remote_count(pages[1]), 3U);
    EXPECT_EQ(remote_count(pages[2]), 1U);
    Blocks some = unit::refill(shard_, size_class, 1);
    EXPECT_EQ(counters().page_drain - before.page_drain, 1U) << "one page at a time";
    unit::drain(shard_, size_class);
    EXPECT_EQ(counters().page_drain - before.page_drain, 3U);
    for (const Blocks &page : pages)
        EXPECT_EQ(remote_count(page), 0U);
    EXPECT_EQ(free_count(pages[0]) + free_count(pages[1]) + free_count(pages[2]) + some.size(), 6U);
    send(size_class, {pages[0][2]});
    EXPECT_EQ(counters().page_enqueue - before.page_enqueue, 4U) << "queued again";
    EXPECT_EQ(counters().inbox_push_list, before.inbox_push_list) << "nothing goes to the inbox";
    EXPECT_EQ(counters().inbox_consume, before.inbox_consume);
    unit::drain(shard_, size_class);
    unit::put(shard_, some);
    for (size_t i = 0; i < 3; i++) { /* those that were never sent */
        size_t sent = i == 2 ? 1 : 3;
        unit::put(shard_, Blocks(pages[i].begin() + static_cast<ptrdiff_t>(sent), pages[i].end()));
    }
}

TEST_F(Pages, NeverRefuse) {
    Blocks blocks = unit::take(shard_, unit::class_count - 1, 500);
    uint64_t direct = unit_counters_of(self_).direct_home;
    for (void *block : blocks)
        send(unit::class_count - 1, {block});
    EXPECT_EQ(unit_counters_of(self_).direct_home, direct);
    EXPECT_EQ(unit::waiting(shard_, unit::class_count - 1), 500U);
    unit::drain(shard_, unit::class_count - 1);
}

/* In the child: what was sent is in the pages, and the queue works. */
int use_settled_pages(struct hz_shard *shard, const std::vector<Blocks> &pages, const std::vector<uint32_t> &home) {
    unsigned size_class = unit_page_of(hz_page_of(pages[0][0])).size_class;
    for (size_t i = 0; i < pages.size(); i++) {
        struct unit_page page = unit_page_of(hz_page_of(pages[i][0]));
        require(page.remote_count == 0, "nothing is left between sender and page");
        require(page.free_count == home[i], "all of it is home");
    }
    struct hz_list none = unit::drain(shard, size_class);
    require(none.count == 0, "the queue is empty");
    for (const Blocks &page : pages) {
        struct hz_list list = unit::list_of({page.back()});
        struct hz_mailbox *mail = unit_mailbox(shard, size_class);
        require(hz_mail_send(unit_self(), mail, size_class, &list), "it works on");
        require(unit_page_of(hz_page_of(page[0])).remote_count == 1, "there");
    }
    unit::drain(shard, size_class);
    for (size_t i = 0; i < pages.size(); i++)
        require(unit_page_of(hz_page_of(pages[i][0])).free_count == home[i] + 1, "and comes home");
    return 0;
}

TEST_F(Pages, ForkWhileAPageWasNotQueuedYet) {
    std::vector<Blocks> pages = three_pages();
    send(size_class, {pages[0][0], pages[1][0], pages[1][1]});
    struct hz_page *head = unit_pageq_head_set(queue(), nullptr); /* their sender had not come to it */
    children::expect_good_end(children::start([&] { return use_settled_pages(shard_, pages, {1, 2, 0}); }));
    unit_pageq_head_set(queue(), head);
    unit::drain(shard_, size_class);
    unit::put(shard_, Blocks(pages[0].begin() + 1, pages[0].end()));
    unit::put(shard_, Blocks(pages[1].begin() + 2, pages[1].end()));
    unit::put(shard_, pages[2]);
}

TEST_F(Pages, ForkWhilePagesArePendingAndQueued) {
    std::vector<Blocks> pages = three_pages();
    send(size_class, {pages[0][0]});
    send(size_class, {pages[1][0], pages[1][1]});
    Blocks taken;
    {
        unit::Exclusive exclusive(shard_);
        taken = unit::blocks_of(hz_mail_take(self_, unit_mailbox(shard_, size_class)));
    }
    ASSERT_EQ(taken.size(), 2U) << "page 0 is pending now";
    send(size_class, {pages[1][2]});
    send(size_class, {pages[2][0], pages[2][1], pages[2][2]});
    children::expect_good_end(children::start([&] { return use_settled_pages(shard_, pages, {1, 1, 3}); }));
    unit::drain(shard_, size_class);
    unit::put(shard_, taken);
    unit::put(shard_, Blocks(pages[0].begin() + 1, pages[0].end()));
    unit::put(shard_, Blocks(pages[1].begin() + 3, pages[1].end()));
    unit::put(shard_, Blocks(pages[2].begin() + 3, pages[2].end()));
}

/* A fork at any moment while others send and drain: in the child every page is in order. */
TEST_F(Pages, ForksOfABusyProcess) {
    constexpr unsigned senders = 2;
    std::vector<Blocks> pages = three_pages();
    std::atomic<bool> over{false};
    std::vector<std::thread> busy;
    for (unsigned index = 0; index < senders; index++)
        busy.emplace_back(
            [&,
             index] { /* each has one page's blocks, and sends what it can get again */
                      struct hz_thread_block *self = unit_self();
                      Blocks mine = pages[index];
                      size_t at = 0;
                      while (!over) {
                          struct hz_list list = unit::list_of({mine[at % mine.size()], mine[(at + 1) % mine.size()]});
                          hz_shard_send(self, shard_, size_class, &list);
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
            hz_heap_purge(); /* drains all that is left */
            require(unit::waiting(shard_, size_class) == 0, "nothing is stuck");
            Blocks page = unit::take(shard_, size_class, 100);
            struct hz_list list = unit::list_of(page);
            require(hz_mail_send(unit_self(), unit_mailbox(shard_, size_class), size_class, &list), "it works on");
            require(unit::waiting(shard_, size_class) == 100, "all of it is waiting");
            unit::drain(shard_, size_class);
            require(unit::waiting(shard_, size_class) == 0, "and is found");
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
