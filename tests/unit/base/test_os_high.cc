/* Addresses that have no page tag and do not fit into a list word: os_linux.c gives them back. This program's own mmap
   and munmap stand in for a kernel that hands them out. */
extern "C" {
#include "base/os.h"
}

#include <cerrno>
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

extern "C" void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) noexcept {
    if (next_address != 0 && length == bytes)
        return reinterpret_cast<void *>(next_address);
    return reinterpret_cast<void *>(syscall(SYS_mmap, address, length, protection, flags, fd, offset));
}

extern "C" int munmap(void *address, size_t length) noexcept {
    if (next_address == 0)
        return static_cast<int>(syscall(SYS_munmap, address, length));
    unmapped = reinterpret_cast<uintptr_t>(address);
    unmapped_count += length == bytes;
    return 0;
}

namespace {

TEST(OsHigh, MemoryBeyondTheLimitIsGivenBack) {
    for (uintptr_t address : {limit, limit * 2, limit * 4, uintptr_t{1} << 55})
        expect_given_back(address);
}

TEST(OsHigh, MemoryThatOnlyEndsBeyondTheLimitIsGivenBack) {
    expect_given_back(limit - bytes / 2);
}

TEST(OsHigh, MemoryUpToTheLimitIsKept) {
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
