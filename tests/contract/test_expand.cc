/* hz_expand: a block grows where it is, or not at all. */
#include "api.h"
#include "support.h"

#include <cerrno>
#include <gtest/gtest.h>

namespace {

using namespace support;

class Expand : public testing::Test {
  protected:
    void SetUp() override {
        if (t_table.expand_fn == nullptr)
            GTEST_SKIP() << "hz_expand does not exist here";
    }
};

TEST_F(Expand, UpToTheUsableSizeTheBlockIsLargeEnough) {
    for (size_t size : sample_sizes()) {
        void *block = t_malloc(size);
        ASSERT_NE(block, nullptr);
        size_t usable = t_usable_size(block);
        for (size_t wanted : {size_t{0}, size_t{1}, size, usable})
            EXPECT_EQ(t_expand(block, wanted), block) << size << " to " << wanted;
        EXPECT_EQ(t_usable_size(block), usable) << "a block never becomes smaller";
        t_free(block);
    }
}

TEST_F(Expand, ASmallBlockHasTheSizeOfItsClass) {
    for (size_t size : {size_t{1}, size_t{100}, size_t{3000}, 64 * KiB}) {
        void *block = t_malloc(size);
        ASSERT_NE(block, nullptr);
        fill(block, size, size);
        errno = 0;
        EXPECT_EQ(t_expand(block, t_usable_size(block) + 1), nullptr);
        EXPECT_EQ(errno, ENOMEM);
        EXPECT_TRUE(holds(block, size, size));
        t_free(block);
    }
}

/* Whether there is room behind a block is the heap's affair; what the answer means is not. */
TEST_F(Expand, TheAnswerAndTheUsableSizeAgree) {
    size_t grown = 0;
    for (size_t size : {100 * KiB, MiB, 3 * MiB, 9 * MiB, 70 * MiB}) {
        for (size_t more : {size_t{1}, 64 * KiB, MiB, 5 * MiB}) {
            void *block = t_malloc(size);
            ASSERT_NE(block, nullptr);
            fill(block, size, size + more);
            size_t usable = t_usable_size(block);
            errno = 0;
            void *expanded = t_expand(block, usable + more);
            if (expanded != nullptr) {
                ASSERT_EQ(expanded, block);
                EXPECT_GE(t_usable_size(block), usable + more);
                memset(static_cast<char *>(block) + usable, 1, more);
                grown++;
            } else {
                EXPECT_EQ(errno, ENOMEM);
                EXPECT_EQ(t_usable_size(block), usable);
            }
            EXPECT_TRUE(holds(block, size, size + more));
            t_free(block);
        }
    }
    if (!t_config_has("fences=1")) {
        EXPECT_GT(grown, 0U);
    }
}

TEST_F(Expand, NoBlockAndNoSuchSize) {
    errno = 0;
    EXPECT_EQ(t_expand(nullptr, 10), nullptr);
    EXPECT_EQ(errno, EINVAL);
    for (size_t size : {size_t{100}, 100 * KiB, 5 * MiB}) {
        void *block = t_malloc(size);
        ASSERT_NE(block, nullptr);
        for (size_t wanted : {SIZE_MAX, size_t{PTRDIFF_MAX} + 1, size_t{PTRDIFF_MAX}}) {
            errno = 0;
            EXPECT_EQ(t_expand(block, wanted), nullptr);
            EXPECT_EQ(errno, ENOMEM) << size << " to " << wanted;
        }
        t_free(block);
    }
}

} // namespace
