/* Central: the list behind stash and transfer, with a cap of its own. */
#include "unit/core/fixture.h"
#include "unit/hz3/shim.h"

namespace {

using unit::Blocks;

struct Node {
    void *link;
    uint64_t payload;
    uint32_t taken;
};

struct Mailbox {
    struct hz_mailbox *mail = unit_mailbox_new();
    ~Mailbox() {
        unit_delete(mail);
    }
};

/* The most blocks of a class that may wait there; the same for every class test. */
size_t bound(unsigned size_class) {
    return std::max<size_t>(HZ_CENTRAL_BYTES / hz_class_bytes(size_class), HZ_BATCH_COUNT);
}

TEST(Central, TakesEverythingAtOnce) {
    Mailbox box;
    std::vector<Node> nodes(7);
    struct hz_list first = {};
    struct hz_list second = {};
    for (size_t i = 0; i < 7; i++)
        hz_list_push(i < 3 ? &first : &second, &nodes[i]);
    EXPECT_EQ(hz3_central_take(box.mail), 0U);
    EXPECT_TRUE(hz3_central_send(box.mail, 1, &first));
    EXPECT_TRUE(hz3_central_send(box.mail, 1, &second));
    EXPECT_EQ(hz3_central_count(box.mail), 7U);
    Blocks blocks = unit::blocks_of(hz3_central_take(box.mail));
    EXPECT_EQ(blocks, (Blocks{&nodes[6], &nodes[5], &nodes[4], &nodes[3], &nodes[2], &nodes[1], &nodes[0]}));
    EXPECT_EQ(hz3_central_take(box.mail), 0U);
    EXPECT_EQ(hz3_central_count(box.mail), 0U);
}

TEST(Central, WhatWaitsIsBounded) {
    for (unsigned size_class : unit::some_classes()) {
        Mailbox box;
        std::vector<Node> nodes(bound(size_class) + 2);
        size_t sent = 0;
        for (; sent < nodes.size(); sent++) {
            struct hz_list one = {};
            hz_list_push(&one, &nodes[sent]);
            if (!hz3_central_send(box.mail, size_class, &one))
                break;
        }
        EXPECT_LE(sent, bound(size_class)) << "class " << size_class;
        EXPECT_LE(sent, static_cast<size_t>(HZ_LIST_COUNT_MAX));
        EXPECT_GE(sent, hz_batch_count(size_class)) << "at least one batch fits";
        EXPECT_EQ(hz3_central_count(box.mail), sent);
        EXPECT_EQ(unit::blocks_of(hz3_central_take(box.mail)).size(), sent);
    }
}

TEST(Central, ThreadsLoseNothing) {
    constexpr unsigned senders = 3;
    unsigned size_class = unit::class_count - 1; /* the smallest cap: senders are refused now and then */
    Mailbox box;
    const size_t each = unit::rounds(20000);
    std::vector<std::vector<Node>> nodes(senders, std::vector<Node>(each));
    std::atomic<unsigned> sending{senders};
    size_t wrong = 0;
    unit::together(senders + 1, [&](unsigned index) {
        if (index < senders) {
            for (size_t i = 0; i < each; i++) {
                nodes[index][i].payload = i + 1;
                struct hz_list one = {};
                hz_list_push(&one, &nodes[index][i]);
                while (!hz3_central_send(box.mail, size_class, &one))
                    std::this_thread::yield();
            }
            sending--;
            return;
        }
        for (bool last = false; !last;) {
            last = sending.load() == 0;
            Blocks blocks = unit::blocks_of(hz3_central_take(box.mail));
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

} // namespace
