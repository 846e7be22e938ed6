/* Central, the list behind stash and transfer, with and without a lock. */
#include "unit/heap/fixture.h"
#include "unit/ways/stages/library.h"

namespace {

using unit::Blocks;

struct Node {
    void *link;
    uint64_t payload;
    uint32_t taken;
};

struct Implementation {
    const char *name;
    bool (*send)(struct hz_mailbox *mail, const struct hz_list *list, uint32_t cap);
    hz_list_word (*take)(struct hz_mailbox *mail);
};

/* Both are tested, whichever the lane uses. */
const Implementation implementations[] = {
    {"lockfree", hz_central_lockfree_send, hz_central_lockfree_take},
    {"mutex", hz_central_mutex_send, hz_central_mutex_take},
};

class Central : public testing::TestWithParam<Implementation> {};

TEST_P(Central, TakesEverythingAsOneList) {
    struct hz_mailbox box = {};
    std::vector<Node> nodes(7);
    struct hz_list first = {};
    struct hz_list second = {};
    for (size_t i = 0; i < 7; i++)
        hz_list_push(i < 3 ? &first : &second, &nodes[i]);
    EXPECT_EQ(GetParam().take(&box), 0U);
    EXPECT_TRUE(GetParam().send(&box, &first, HZ_LIST_COUNT_MAX));
    EXPECT_TRUE(GetParam().send(&box, &second, HZ_LIST_COUNT_MAX));
    EXPECT_EQ(hz_central_count(&box), 7U);
    Blocks blocks = unit::blocks_of(GetParam().take(&box));
    EXPECT_EQ(blocks, (Blocks{&nodes[6], &nodes[5], &nodes[4], &nodes[3], &nodes[2], &nodes[1], &nodes[0]}));
    EXPECT_EQ(GetParam().take(&box), 0U);
    EXPECT_EQ(hz_central_count(&box), 0U);
}

TEST_P(Central, NeverExceedsItsCap) {
    for (uint32_t cap : {1U, 2U, 64U, static_cast<uint32_t>(HZ_LIST_COUNT_MAX)}) {
        struct hz_mailbox box = {};
        std::vector<Node> nodes(cap + size_t{2});
        uint32_t sent = 0;
        for (Node &node : nodes) {
            struct hz_list one = {};
            hz_list_push(&one, &node);
            if (!GetParam().send(&box, &one, cap))
                break;
            sent++;
        }
        EXPECT_EQ(sent, cap);
        EXPECT_EQ(hz_central_count(&box), cap);
        struct hz_list two = {};
        for (size_t i = cap; i < cap + size_t{2}; i++)
            hz_list_push(&two, &nodes[i]);
        EXPECT_FALSE(GetParam().send(&box, &two, cap));
        EXPECT_EQ(unit::blocks_of(GetParam().take(&box)).size(), cap) << "the refused list changed nothing";
        EXPECT_EQ(GetParam().send(&box, &two, cap), cap >= 2);
    }
}

TEST_P(Central, ThreadsLoseNothing) {
    constexpr unsigned senders = 3;
    constexpr uint32_t cap = 40; /* small, so that senders are refused now and then */
    struct hz_mailbox box = {};
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
                while (!GetParam().send(&box, &one, cap))
                    std::this_thread::yield();
            }
            sending--;
            return;
        }
        for (bool last = false; !last;) {
            last = sending.load() == 0;
            Blocks blocks = unit::blocks_of(GetParam().take(&box));
            wrong += blocks.size() > cap;
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

INSTANTIATE_TEST_SUITE_P(All, Central, testing::ValuesIn(implementations),
                         [](const auto &param) { return param.param.name; });

} // namespace
