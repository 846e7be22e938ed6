/* Transfer slots, with and without a lock: each list is handed over whole, and once. */
#include "unit/heap/fixture.h"
#include "unit/ways/lists/lists.h"
#include "unit/ways/lists/nodes.h"
#include "unit/ways/stages/library.h"

#include <set>

namespace {

using unit::Blocks;
using unit::list_of;
using unit::Node;

struct Implementation {
    const char *name;
    bool (*send)(struct hz_mailbox *mail, const struct hz_list *list);
    hz_list_word (*take)(struct hz_mailbox *mail);
};

/* Both are tested, whichever the lane uses. */
const Implementation implementations[] = {
    {"lockfree", hz_transfer_lockfree_send, hz_transfer_lockfree_take},
    {"mutex", hz_transfer_mutex_send, hz_transfer_mutex_take},
};

constexpr unsigned slot_count = HZ_TRANSFER_SLOTS;

class Transfer : public testing::TestWithParam<Implementation> {};

TEST_P(Transfer, HoldsAsManyListsAsSlots) {
    struct hz_mailbox box = {};
    std::vector<Node> nodes(3 * (slot_count + 1));
    EXPECT_EQ(GetParam().take(&box), 0U);
    for (unsigned slot = 0; slot < slot_count; slot++) {
        struct hz_list list = list_of(nodes, 3 * slot, 3);
        EXPECT_TRUE(GetParam().send(&box, &list));
        EXPECT_EQ(hz_transfer_count(&box), 3 * (slot + 1));
    }
    struct hz_list extra = list_of(nodes, 3 * slot_count, 3);
    EXPECT_FALSE(GetParam().send(&box, &extra)) << "every slot is taken";
    EXPECT_EQ(hz_transfer_count(&box), 3 * slot_count);
    std::set<void *> seen;
    for (unsigned slot = 0; slot < slot_count; slot++) {
        hz_list_word word = GetParam().take(&box);
        ASSERT_EQ(hz_list_word_count(word), 3U);
        Blocks blocks = unit::blocks_of(word);
        EXPECT_EQ(hz_block_next(blocks.back()), nullptr);
        seen.insert(blocks.begin(), blocks.end());
    }
    EXPECT_EQ(seen.size(), 3 * slot_count);
    EXPECT_EQ(seen.count(&nodes[3 * slot_count]), 0U);
    EXPECT_EQ(GetParam().take(&box), 0U);
    EXPECT_EQ(hz_transfer_count(&box), 0U);
    EXPECT_TRUE(GetParam().send(&box, &extra)) << "an emptied slot can be used again";
}

TEST_P(Transfer, ThreadsHandOverEveryListOnce) {
    constexpr unsigned senders = 3;
    constexpr unsigned takers = 2;
    constexpr size_t list_blocks = 4;
    struct hz_mailbox box = {};
    const size_t lists = unit::rounds(8000);
    std::vector<std::vector<Node>> nodes;
    for (unsigned i = 0; i < senders; i++)
        nodes.emplace_back(lists * list_blocks);
    std::atomic<unsigned> sending{senders};
    std::atomic<size_t> wrong{0};
    unit::together(senders + takers, [&](unsigned index) {
        if (index < senders) {
            for (size_t i = 0; i < lists; i++) {
                struct hz_list list = {};
                for (size_t j = i * list_blocks; j < (i + 1) * list_blocks; j++) {
                    nodes[index][j].payload = j;
                    hz_list_push(&list, &nodes[index][j]);
                }
                while (!GetParam().send(&box, &list))
                    std::this_thread::yield();
            }
            sending--;
            return;
        }
        for (bool last = false; !last;) {
            last = sending.load() == 0;
            for (hz_list_word word; (word = GetParam().take(&box)) != 0;) {
                Blocks blocks = unit::blocks_of(word);
                wrong += blocks.size() != list_blocks;
                for (size_t i = 0; i < blocks.size(); i++) {
                    auto *node = static_cast<Node *>(blocks[i]);
                    wrong +=
                        node->payload % list_blocks != list_blocks - 1 - i; /* in the order in which they were linked */
                    node->taken++;
                }
            }
            std::this_thread::yield();
        }
    });
    EXPECT_EQ(wrong, 0U);
    for (const auto &each : nodes)
        for (const Node &node : each)
            ASSERT_EQ(node.taken, 1U) << "every block is taken once";
    EXPECT_EQ(hz_transfer_count(&box), 0U);
}

TEST(TransferCheck, ItsTextIsStable) {
    EXPECT_STREQ(HZ_TEXT_TRANSFER, "corrupt list in transfer at:");
}

TEST(TransferCheck, ListsOfAWrongLengthAreFound) {
    std::vector<Node> nodes(4);
    struct hz_list list = list_of(nodes, 0, 3); /* 2 -> 1 -> 0 */
    hz_block_link(list.tail, nullptr);
    hz_list_word word = hz_list_word_make(list.head, 3);
    auto line = [](const void *block) {
        char text[128];
        snprintf(text, sizeof(text), "^hakozuna: corrupt list in transfer at: 0x%zx \\([^)]*found later[^)]*\\)\n$",
                 reinterpret_cast<size_t>(block));
        return std::string(text);
    };
    hz_transfer_check(0);
    hz_transfer_check(word);
    hz_block_link(&nodes[1], nullptr);
    EXPECT_DEATH(hz_transfer_check(word), line(&nodes[1]));
    hz_block_link(&nodes[1], &nodes[0]);
    hz_block_link(&nodes[0], &nodes[3]);
    EXPECT_DEATH(hz_transfer_check(word), line(&nodes[0]));
}

INSTANTIATE_TEST_SUITE_P(All, Transfer, testing::ValuesIn(implementations),
                         [](const auto &param) { return param.param.name; });

} // namespace
