/* Mail by inbox, which hz3 calls stash: lists sent to one bounded list. */
#include "stress/children.h"
#include "unit/heap/pages/sent_shard.h"
#include "unit/ways/lists/lists.h"
#include "unit/ways/lists/nodes.h"

#include <algorithm>

namespace {

using children::require;
using unit::Blocks;
using unit::list_of;
using unit::Node;

class Inbox : public unit::SentShard {
  protected:
    bool mail_send(unsigned size_class, const struct hz_list &list) {
        return hz_mail_send(self_, &mail_, size_class, &list);
    }
    Blocks take() {
        return unit::blocks_of(hz_mail_take(self_, &mail_));
    }
    struct hz_mailbox mail_ = {}; /* of no shard */
};

/* The longest list of a class: as many blocks as one send groups for a home class, but at most a bin of mid blocks; for
   other classes a batch. */
size_t longest(unsigned size_class) {
    if (!hz_class_is_home(size_class))
        return hz_batch_count(size_class);
    return hz_class_is_mid(size_class) ? std::min(unit::home_count, hz_bin_capacity(size_class)) : unit::home_count;
}

/* The most blocks of a class that may wait in the inbox: its bytes, or one list if that is more. */
size_t bound(unsigned size_class) {
    size_t bytes = HZ_INBOX_MAX_BYTES;
    return std::min<size_t>(std::max(bytes / hz_class_bytes(size_class), longest(size_class)), HZ_LIST_COUNT_MAX);
}

TEST_F(Inbox, TakesEverythingAsOneListNewestFirst) {
    std::vector<Node> nodes(7);
    struct hz_counters before = counters();
    EXPECT_EQ(hz_mail_take(self_, &mail_), 0U);
    EXPECT_EQ(counters().inbox_take, before.inbox_take) << "taking from an empty inbox does not count";
    EXPECT_TRUE(mail_send(1, list_of(nodes, 0, 3)));
    EXPECT_TRUE(mail_send(1, list_of(nodes, 3, 4)));
    EXPECT_EQ(hz_mail_count(&mail_), 7U);
    EXPECT_EQ(counters().inbox_send - before.inbox_send, 2U);
    EXPECT_EQ(take(), (Blocks{&nodes[6], &nodes[5], &nodes[4], &nodes[3], &nodes[2], &nodes[1], &nodes[0]}));
    EXPECT_EQ(counters().inbox_take - before.inbox_take, 1U);
    EXPECT_EQ(hz_mail_count(&mail_), 0U);
    EXPECT_TRUE(take().empty());
}

TEST_F(Inbox, NeverExceedsItsBound) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        size_t most = bound(size_class);
        std::vector<Node> nodes(most + 3);
        uint64_t sent = counters().inbox_send;
        EXPECT_TRUE(mail_send(size_class, list_of(nodes, 0, most - 2)));
        EXPECT_FALSE(mail_send(size_class, list_of(nodes, most, 3))) << "one block too many, so none is accepted";
        EXPECT_EQ(hz_mail_count(&mail_), most - 2);
        EXPECT_TRUE(mail_send(size_class, list_of(nodes, most - 2, 2))) << "these blocks just fit";
        struct hz_list refused = list_of(nodes, most, 3);
        EXPECT_FALSE(mail_send(size_class, refused));
        EXPECT_EQ(counters().inbox_send - sent, 2U) << "refused lists do not count";
        EXPECT_EQ(unit::blocks_of(refused), (Blocks{&nodes[most + 2], &nodes[most + 1], &nodes[most]}))
            << "the sender still has all of them";
        Blocks taken = take();
        EXPECT_EQ(taken.size(), most);
        std::sort(taken.begin(), taken.end());
        EXPECT_EQ(std::unique(taken.begin(), taken.end()), taken.end());
        EXPECT_EQ(std::count(taken.begin(), taken.end(), &nodes[most]), 0);
        EXPECT_TRUE(mail_send(size_class, refused)) << "there is room again";
        EXPECT_EQ(take().size(), 3U);
    }
}

TEST_F(Inbox, OneListAlwaysFits) {
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        std::vector<Node> nodes(longest(size_class));
        EXPECT_TRUE(mail_send(size_class, list_of(nodes, 0, nodes.size()))) << "class " << size_class;
        EXPECT_EQ(take().size(), nodes.size());
    }
}

TEST_F(Inbox, SenderPutsBlocksThatFindNoRoom) {
    unsigned size_class = unit::largest_short;
    size_t most = bound(size_class);
    Blocks blocks = unit::take(shard_, size_class, static_cast<uint32_t>(most + 20));
    uint64_t direct = self_->counters.direct_home;
    for (void *block : blocks)
        send({block});
    EXPECT_EQ(hz_sent_count(shard_, size_class), most);
    EXPECT_EQ(self_->counters.direct_home - direct, 20U);
    Blocks back = unit::refill(shard_, size_class, static_cast<uint32_t>(most));
    EXPECT_EQ(back, Blocks(blocks.rend() - static_cast<ptrdiff_t>(most), blocks.rend()))
        << "the newest block comes first";
    unit::put(shard_, back);
}

TEST_F(Inbox, RefillConsumesItOnce) {
    Blocks blocks = unit::take(shard_, 7, 10);
    struct hz_counters before = counters();
    send(blocks);
    EXPECT_EQ(counters().inbox_send - before.inbox_send, 1U);
    EXPECT_EQ(hz_mail_count(&hz_box_of(shard_, 7)->mail), 10U);
    EXPECT_EQ(hz_sent_count(shard_, 7), 10U);
    Blocks first = unit::refill(shard_, 7, 4);
    EXPECT_EQ(counters().inbox_take - before.inbox_take, 1U);
    EXPECT_GE(self_->counters.inbox_stash_max, 6U);
    Blocks second = unit::refill(shard_, 7, 6);
    EXPECT_EQ(counters().inbox_take - before.inbox_take, 1U) << "the blocks came from the carry";
    unit::put(shard_, first);
    unit::put(shard_, second);
}

TEST_F(Inbox, ThreadsLoseNothing) {
    unsigned size_class = unit::largest_short; /* a small bound, so that senders are refused now and then */
    unit::expect_nothing_is_lost(
        bound(size_class),
        [&](const struct hz_list &list) { return hz_mail_send(unit::self(), &mail_, size_class, &list); },
        [&] { return unit::blocks_of(hz_mail_take(unit::self(), &mail_)); });
}

TEST_F(Inbox, WorksInTheChildOfAFork) {
    Blocks blocks = unit::take(shard_, 7, 10);
    send(blocks);
    children::expect_good_end(children::start([&] {
        require(hz_mail_count(&hz_box_of(shard_, 7)->mail) == 10, "the child's inbox has the blocks");
        unit::drain(shard_, 7);
        require(unit::waiting(shard_, 7) == 0, "the child can drain the inbox");
        require(unit::retire_all(shard_) == 1, "all blocks are in their page");
        return 0;
    }));
    EXPECT_EQ(hz_mail_count(&hz_box_of(shard_, 7)->mail), 10U);
    unit::drain(shard_, 7);
}

} // namespace
