/* Addresses that have no page tag and do not fit into a list word: os_linux.c gives them back. This program's own
   syscall, mmap and munmap stand in for a kernel that hands them out. Only builds with assertions call them
   (base/os/syscall.h). */
extern "C" {
#include "base/os/os.h"
}

#include <cerrno>
#include <cstdarg>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr size_t bytes = 1 << 20;
constexpr uintptr_t limit = uintptr_t{1} << HZ_ADDRESS_BITS;

uintptr_t next_address; /* what the next mmap of `bytes` returns, if not 0 */
uintptr_t unmapped;
int unmapped_count;

void *reserve_at(uintptr_t address) {
    next_address = address;
    unmapped = 0;
    unmapped_count = 0;
    void *space = hz_os_reserve(bytes, hz_os_page_bytes());
    next_address = 0;
    return space;
}

void expect_given_back(uintptr_t address) {
    errno = EILSEQ;
    EXPECT_EQ(reserve_at(address), nullptr);
    EXPECT_EQ(errno, EILSEQ);
    EXPECT_EQ(unmapped_count, 1);
    EXPECT_EQ(unmapped, address);
}

} // namespace

static long next_syscall(long number, long a, long b, long c, long d, long e, long f) {
    using function = long(long, ...);
    static function *next = reinterpret_cast<function *>(dlsym(RTLD_NEXT, "syscall"));
    return next(number, a, b, c, d, e, f);
}

extern "C" void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) noexcept {
    if (next_address != 0 && length == bytes)
        return reinterpret_cast<void *>(next_address);
    return reinterpret_cast<void *>(next_syscall(SYS_mmap, reinterpret_cast<long>(address), static_cast<long>(length),
                                                 protection, flags, fd, offset));
}

extern "C" int munmap(void *address, size_t length) noexcept {
    if (next_address == 0)
        return static_cast<int>(
            next_syscall(SYS_munmap, reinterpret_cast<long>(address), static_cast<long>(length), 0, 0, 0, 0));
    unmapped = reinterpret_cast<uintptr_t>(address);
    unmapped_count += length == bytes;
    return 0;
}

extern "C" long syscall(long number, ...) noexcept {
    va_list more;
    va_start(more, number);
    long values[6];
    for (long &value : values)
        value = va_arg(more, long);
    va_end(more);
    if (number == SYS_mmap)
        return reinterpret_cast<long>(mmap(reinterpret_cast<void *>(values[0]), static_cast<size_t>(values[1]),
                                           static_cast<int>(values[2]), static_cast<int>(values[3]),
                                           static_cast<int>(values[4]), values[5]));
    if (number == SYS_munmap)
        return munmap(reinterpret_cast<void *>(values[0]), static_cast<size_t>(values[1]));
    return next_syscall(number, values[0], values[1], values[2], values[3], values[4], values[5]);
}

namespace {

class OsHighKernel : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!HZ_CONFIG_CHECKS)
            GTEST_SKIP() << "nobody can stand in for the kernel in this build";
    }
};

TEST_F(OsHighKernel, MemoryBeyondTheLimitIsGivenBack) {
    for (uintptr_t address : {limit, limit * 2, limit * 4, uintptr_t{1} << 55})
        expect_given_back(address);
}

TEST_F(OsHighKernel, MemoryThatOnlyEndsBeyondTheLimitIsGivenBack) {
    expect_given_back(limit - bytes / 2);
}

TEST_F(OsHighKernel, MemoryUpToTheLimitIsKept) {
    EXPECT_EQ(reserve_at(limit - bytes), reinterpret_cast<void *>(limit - bytes));
    EXPECT_EQ(unmapped_count, 0);
}

TEST(OsHigh, TheAddressSpaceEndsSomewhere) {
    errno = EILSEQ;
    int here = 0;
    EXPECT_TRUE(hz_os_has_address(reinterpret_cast<uintptr_t>(&here) & ~(hz_os_page_bytes() - 1)))
        << "something is mapped there";
    EXPECT_TRUE(hz_os_has_address(uintptr_t{1} << 32));
    EXPECT_FALSE(hz_os_has_address(uintptr_t{1} << 62));
    EXPECT_EQ(errno, EILSEQ);
}

} // namespace
