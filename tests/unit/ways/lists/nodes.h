/*
 * nodes.h - blocks without a heap, for the tests of lists: lists only link blocks.
 */
#ifndef HZ_TESTS_UNIT_NODES_H
#define HZ_TESTS_UNIT_NODES_H

#include "unit/together.h"
#include "unit/ways/lists/lists.h"

#include <atomic>
#include <gtest/gtest.h>
#include <vector>

namespace unit {

struct Node {
    void *link;
    uint64_t payload; /* written by the sender, read by the taker: ThreadSanitizer checks the edge */
    std::atomic<uint32_t> taken;
};

/* `Any`: a structure that begins with its link. The last node is the head. */
template <typename Any> struct hz_list list_of(std::vector<Any> &nodes, size_t from, size_t count) {
    struct hz_list list = {};
    for (size_t i = from; i < from + count; i++)
        hz_list_push(&list, &nodes[i]);
    return list;
}

/* Three threads send nodes one by one, again and again until send(list) is true, and one thread takes them: take()
   returns the blocks of a list. Every node arrives once, and never more than `most` at a time. */
template <typename Send, typename Take> void expect_nothing_is_lost(size_t most, Send send, Take take) {
    constexpr unsigned senders = 3;
    const size_t each = rounds(20000);
    std::vector<std::vector<Node>> nodes;
    for (unsigned i = 0; i < senders; i++)
        nodes.emplace_back(each);
    std::atomic<unsigned> sending{senders};
    size_t wrong = 0;
    together(senders + 1, [&](unsigned index) {
        if (index < senders) {
            for (size_t i = 0; i < each; i++) {
                nodes[index][i].payload = i + 1;
                struct hz_list one = list_of(nodes[index], i, 1);
                while (!send(one))
                    std::this_thread::yield();
            }
            sending--;
            return;
        }
        for (bool last = false; !last;) {
            last = sending.load() == 0; /* read first, so that the last take sees everything that was sent */
            std::vector<void *> blocks = take();
            wrong += blocks.size() > most;
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

} // namespace unit

#endif
