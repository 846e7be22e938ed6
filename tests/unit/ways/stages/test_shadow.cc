/* The shadow of central finds a block that comes twice and a link that changes there, and names the block. */
#include "unit/heap/fixture.h"
#include "unit/ways/lists/lists.h"
#include "unit/ways/stages/library.h"

namespace {

using unit::Blocks;

std::string line(const char *text, const void *block) {
    char whole[160];
    snprintf(whole, sizeof(whole), "^hakozuna: %s 0x%zx \\([^)]*found later[^)]*\\)\n$", text,
             reinterpret_cast<size_t>(block));
    return whole;
}

class Shadow : public unit::OwnShard {
  protected:
    void SetUp() override {
        OwnShard::SetUp();
        blocks_ = unit::take(shard_, 40, 4);
        list_ = unit::list_of(blocks_); /* 3 -> 2 -> 1 -> 0 */
        hz_block_link(blocks_[0], nullptr);
        word_ = hz_list_word_make(list_.head, list_.count);
        hz_shadow_prepare(&list_);
    }
    void TearDown() override {
        unit::put(shard_, blocks_);
        OwnShard::TearDown();
    }
    Blocks blocks_;
    struct hz_list list_ = {};
    hz_list_word word_ = 0;
};

TEST_F(Shadow, SoundListsCanComeAndGoRepeatedly) {
    for (int turn = 0; turn < 3; turn++) {
        hz_shadow_add(&list_);
        hz_shadow_remove(word_);
    }
    hz_shadow_remove(0);
    uint64_t outside[2] = {0, 0};
    struct hz_list foreign = {};
    hz_list_push(&foreign, outside);
    hz_shadow_prepare(&foreign);
    hz_shadow_add(&foreign);
    hz_shadow_add(&foreign); /* not watched, since it is outside the arena */
    hz_shadow_remove(hz_list_word_make(outside, 1));
}

TEST_F(Shadow, ABlockThatComesTwiceIsNamed) {
    hz_shadow_add(&list_);
    struct hz_list again = {};
    hz_list_push(&again, blocks_[1]);
    hz_block_link(blocks_[1], blocks_[0]);
    EXPECT_DEATH(hz_shadow_add(&again), line(HZ_TEXT_TWICE, blocks_[1]));
    hz_shadow_remove(word_);
}

TEST_F(Shadow, ARewrittenLinkIsNamed) {
    hz_shadow_add(&list_);
    hz_block_link(blocks_[2], blocks_[0]);
    EXPECT_DEATH(hz_shadow_remove(word_), line(HZ_TEXT_REWRITTEN, blocks_[2]));
    hz_block_link(blocks_[2], blocks_[1]);
    hz_block_link(blocks_[0], blocks_[3]); /* the last block, which had no link */
    EXPECT_DEATH(hz_shadow_remove(word_), line(HZ_TEXT_REWRITTEN, blocks_[0]));
    hz_block_link(blocks_[0], nullptr);
    hz_shadow_remove(word_);
}

TEST(ShadowTexts, AreStable) {
    EXPECT_STREQ(HZ_TEXT_TWICE, "block is on central already:");
    EXPECT_STREQ(HZ_TEXT_REWRITTEN, "link was rewritten on central in block:");
}

/* Where central has a mutex, it keeps the shadow by itself in the check build and with HZ_CENTRAL_SHADOW=1. */
TEST_F(Shadow, CentralFindsBoth) {
    if (!HZ_CENTRAL_SHADOWED)
        GTEST_SKIP() << "central is lock-free here, or nothing is checked";
    struct hz_mailbox mail = {};
    ASSERT_TRUE(hz_central_mutex_send(&mail, &list_, 100));
    struct hz_list again = unit::list_of(blocks_, 1, 1);
    hz_block_link(blocks_[1], blocks_[0]);
    EXPECT_DEATH(hz_central_mutex_send(&mail, &again, 100), line(HZ_TEXT_TWICE, blocks_[1]));
    hz_block_link(blocks_[3], blocks_[1]);
    EXPECT_DEATH(hz_central_mutex_take(&mail), line(HZ_TEXT_REWRITTEN, blocks_[3]));
    hz_block_link(blocks_[3], blocks_[2]);
    EXPECT_EQ(hz_central_mutex_take(&mail), word_);
}

} // namespace
