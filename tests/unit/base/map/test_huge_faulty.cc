/* When the OS has no huge page to collapse a unit into, the unit stays as it is, and the next attempt waits. When the
   kernel is slow to find one for a new unit, no other is wanted for a while. */
#include "unit/base/faulty.h"

#include <cstring>
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
        hz_os_faulty_fail(0, UINT64_MAX);
        EXPECT_FALSE(hz_huge_collapse(&units, base, 0));
        EXPECT_GE(hz_os_faulty_failures(), 1U);
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

/* This spares other threads a wait: without it, a hypervisor may have to find memory during the collapse. */
TEST(HugeFaulty, ACollapseBeginsWithAHugePageThatGoesBack) {
    ASSERT_TRUE(unit::base_init());
    auto *base = static_cast<char *>(hz_os_map(HZ_SEGMENT_BYTES, HZ_SEGMENT_BYTES, false));
    ASSERT_NE(base, nullptr);
    memset(base, 1, HZ_HUGE_BYTES);
    hz_huge_units units = {0};
    ASSERT_TRUE(hz_huge_collapse_begin(&units, 0));
    unit::os_works_again();
    (void)hz_huge_collapse(&units, base, 0); /* this kernel may be unable to collapse */
    EXPECT_GE(hz_os_faulty_calls(), 2U) << "a purge, and the collapse";
    hz_huge_forget(&units);
    EXPECT_TRUE(hz_os_unmap(base, HZ_SEGMENT_BYTES));
}

/* Asks for a unit that becomes resident 20 s later. True if that counts as slow. */
bool is_slow(const struct hz_os_usage *used) {
    auto *base = static_cast<char *>(hz_os_map(HZ_SEGMENT_BYTES, HZ_SEGMENT_BYTES, false));
    EXPECT_NE(base, nullptr);
    hz_huge_units units = {0};
    struct hz_huge_figures before;
    struct hz_huge_figures after;
    hz_huge_figures_get(&before);
    hz_os_faulty_pace(20 * 1000 * 1000, used);
    hz_huge_ask(&units, base, 0, base);
    hz_os_faulty_pace(0, nullptr);
    hz_huge_figures_get(&after);
    hz_huge_forget(&units);
    EXPECT_TRUE(hz_os_unmap(base, HZ_SEGMENT_BYTES));
    return after.slow != before.slow;
}

TEST(HugeFaulty, OnlyTheTimeThatTheKernelMayHaveSpentMakesAUnitSlow) {
    constexpr size_t dense_bytes = 64 * MiB;
    ASSERT_TRUE(unit::base_init());
    hz_huge_dense_set(dense_bytes);
    const struct hz_os_usage waits_for_a_cpu = {2000, 0};
    const struct hz_os_usage works = {2001, 0};
    const struct hz_os_usage sleeps = {200, 1};
    auto block_gets_them = [] {
        constexpr size_t block_bytes = 8 * MiB;
        void *block = hz_os_map(block_bytes, HZ_HUGE_BYTES, false);
        EXPECT_NE(block, nullptr);
        bool gets_them = hz_huge_block_begin(static_cast<char *>(block), block_bytes);
        if (gets_them)
            hz_huge_block_end(block_bytes);
        EXPECT_TRUE(hz_os_unmap(block, block_bytes));
        return gets_them;
    };
    EXPECT_FALSE(is_slow(&waits_for_a_cpu));
    EXPECT_TRUE(hz_huge_is_wanted(dense_bytes)) << "other threads had the CPU";
    EXPECT_TRUE(block_gets_them());
    struct hz_huge_figures figures;
    hz_huge_figures_get(&figures);
    EXPECT_EQ(figures.most_us, 2000U);
    EXPECT_TRUE(is_slow(&works)) << "the kernel had to move memory";
    EXPECT_TRUE(is_slow(&sleeps)) << "perhaps it waited until other memory was moved";
    EXPECT_FALSE(hz_huge_is_wanted(dense_bytes)) << "for 160 s";
    EXPECT_FALSE(block_gets_them());
    EXPECT_TRUE(is_slow(nullptr)) << "nothing tells what the time was spent on";
    hz_huge_dense_set(0);
}

} // namespace
