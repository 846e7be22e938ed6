/* The list with many senders and one taker: no block is lost or taken twice, and the cap is never exceeded. */
#include "unit/base/fixture.h"
#include "unit/ways/lists/nodes.h"

#include <atomic>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

namespace {

using unit::list_of;
using unit::rounds;

/* A block that records where it is. The link comes first, as in a free block. */
struct Node {
    void *link;
    uint64_t payload; /* written by the sender, read by the taker: ThreadSanitizer checks the edge */
    std::atomic<bool> sent;
    uint64_t sent_count;
    uint64_t taken_count;
};

TEST(Mpsc, TakeOfNothingIsZero) {
    struct hz_mpsc queue = {};
    EXPECT_EQ(hz_mpsc_take(&queue), 0U);
    EXPECT_EQ(hz_mpsc_count(&queue), 0U);
}

TEST(Mpsc, TakesEverythingNewestListFirst) {
    struct hz_mpsc queue = {};
    std::vector<Node> nodes(5);
    struct hz_list first = list_of(nodes, 0, 3);
    struct hz_list second = list_of(nodes, 3, 2);
    ASSERT_TRUE(hz_mpsc_send(&queue, &first, 100));
    EXPECT_EQ(hz_mpsc_count(&queue), 3U);
    ASSERT_TRUE(hz_mpsc_send(&queue, &second, 100));
    EXPECT_EQ(hz_mpsc_count(&queue), 5U);
    hz_list_word word = hz_mpsc_take(&queue);
    ASSERT_EQ(hz_list_word_count(word), 5U);
    const void *block = hz_list_word_head(word);
    for (size_t index : {4U, 3U, 2U, 1U, 0U}) {
        ASSERT_EQ(block, &nodes[index]);
        block = hz_block_next(block);
    }
    EXPECT_EQ(block, nullptr) << "the last link ends the list";
    EXPECT_EQ(hz_mpsc_count(&queue), 0U);
    EXPECT_EQ(hz_mpsc_take(&queue), 0U);
}

TEST(Mpsc, CapIsReachedAndNotExceeded) {
    struct hz_mpsc queue = {};
    std::vector<Node> nodes(8);
    struct hz_list three = list_of(nodes, 0, 3);
    struct hz_list two = list_of(nodes, 3, 2);
    struct hz_list one = list_of(nodes, 5, 1);
    EXPECT_FALSE(hz_mpsc_send(&queue, &three, 2));
    EXPECT_EQ(hz_mpsc_count(&queue), 0U);
    EXPECT_TRUE(hz_mpsc_send(&queue, &three, 4));
    EXPECT_FALSE(hz_mpsc_send(&queue, &two, 4));
    EXPECT_TRUE(hz_mpsc_send(&queue, &one, 4));
    hz_list_word word = hz_mpsc_take(&queue);
    EXPECT_EQ(hz_list_word_count(word), 4U);
    EXPECT_EQ(hz_list_word_head(word), &nodes[5]);
    EXPECT_EQ(hz_block_next(&nodes[5]), &nodes[2]) << "the refused list left no trace";
}

constexpr unsigned senders = 4;
constexpr size_t nodes_each = 64;
constexpr uint32_t cap = 100; /* below the number of nodes, so that sends are refused now and then */

/* Sends `lists` lists, each of 1..8 nodes that are not on their way already. */
void send_lists(struct hz_mpsc *queue, std::vector<Node> &nodes, unsigned lists, uint64_t seed) {
    support::Random random(seed);
    size_t at = 0;
    for (unsigned i = 0; i < lists; i++) {
        struct hz_list list = {};
        for (size_t wanted = random.between(1, 8); list.count < wanted; at = (at + 1) % nodes_each) {
            Node &node = nodes[at];
            if (node.sent.load(std::memory_order_acquire)) {
                std::this_thread::yield();
                continue;
            }
            node.sent.store(true, std::memory_order_relaxed);
            node.payload = seed + ++node.sent_count;
            hz_list_push(&list, &node);
        }
        while (!hz_mpsc_send(queue, &list, cap))
            std::this_thread::yield();
    }
}

/* Walks a taken list by its count. Returns the number of blocks, or -1 when something is wrong. */
long take_apart(hz_list_word word) {
    uint32_t count = hz_list_word_count(word);
    auto *node = static_cast<Node *>(hz_list_word_head(word));
    for (uint32_t i = 0; i < count; i++) {
        if (node == nullptr || !node->sent.load(std::memory_order_relaxed))
            return -1;
        auto *next = static_cast<Node *>(hz_block_next(node));
        if (i + 1 == count && next != nullptr)
            return -1;
        if (node->payload % 1000000 != ++node->taken_count)
            return -1;
        node->sent.store(false, std::memory_order_release); /* from here on the sender can send it again */
        node = next;
    }
    return count;
}

TEST(Mpsc, ManySendersOneTaker) {
    struct hz_mpsc queue = {};
    std::vector<std::unique_ptr<std::vector<Node>>> nodes;
    for (unsigned i = 0; i < senders; i++)
        nodes.push_back(std::make_unique<std::vector<Node>>(nodes_each));
    std::atomic<unsigned> sending{senders};
    uint32_t largest = 0;
    bool good = true;
    unit::together(senders + 1, [&](unsigned index) {
        if (index < senders) {
            send_lists(&queue, *nodes[index], rounds(10000), (index + 1) * uint64_t{1000000});
            sending--;
            return;
        }
        for (bool last = false; !last;) {
            last = sending.load() == 0; /* read first, so that the last take sees everything that was sent */
            hz_list_word word = hz_mpsc_take(&queue);
            largest = std::max(largest, hz_list_word_count(word));
            good = (word == 0 || take_apart(word) > 0) && good;
            if (word == 0)
                std::this_thread::yield();
        }
    });
    EXPECT_TRUE(good) << "a list did not end where its count says, or a block was lost or repeated";
    EXPECT_LE(largest, cap);
    EXPECT_GT(largest, 1U);
    for (const auto &each : nodes)
        for (const Node &node : *each) {
            EXPECT_EQ(node.sent_count, node.taken_count);
            EXPECT_FALSE(node.sent);
        }
}

} // namespace
