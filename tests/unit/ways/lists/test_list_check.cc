/* The check of lists: a sound list passes. Any damage ends the program and names the block with the wrong link. */
#include "unit/ways/lists/lists.h"

#include "contract/support.h"

namespace {

using unit::Blocks;

class ListCheck : public unit::OwnShard {
  protected:
    void SetUp() override {
        OwnShard::SetUp();
        blocks_ = unit::take(shard_, size_class, 5);
        other_ = unit::take(shard_, size_class + 1, 1);
        list_ = unit::list_of(blocks_); /* the last block comes first */
    }
    void TearDown() override {
        unit::put(shard_, blocks_);
        unit::put(shard_, other_);
        OwnShard::TearDown();
    }
    void check(uint32_t count = 5) {
        hz_list_check(size_class, list_.head, count);
    }
    static std::string line(const void *block) {
        char text[128];
        snprintf(text, sizeof(text),
                 "^hakozuna: corrupt list (of free blocks|in transfer) at: 0x%zx \\([^)]*found later[^)]*\\)\n$",
                 reinterpret_cast<size_t>(block));
        return text;
    }
    static constexpr unsigned size_class = 40;
    Blocks blocks_;
    Blocks other_;
    struct hz_list list_ = {};
};

TEST_F(ListCheck, BlocksBehindTheirPlacesPass) {
    if (HZ_BLOCKS_SEALED || !HZ_SPREADS)
        GTEST_SKIP() << "blocks begin at their places";
    for (size_t size : {size_t{9300}, size_t{30100}, size_t{66000}}) {
        unsigned spread_class = hz_class_of(size);
        Blocks places = unit::take(shard_, spread_class, 3);
        Blocks blocks;
        for (void *place : places)
            blocks.push_back(static_cast<char *>(place) +
                             hz_spread_within(hz_spread_key(place), hz_class_bytes(spread_class) - size));
        struct hz_list list = unit::list_of(blocks);
        hz_list_check(spread_class, list.head, 3);
        unit::put(shard_, blocks);
    }
}

TEST_F(ListCheck, SoundListsPass) {
    hz_block_link(blocks_[0], &list_); /* beyond the end, where the check does not look */
    for (uint32_t count = 0; count <= 5; count++)
        check(count);
    hz_list_check(size_class, nullptr, 0);
}

TEST_F(ListCheck, EachDamageIsFoundAndNamed) {
    const std::vector<void *> bad = {nullptr,
                                     &list_,
                                     reinterpret_cast<void *>(uintptr_t{16}),
                                     other_[0],
                                     static_cast<char *>(blocks_[1]) + 16,
                                     static_cast<char *>(blocks_[1]) + 1};
    for (void *link : bad) {
        hz_block_link(blocks_[2], link);
        EXPECT_DEATH(check(), line(blocks_[2])) << link;
        check(3); /* the blocks before it are sound */
    }
    hz_block_link(blocks_[2], blocks_[1]);
    for (void *head : bad)
        EXPECT_DEATH(hz_list_check(size_class, head, 1), line(head)) << head;
}

/* Something writes to a free block that was sent to its shard. Every build notices a link that points outside the
 * class's pages. */
TEST_F(ListCheck, LinksAreCheckedWhenListsAreTaken) {
    unit::send(shard_, blocks_);
    void *link = hz_block_next(blocks_[3]); /* neither the first nor the last, however lists are sent */
    hz_block_link(blocks_[3], reinterpret_cast<void *>(uintptr_t{0x41414141}));
    auto want = HZ_CONFIG_CHECKS ? 1 : static_cast<uint32_t>(blocks_.size()); /* where a list is checked as a whole */
    EXPECT_DEATH(unit::refill(shard_, size_class, want), line(blocks_[3]));
    EXPECT_DEATH(unit::drain(shard_, size_class), line(blocks_[3]));
    hz_block_link(blocks_[3], link);
    unit::drain(shard_, size_class);
    blocks_.clear();
}

} // namespace
