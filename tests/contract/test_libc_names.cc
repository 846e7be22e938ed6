/*
 * glibc's second names: glibc also exports part of the malloc family as __libc_malloc and so on (malloc/Versions in its
 * sources), and programs that wrap malloc call these names. A block of one name may reach the free of another, so the
 * library must replace all names, or none would be safe.
 */
#include "api.h"
#include "support.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <string>

/* No header declares these names. */
extern "C" {
void *__libc_malloc(size_t size);
void __libc_free(void *block);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *__libc_valloc(size_t size);
void *__libc_pvalloc(size_t size);
int __libc_mallopt(int parameter, int value);
struct mallinfo __libc_mallinfo(void);
}

namespace {

using namespace support;

struct Function {
    const char *name;
    void *(*call)(size_t size);
};

class LibcNames : public testing::TestWithParam<Function> {
  protected:
    void SetUp() override {
        T_ONLY_SYSTEM_NAMES();
    }
};

void expect_block(void *block, size_t size) {
    ASSERT_NE(block, nullptr) << size;
    ASSERT_GE(t_usable_size(block), size);
    fill(block, size, size);
    EXPECT_TRUE(holds(block, size, size));
}

TEST_P(LibcNames, TheirBlocksGoToEveryFree) {
    for (size_t size : sample_sizes()) {
        void *block = t_opaque(GetParam().call(size));
        ASSERT_NO_FATAL_FAILURE(expect_block(block, size));
        t_free(block);
        block = t_opaque(GetParam().call(size));
        ASSERT_NO_FATAL_FAILURE(expect_block(block, size));
        __libc_free(block);
    }
}

TEST_P(LibcNames, TheirBlocksGoToEveryRealloc) {
    for (size_t size : sample_sizes()) {
        void *block = t_opaque(GetParam().call(size));
        ASSERT_NO_FATAL_FAILURE(expect_block(block, size));
        block = t_realloc(block, 2 * size);
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(holds(block, size, size));
        block = t_opaque(__libc_realloc(block, size + 1));
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(holds(block, size, size));
        t_free(block);
    }
}

/* Blocks freed by one name are reused by the other, which only one heap can do. */
TEST_P(LibcNames, ShareOneHeap) {
    T_ONLY_OURS();
    void *block = GetParam().call(5000);
    size_t with = live_bytes();
    size_t taken = taken_by(block);
    t_free(block);
    EXPECT_EQ(live_bytes() + taken, with);
}

TEST_P(LibcNames, ImpossibleSizesAreENOMEM) {
    for (size_t size : {SIZE_MAX, static_cast<size_t>(PTRDIFF_MAX) + 1, static_cast<size_t>(PTRDIFF_MAX)}) {
        errno = 0;
        EXPECT_EQ(t_opaque(GetParam().call(size)), nullptr) << size;
        EXPECT_EQ(errno, ENOMEM) << size;
    }
}

INSTANTIATE_TEST_SUITE_P(Functions, LibcNames,
                         testing::Values(Function{"malloc", __libc_malloc},
                                         Function{"calloc", [](size_t size) { return __libc_calloc(1, size); }},
                                         Function{"realloc", [](size_t size) { return __libc_realloc(nullptr, size); }},
                                         Function{"memalign", [](size_t size) { return __libc_memalign(64, size); }},
                                         Function{"valloc", __libc_valloc}, Function{"pvalloc", __libc_pvalloc}),
                         [](const testing::TestParamInfo<Function> &each) { return std::string(each.param.name); });

TEST(LibcName, FreeTakesNullAndKeepsErrno) {
    T_ONLY_SYSTEM_NAMES();
    errno = EILSEQ;
    __libc_free(nullptr);
    __libc_free(t_malloc(100));
    EXPECT_EQ(errno, EILSEQ);
}

TEST(LibcName, MallinfoAndMalloptAreOurs) {
    T_ONLY_SYSTEM_NAMES();
    EXPECT_EQ(__libc_mallopt(M_MXFAST, 161), 0);
    EXPECT_EQ(__libc_mallopt(M_MXFAST, 128), 1);
    struct mallinfo before = __libc_mallinfo();
    void *block = t_malloc(100 * KiB);
    EXPECT_GE(__libc_mallinfo().uordblks, before.uordblks + 100 * 1024);
    t_free(block);
}

} // namespace
