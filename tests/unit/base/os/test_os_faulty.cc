/* The OS layer that refuses calls on request: which calls it counts, which it refuses. */
#include "unit/base/faulty.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

/* Makes one call of each kind that can be refused. Returns a bit for each call that was refused. */
unsigned refused() {
    size_t page = hz_os_page_bytes();
    void *space = hz_os_linux_reserve(4 * page, page);
    auto *other = static_cast<char *>(hz_os_linux_map(2 * page, page, false));
    auto *target = static_cast<char *>(hz_os_linux_reserve(2 * page, page));
    unsigned bits = 0;
    void *reserved = hz_os_reserve(page, page);
    bits |= (reserved == nullptr ? 1U : 0U) << 0;
    void *mapped = hz_os_map(page, page, true);
    bits |= (mapped == nullptr ? 1U : 0U) << 1;
    bits |= (hz_os_commit(space, page) ? 0U : 1U) << 2;
    other[0] = 1;
    bits |= (hz_os_purge(other, page) ? 0U : 1U) << 3;
    EXPECT_EQ(other[0], (bits >> 3 & 1) != 0 ? 1 : 0) << "a refused call changes nothing";
    bits |= (hz_os_unmap(static_cast<char *>(space) + 2 * page, page) ? 0U : 1U) << 4;
    bits |= (hz_os_remap(other, 2 * page, 2 * page, target) == nullptr ? 1U : 0U) << 5;
    if (reserved != nullptr)
        hz_os_linux_unmap(reserved, page);
    if (mapped != nullptr)
        hz_os_linux_unmap(mapped, page);
    hz_os_linux_unmap(space, 4 * page);
    hz_os_linux_unmap((bits >> 5 & 1) != 0 ? other : target, 2 * page);
    if ((bits >> 5 & 1) != 0)
        hz_os_linux_unmap(target, 2 * page);
    return bits;
}

TEST(FaultySwitch, RefusesTheChosenCalls) {
    constexpr unsigned kinds = 6;
    for (unsigned after = 0; after < kinds; after++)
        for (unsigned count = 0; count <= kinds; count++) {
            hz_os_faulty_fail(after, count);
            unsigned expected = 0;
            for (unsigned call = after; call < kinds && call < after + count; call++)
                expected |= 1U << call;
            EXPECT_EQ(refused(), expected) << "after " << after << " count " << count;
            EXPECT_EQ(hz_os_faulty_calls(), kinds);
            EXPECT_EQ(hz_os_faulty_failures(), static_cast<unsigned>(__builtin_popcount(expected)));
        }
    hz_os_faulty_fail(2, UINT64_MAX);
    EXPECT_EQ(refused(), 0x3cU) << "all calls after the second";
    hz_os_faulty_fail(UINT64_MAX, 0);
    EXPECT_EQ(refused(), 0U);
    EXPECT_EQ(hz_os_faulty_failures(), 0U);
}

/* Address space of the process, as the kernel counts it. */
size_t mapped_now() {
    std::ifstream file("/proc/self/statm");
    size_t pages = 0;
    file >> pages;
    return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

/* Whether the kernel's figure is of this process alone, and no emulator's. */
bool statm_is_exact() {
    constexpr size_t bytes = size_t{64} << 20;
    size_t before = mapped_now();
    void *mapped = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool is_exact = mapped != MAP_FAILED && mapped_now() == before + bytes;
    (void)munmap(mapped, bytes);
    return is_exact && mapped_now() == before;
}

/* Does `step`, and compares what it has mapped with what the switch has counted. */
template <typename Step> void expect_counted(const char *what, Step step) {
    size_t before = mapped_now() - hz_os_faulty_mapped_bytes();
    step();
    EXPECT_EQ(mapped_now() - hz_os_faulty_mapped_bytes(), before) << what;
}

TEST(FaultySwitch, CountsAddressSpace) {
    if (hz_os_page_bytes() != 4096 || !statm_is_exact())
        GTEST_SKIP() << "this process's address space is also another's: of an emulator, or of simulated pages";
    constexpr size_t big = size_t{4} << 20;
    static char *space;
    static char *block;
    static char *target;
    (void)mapped_now(); /* the stream's buffers are there now */
    expect_counted("reserve", [] { space = static_cast<char *>(hz_os_reserve(4 * big, big)); });
    expect_counted("map", [] { block = static_cast<char *>(hz_os_map(big, 16 * big, false)); });
    ASSERT_NE(space, nullptr);
    ASSERT_NE(block, nullptr);
    expect_counted("commit", [] { EXPECT_TRUE(hz_os_commit(space, big)); });
    expect_counted("close", [] { EXPECT_TRUE(hz_os_close(space, big)); });
    expect_counted("unmap of a part", [] { EXPECT_TRUE(hz_os_unmap(space + big, big)); });
    expect_counted("fill", [] { EXPECT_TRUE(hz_os_fill(space + big, big)); });
    expect_counted("a target", [] { target = static_cast<char *>(hz_os_reserve(2 * big, big)); });
    expect_counted("move", [] { block = static_cast<char *>(hz_os_remap(block, big, 2 * big, target)); });
    ASSERT_EQ(block, target);
    expect_counted("shrink", [] { EXPECT_EQ(hz_os_remap(block, 2 * big, big, nullptr), block); });
    expect_counted("a target", [] { target = static_cast<char *>(hz_os_reserve(2 * big, big)); });
    hz_os_faulty_fail(0, 1);
    expect_counted("a refused move", [] { EXPECT_EQ(hz_os_remap(block, big, 2 * big, target), nullptr); });
    size_t kept = hz_os_faulty_kept_bytes();
    hz_os_faulty_fail(0, 1);
    expect_counted("a refused unmap", [] { EXPECT_FALSE(hz_os_unmap(block, big)); });
    EXPECT_EQ(hz_os_faulty_kept_bytes(), kept + big);
    unit::os_works_again();
    expect_counted("unmap", [] { EXPECT_TRUE(hz_os_unmap(space, 4 * big) && hz_os_unmap(block, big)); });
}

} // namespace
