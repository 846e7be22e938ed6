/* Lists through free blocks, and the word that packs head and count. */
#include "unit/ways/lists/lists.h"

#include <gtest/gtest.h>

namespace {

void *address(uintptr_t value) {
    return reinterpret_cast<void *>(value);
}

TEST(ListWord, KeepsHeadAndCount) {
    const uintptr_t highest = (uintptr_t{1} << HZ_LIST_COUNT_SHIFT) - 16;
    for (uintptr_t head : {uintptr_t{0}, uintptr_t{16}, uintptr_t{0x7ffffffffff0}, highest})
        for (uint32_t count : {0U, 1U, 2U, 0x8000U, static_cast<uint32_t>(HZ_LIST_COUNT_MAX)}) {
            hz_list_word word = hz_list_word_make(address(head), count);
            EXPECT_EQ(hz_list_word_head(word), address(head));
            EXPECT_EQ(hz_list_word_count(word), count);
        }
}

TEST(ListWord, ZeroIsTheEmptyList) {
    EXPECT_EQ(hz_list_word_make(nullptr, 0), 0U);
    EXPECT_NE(hz_list_word_make(nullptr, 1), 0U);
    EXPECT_NE(hz_list_word_make(address(16), 0), 0U);
}

TEST(List, PushPutsInFront) {
    void *blocks[4][2];
    struct hz_list list = {};
    for (uint32_t i = 0; i < 4; i++) {
        hz_list_push(&list, blocks[i]);
        EXPECT_EQ(list.head, blocks[i]);
        EXPECT_EQ(list.tail, blocks[0]) << "the block pushed first stays the last one";
        EXPECT_EQ(list.count, i + 1);
    }
    const void *block = list.head;
    for (int i = 3; i >= 0; i--) {
        ASSERT_EQ(block, blocks[i]);
        block = hz_block_next(block);
    }
}

TEST(List, LinkIsTheFirstWordOnly) {
    void *block[2] = {nullptr, address(0x1234)};
    void *other;
    hz_block_link(block, &other);
    EXPECT_EQ(hz_block_next(block), &other);
    EXPECT_EQ(block[0], &other);
    EXPECT_EQ(block[1], address(0x1234));
}

TEST(ListDeathTest, WordRefusesWhatDoesNotFit) {
    if (!HZ_CONFIG_CHECKS)
        GTEST_SKIP() << "internal assertions are in the check build";
    EXPECT_DEATH(hz_list_word_make(address(16), HZ_LIST_COUNT_MAX + 1), "internal error: .*count");
    EXPECT_DEATH(hz_list_word_make(address(uintptr_t{1} << HZ_LIST_COUNT_SHIFT), 1), "internal error: .*head");
}

} // namespace
