/* When the OS has no huge page to collapse a unit into, the unit stays as it is, and the next attempt waits. */
#include "unit/base/faulty.h"

#include <gtest/gtest.h>

namespace {

using support::MiB;

TEST(HugeFaulty, AfterARefusalTheNextAttemptWaits) {
    constexpr size_t dense_bytes = 64 * MiB;
    ASSERT_TRUE(unit::base_init());
    auto *base = static_cast<char *>(hz_os_map(HZ_SEGMENT_BYTES, HZ_SEGMENT_BYTES, false));
    ASSERT_NE(base, nullptr);
    hz_huge_units units = {0};
    hz_huge_dense_set(dense_bytes);
    auto try_in_vain = [&] {
        ASSERT_TRUE(hz_huge_collapse_begin(&units, 0));
        hz_os_faulty_fail(0, 1);
        EXPECT_FALSE(hz_huge_collapse(&units, base, 0));
        EXPECT_EQ(hz_os_faulty_failures(), 1U);
        EXPECT_EQ(hz_load_rlx(&units), 0) << "as if nothing had been tried";
    };
    ASSERT_TRUE(hz_huge_collapse_is_wanted(dense_bytes));
    uint64_t begin = hz_os_now_ms();
    try_in_vain();
    while (!hz_huge_collapse_is_wanted(dense_bytes) && hz_os_now_ms() < begin + 10000) {
    }
    EXPECT_GE(hz_os_now_ms(), begin + 1000);
    EXPECT_LT(hz_os_now_ms(), begin + 10000);
    try_in_vain();
    EXPECT_FALSE(hz_huge_collapse_is_wanted(dense_bytes));
    unit::os_works_again();
    struct hz_huge_figures figures;
    hz_huge_figures_get(&figures);
    EXPECT_EQ(figures.collapsed, 0U);
    EXPECT_TRUE(hz_os_unmap(base, HZ_SEGMENT_BYTES));
}

} // namespace
