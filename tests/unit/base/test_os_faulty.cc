/* The OS layer that refuses calls on request: which calls it counts, which it refuses. */
#include "unit/base/faulty.h"

#include <gtest/gtest.h>

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

} // namespace
