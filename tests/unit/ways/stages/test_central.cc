/* Central, the list behind stash and transfer, with and without a lock. */
#include "unit/heap/fixture.h"
#include "unit/ways/lists/lists.h"
#include "unit/ways/lists/nodes.h"
#include "unit/ways/stages/library.h"

namespace {

using unit::Blocks;
using unit::list_of;
using unit::Node;

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
    struct hz_list first = list_of(nodes, 0, 3);
    struct hz_list second = list_of(nodes, 3, 4);
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
        for (size_t i = 0; i < nodes.size(); i++, sent++) {
            struct hz_list one = list_of(nodes, i, 1);
            if (!GetParam().send(&box, &one, cap))
                break;
        }
        EXPECT_EQ(sent, cap);
        EXPECT_EQ(hz_central_count(&box), cap);
        struct hz_list two = list_of(nodes, cap, 2);
        EXPECT_FALSE(GetParam().send(&box, &two, cap));
        EXPECT_EQ(unit::blocks_of(GetParam().take(&box)).size(), cap) << "the refused list changed nothing";
        EXPECT_EQ(GetParam().send(&box, &two, cap), cap >= 2);
    }
}

TEST_P(Central, ThreadsLoseNothing) {
    constexpr uint32_t cap = 40; /* small, so that senders are refused now and then */
    struct hz_mailbox box = {};
    unit::expect_nothing_is_lost(
        cap, [&](const struct hz_list &list) { return GetParam().send(&box, &list, cap); },
        [&] { return unit::blocks_of(GetParam().take(&box)); });
}

INSTANTIATE_TEST_SUITE_P(All, Central, testing::ValuesIn(implementations),
                         [](const auto &param) { return param.param.name; });

} // namespace
